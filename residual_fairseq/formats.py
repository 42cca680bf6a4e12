"""Tables as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table for a person.

    Attributes:
        title: above it.
        columns: names of the columns.
        rows: a cell for each column.
        notes: below it, a line each.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]


def as_text(tables: Sequence[Table]) -> str:
    """Tables for a terminal."""
    return "\n\n".join(
        "\n".join([table.title, "", align(table.columns, table.rows), "", *table.notes])
        for table in tables
    )


def align(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out text in columns; those of numbers are aligned to the right.

    Args:
        columns: names of the columns.
        rows: a cell for each column.
    """
    laid_out = []
    for name, number, *cells in zip(columns, numeric(columns, rows), *rows):
        width = max(map(len, (name, *cells)))
        laid_out.append([f"{cell:{'>' if number else '<'}{width}}" for cell in (name, *cells)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*laid_out))


def numeric(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """For each column, whether it holds numbers."""
    return [any(row[i][:1].isdigit() for row in rows) for i in range(len(columns))]


def as_markdown(tables: Sequence[Table]) -> str:
    """Tables in GitHub's Markdown, the notes as lists."""
    parts = []
    for table in tables:
        rules = ["--:" if number else ":--" for number in numeric(table.columns, table.rows)]
        lines = [
            "| " + " | ".join(map(markdown, row)) + " |" for row in (table.columns, *table.rows)
        ]
        lines.insert(1, f"| {' | '.join(rules)} |")
        notes = [f"- {markdown(note)}" for note in table.notes]
        parts.append("\n".join([f"**{markdown(table.title)}**", "", *lines, "", *notes]))
    return "\n\n".join(parts)


def markdown(text: str) -> str:
    """Escape what Markdown would take for mark-up."""
    return re.sub(r"([\\`*_<>|\[\]#~])", r"\\\1", text)


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_\allowbreak{}",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    # A signature has no spaces to break the line at.
    "|": r"\textbar\allowbreak{}",
    "*": r"\textsuperscript{*}",
    "†": r"\textsuperscript{\dag}",
    "±": r"$\pm$",
    "ε": r"$\varepsilon$",
    "–": "--",
    '"': "''",
    # Behind the end of a row it would open an argument.
    "[": "{[}",
    "]": "{]}",
}


def as_latex(tables: Sequence[Table]) -> str:
    """Tables for LaTeX, each a float, made smaller if it is wider than the text."""
    parts = ["% needs \\usepackage{booktabs,graphicx}"]
    for table in tables:
        sides = "".join("r" if number else "l" for number in numeric(table.columns, table.rows))
        head, *rows = (" & ".join(map(latex, row)) + r" \\" for row in (table.columns, *table.rows))
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    r"\centering",
                    rf"\caption{{{latex(table.title)}}}",
                    r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
                    rf"\begin{{tabular}}{{{sides}}}",
                    r"\toprule",
                    head,
                    r"\midrule",
                    *rows,
                    r"\bottomrule",
                    r"\end{tabular}}",
                    r"\par\medskip\footnotesize\raggedright",
                    *(rf"{latex(note)}\par" for note in table.notes),
                    r"\end{table}",
                ]
            )
        )
    return "\n\n".join(parts)


def latex(text: str) -> str:
    """Escape what LaTeX would take for commands."""
    return "".join(_LATEX.get(character, character) for character in text)


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Comma-separated values, for programs; None is an empty field.

    Args:
        columns: names of the columns.
        rows: a value for each column.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([columns, *rows])
    return file.getvalue().removesuffix("\n")
