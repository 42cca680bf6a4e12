"""One page, and its tables as CSV, Markdown and LaTeX, of all results and analyses in a folder."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import residual_fairseq

from ..errors import UsageError
from ..formats import Table, as_csv, as_latex, as_markdown
from ..plots import plot
from ..results import Run, read_json, read_run, speed_notes, write_text
from ..summary import check_known
from . import compare
from .html import PNG, Figure, Section, page

#: What a program reads of the tables, a cell a line.
CSV_COLUMNS = ("section", "source", "table", "row", "column", "value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("results"),
        metavar="FOLDER",
        help="searched for result.json and for what the other analyses write, however deep "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--baseline",
        metavar="CONNECTION",
        help="compare trainings with it by paired bootstrap (default: post, where there is one)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for the report (default: the same folder)"
    )


def main_of(args: argparse.Namespace, command: str) -> list[Path]:
    """Write ``report.html``, ``report.csv``, ``report.md`` and ``report.tex``.

    Args:
        command: the command line, for the page.

    Returns:
        the files.

    Raises:
        UsageError: nothing to report, or it cannot be written.
    """
    sections = sections_of(args.folder, args.baseline)
    title = f"Report of {args.folder.resolve().name}"
    made_by = f"{command}\nresidual-fairseq {residual_fairseq.__version__}"
    tables = [table for section in sections for table in named_tables(section)]
    out = args.out or args.folder
    texts = {
        "report.html": page(title, sections, made_by),
        "report.csv": csv_of(sections) + "\n",
        "report.md": markdown_of(title, sections) + "\n",
        "report.tex": as_latex(tables) + "\n",
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_text(out / name, text)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from error
    return [out / name for name in texts]


def sections_of(folder: Path, baseline: str | None = None) -> list[Section]:
    """Everything in a folder: first the trainings, then the analyses.

    Trainings make a section where they lie beside each other. A file that cannot be used is named
    on stderr and left out.

    Args:
        baseline: to compare trainings with; None: post, where there is one.

    Raises:
        UsageError: there is no such folder, nothing in it, or no training with the baseline.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    groups: dict[Path, list[Run]] = {}
    for path in sorted(folder.rglob("result.json")):
        run = usable(read_run, path)
        if run:
            groups.setdefault(path.parent.parent, []).append(run)
    check_known(
        "baseline",
        [baseline] if baseline else [],
        {run.connection for runs in groups.values() for run in runs},
    )
    found = [
        usable(trainings_section, runs, relative(place, folder), baseline or "post")
        for place, runs in groups.items()
    ]
    for path in sorted(folder.rglob("*.json")):
        if path.name != "result.json":
            found.append(usable(analysis_section, path, relative(path, folder)))
    sections = [section for section in found if section]
    if not sections:
        raise UsageError(f"{folder}: no usable result.json and no analysis in it")
    return sections


def usable(read: Callable, *arguments: Any) -> Any:
    """What a function returns; None, and why on stderr, if the file is not usable."""
    try:
        return read(*arguments)
    except UsageError as error:
        print(f"{error}; left out", file=sys.stderr)
    except OSError as error:
        print(f"residual_fairseq: {error.filename}: {error.strerror}; left out", file=sys.stderr)
    return None


def relative(path: Path, folder: Path) -> str:
    """A path in a report: from the folder that it is of, that one's name included."""
    return str(Path(folder.resolve().name, path.relative_to(folder)))


def trainings_section(runs: Sequence[Run], source: str, baseline: str) -> Section:
    """Trainings that lie beside each other, as ``compare`` puts them."""
    has_baseline = any(run.connection == baseline for run in runs)
    settings = {"metric": ["bleu"], "tests": None, "baseline": baseline if has_baseline else None}
    analysis = compare.analysis_of(runs, settings)
    contents = [read_json(run.path) for run in runs]
    commands = [
        content[key]
        for key in ("train_command", "generate_command")
        for content in contents
        if isinstance(content.get(key), str)
    ]
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for picture in analysis.pictures:
            path = Path(folder, "picture.png")
            plot(picture.panels, path, title=picture.title, command="\n".join(commands))
            figures.append(Figure(path.read_bytes(), picture.title, picture.description))
    return Section(
        title=f"Trainings on {', '.join(dict.fromkeys(run.benchmark for run in runs))}",
        source=source,
        commands=commands,
        settings=settings,
        tables=[*analysis.tables, training_table(runs, contents)],
        figures=figures,
    )


