"""A report as one HTML page that needs nothing else: no network, no file beside it."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass
from html import escape
from typing import Any, Mapping, Sequence

from ..formats import Table, numeric

#: What each PNG begins with; width and height follow.
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@dataclass(frozen=True)
class Figure:
    """A picture that was drawn: the bytes of its PNG, what is above it, what it shows in words."""

    png: bytes
    title: str
    description: str


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Attributes:
        title: above it.
        source: where its numbers are.
        commands: that made them.
        settings: everything that decided about them, as JSON has it.
        tables, figures: of them.
    """

    title: str
    source: str
    commands: Sequence[str]
    settings: Mapping[str, Any]
    tables: Sequence[Table]
    figures: Sequence[Figure]


STYLE = """
:root { color-scheme: light dark; --page: #ffffff; --text: #1b1f24; --quiet: #57606a;
  --line: #d0d7de; --shade: #f3f5f7; --link: #0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181d; --text: #e6e9ec; --quiet: #a3acb5;
    --line: #3c444d; --shade: #20262d; --link: #79b8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--page);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1, h2 { line-height: 1.25; }
section { border-top: 1px solid var(--line); margin-top: 2rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
nav ul { padding-left: 1.25rem; }
nav a { display: inline-block; padding: 0.25rem 0; }
.quiet, .notes { color: var(--quiet); }
.notes { font-size: 0.875rem; margin: 0.5rem 0 2rem; padding-left: 1.25rem; }
.notes, dd { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
pre { background: var(--shade); padding: 0.5rem 0.75rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
summary { padding: 0.25rem 0; cursor: pointer; }
dl { display: grid; grid-template-columns: minmax(5rem, max-content) 1fr; gap: 0.25rem 1rem; }
dt { font-weight: 600; }
dd { margin: 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { caption-side: top; text-align: left; font-weight: 600; padding: 0.5rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: 0.4rem 0.75rem; text-align: left;
  white-space: nowrap; }
td.wide, thead .wide { white-space: normal; min-width: 16rem; }
thead th { background: var(--shade); vertical-align: bottom; }
tbody th { font-weight: 400; }
.number { text-align: right; }
th button { all: unset; cursor: pointer; font-weight: 600; padding: 0.25rem 0;
  overflow-wrap: normal; }
th button:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
th button::after { content: "\\a0 \\2195"; color: var(--quiet); }
th[aria-sort=ascending] button::after { content: "\\a0 \\2191"; color: var(--link); }
th[aria-sort=descending] button::after { content: "\\a0 \\2193"; color: var(--link); }
figure { margin: 1.5rem 0; }
figcaption { font-weight: 600; }
img { display: block; max-width: 100%; height: auto; background: #ffffff; }
/* On a phone a picture is dragged sideways: shrunk to the screen, its words could not be read. */
@media (max-width: 50rem) { img { max-width: none; width: 36rem; } img.wide { width: 66rem; } }
@media print { .scroll { overflow: visible; } td, th { white-space: normal; } }
"""

#: Makes buttons of the heads of tables. Cells without a number stay below those with one.
SCRIPT = """
const number = cell => {
  const found = /^[+-]?\\d[\\d,]*(\\.\\d+)?(e[+-]?\\d+)?/i.exec(cell);
  return found ? Number(found[0].replaceAll(",", "")) : NaN;
};
const compare = (a, b) => a.localeCompare(b, "en", {numeric: true});
for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const text = row => row.cells[head.cellIndex].textContent;
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows].map(row => [row, text(row), number(text(row))]);
    const numeric = head.classList.contains("number");
    rows.sort(([, a, m], [, b, n]) => {
      if (numeric && isNaN(m) !== isNaN(n)) return isNaN(m) ? 1 : -1;
      return sign * ((numeric && m - n) || compare(a, b));
    });
    body.append(...rows.map(([row]) => row));
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
  });
}
"""