def training_table(runs: Sequence[Run], contents: Sequence[Mapping[str, Any]]) -> Table:
    """How each training went: updates, speed, memory, the last validation loss."""
    rows: list[list[str]] = []
    for run, content in zip(runs, contents):
        losses = content.get("valid_loss_bits")
        last = list(losses.values())[-1:] if isinstance(losses, dict) else []
        values = [*map(content.get, FORMS), *(last or [None])]
        rows.append([run.benchmark, run.connection, run.name.rpartition(" ")[2], str(run.seed)])
        for value, form in zip(values, [*FORMS.values(), "{:.2f}".format]):
            rows[-1].append(form(value) if isinstance(value, (int, float)) else "")
    machines = [content.get("machine") or {} for content in contents]
    notes = speed_notes([m for m in machines if {"trainings_at_once", "device"} <= m.keys()])
    columns = ["benchmark", "connection", "depth", "seed", "updates", "words/s", "peak memory, MiB"]
    return Table("Trainings one by one", [*columns, "last validation loss, bits"], rows, notes)


#: Numbers of a ``result.json``, and how they are written.
FORMS = {
    "updates": "{:,}".format,
    "words_per_second": "{:,.0f}".format,
    "peak_memory_bytes": lambda size: f"{size / 2**20:,.0f}",
}


def analysis_section(path: Path, source: str) -> Section | None:
    """An analysis, from its ``NAME.json``; None: the file is of something else.

    Raises:
        UsageError: it is no JSON, or not as ``Analysis.write`` writes it.
    """
    content = read_json(path)
    if not isinstance(content, dict) or "analysis" not in content:
        return None
    try:
        return Section(
            title=str(content["title"]),
            source=source,
            commands=[str(content["command"])],
            settings={**content["settings"], "versions": content.get("versions")},
            tables=list(map(read_table, content["tables"])),
            figures=[read_figure(path.parent, **picture) for picture in content["pictures"]],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: not as residual-analyze writes it ({error!r})") from error


def read_table(content: Mapping[str, Any]) -> Table:
    """A table from JSON.

    Raises:
        ValueError: a row has too many cells, or too few.
    """
    title, columns, rows, notes = (content[key] for key in ("title", "columns", "rows", "notes"))
    table = Table(
        str(title), list(map(str, columns)), [list(map(str, row)) for row in rows], map(str, notes)
    )
    if not columns or any(len(row) != len(columns) for row in rows):
        raise ValueError(f"table {title!r} is no table")
    return replace(table, notes=list(table.notes))


def read_figure(folder: Path, file: str, title: str, description: str) -> Figure:
    """A picture from JSON.

    Raises:
        ValueError: it is not in the same folder, or no PNG.
    """
    if Path(file).name != file:
        raise ValueError(f"picture {file!r} is in another folder")
    png = Path(folder, file).read_bytes()
    if not png.startswith(PNG):
        raise ValueError(f"picture {file!r} is no PNG")
    return Figure(png, str(title), str(description))


def named_tables(section: Section) -> Iterator[Table]:
    """The tables, their titles saying the section's too."""
    for table in section.tables:
        yield replace(table, title=f"{section.title}: {table.title}")


def csv_of(sections: Sequence[Section]) -> str:
    """All tables, a cell a line."""
    return as_csv(
        CSV_COLUMNS,
        [
            [section.title, section.source, table.title, number, column, cell]
            for section in sections
            for table in section.tables
            for number, row in enumerate(table.rows, start=1)
            for column, cell in zip(table.columns, row)
        ],
    )


def markdown_of(title: str, sections: Sequence[Section]) -> str:
    """All tables in GitHub's Markdown, with the commands and settings of each section."""
    parts = [f"# {title}"]
    for section in sections:
        parts.append(f"## {section.title}")
        parts += [f"    {command}" for command in section.commands]
        parts += [f"    {json.dumps(section.settings, ensure_ascii=False)}"]
        parts.append(as_markdown(section.tables))
    return "\n\n".join(parts)