def page(title: str, sections: Sequence[Section], made_by: str) -> str:
    """A page with a heading, a table of contents, and the sections.

    Its policy allows no script but its own and nothing from elsewhere, whatever its texts hold.

    Args:
        made_by: the command line and what else a reader should know of the page itself.
    """
    policy = (
        f"default-src 'none'; img-src data:; style-src {digest(STYLE)}; "
        f"script-src {digest(SCRIPT)}; base-uri 'none'; form-action 'none'"
    )
    links = "\n".join(
        f'<li><a href="#section-{i}">{escape(section.title)}</a> '
        f'<span class="quiet">{escape(section.source)}</span></li>'
        for i, section in enumerate(sections)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="quiet">The head of a table's column sorts by it.</p>
</header>
<nav aria-label="Contents">
<ul>
{links}
</ul>
</nav>
<main>
{"".join(map(section_html, range(len(sections)), sections))}</main>
<footer>
<p class="quiet">Made by:</p>
<pre>{escape(made_by)}</pre>
</footer>
<script>{SCRIPT}</script>
</body>
</html>
"""


def digest(text: str) -> str:
    """A source expression of a content security policy that allows this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def section_html(number: int, section: Section) -> str:
    name = f"section-{number}"
    commands = "".join(f"<pre>{escape(command)}</pre>\n" for command in section.commands)
    if len(section.commands) > 2:
        commands = f"<details>\n<summary>Commands</summary>\n{commands}</details>\n"
    settings = "".join(
        f"<dt>{escape(key)}</dt><dd>{escape(as_text(setting))}</dd>\n"
        for key, setting in section.settings.items()
    )
    if settings:
        settings = f"<details>\n<summary>Settings</summary>\n<dl>\n{settings}</dl>\n</details>\n"
    tables = (table_html(f"{name}-table-{i}", table) for i, table in enumerate(section.tables))
    return (
        f'<section>\n<h2 id="{name}">{escape(section.title)}</h2>\n'
        f'<p class="quiet">From <code>{escape(section.source)}</code></p>\n'
        f"{commands}{settings}{''.join(map(figure_html, section.figures))}{''.join(tables)}"
        "</section>\n"
    )


def as_text(setting: Any) -> str:
    """A setting for a person."""
    return setting if isinstance(setting, str) else json.dumps(setting, ensure_ascii=False)


def table_html(name: str, table: Table) -> str:
    """A table in a container that scrolls; the first cell of a row is its head."""
    numbers = numeric(table.columns, table.rows)
    heads = "".join(
        f'<th scope="col"{classes(column, number)}>{escape(column)}</th>'
        for column, number in zip(table.columns, numbers)
    )
    rows = []
    for row in table.rows:
        first, *others = (
            f"{classes(cell, number)}>{escape(cell)}" for cell, number in zip(row, numbers)
        )
        cells = "".join(f"<td{cell}</td>" for cell in others)
        rows.append(f'<tr><th scope="row"{first}</th>{cells}</tr>\n')
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in table.notes)
    return (
        f'<div class="scroll" role="group" aria-labelledby="{name}" tabindex="0">\n<table>\n'
        f'<caption id="{name}">{escape(table.title)}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody>\n</table>\n</div>\n"
        + (f'<ul class="notes">\n{notes}</ul>\n' if notes else "")
    )


def classes(cell: str, number: bool) -> str:
    """Of a cell: in a column of numbers or not, and whether its text is to be wrapped."""
    names = ["number"] * number + ["wide"] * (len(cell) > 40)
    return f' class="{" ".join(names)}"' if names else ""


def figure_html(figure: Figure) -> str:
    width, height = struct.unpack(">II", figure.png[len(PNG) : len(PNG) + 8])
    # Drawn at 150 dots an inch; CSS has 96.
    width, height = round(width * 0.64), round(height * 0.64)
    kind = ' class="wide"' if width > 1000 else ""
    title, description = escape(figure.title), escape(figure.description)
    return (
        f"<figure>\n<figcaption>{title}</figcaption>\n"
        f'<div class="scroll" role="group" aria-label="{title}" tabindex="0">'
        f'<img{kind} width="{width}" height="{height}" alt="{description}" '
        f'src="data:image/png;base64,{base64.b64encode(figure.png).decode()}"></div>\n</figure>\n'
    )
