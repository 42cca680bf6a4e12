"""Results of trainings: one JSON file for each, and the table over all of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping, Sequence

from .errors import UsageError


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Write a JSON file beside ``path`` and rename it into place."""
    path = Path(path)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file; None if there is none.

    Raises:
        UsageError: the file holds something else.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UsageError(f"{path}: not a JSON file ({error}); delete it and run again") from error


def name_of(result: Mapping[str, Any]) -> str:
    """What a training is called in tables and pictures: ``post 6+6``."""
    return f"{result['connection']} {result['encoder_layers']}+{result['decoder_layers']}"


def comparison(results: Sequence[Mapping[str, Any]], failures: Mapping[str, str]) -> str:
    """A table of trainings, and below it what its numbers mean.

    Args:
        results: contents of ``result.json``.
        failures: why others have none, by what they are called.
    """
    rows = [
        [
            *name_of(result).split(),
            f"{result['parameters']:,}",
            f"{result['updates']:,}",
            f"{result['words_per_second'] or 0:,.0f}",
            f"{result['bleu']:.2f}",
        ]
        for result in results
    ]
    rows += [[*name.split(), "", "", "", "failed"] for name in failures]
    columns = ["connection", "depth", "parameters", "updates", "words/s", "sacreBLEU"]
    lines = [table(columns, rows), ""]
    lines += sorted({f"sacreBLEU: {result['signature']}" for result in results})
    conditions = sorted(
        {
            f"words/s: target units in training, {machine['trainings_at_once']} at once on "
            f"{machine['device']}"
            for machine in (result["machine"] for result in results)
        }
    )
    if len(conditions) > 1:
        conditions.append("words/s: not comparable between trainings of different conditions")
    lines += conditions
    lines += [f"{name} failed: {reason}" for name, reason in failures.items()]
    return "\n".join(lines)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out text in columns; those of numbers are aligned to the right.

    Args:
        columns: names of the columns.
        rows: a cell for each column.
    """
    laid_out = []
    for name, *cells in zip(columns, *rows):
        width = max(map(len, (name, *cells)))
        number = any(cell[:1].isdigit() for cell in cells)
        laid_out.append([f"{cell:{'>' if number else '<'}{width}}" for cell in (name, *cells)])
    return "\n".join("  ".join(line).rstrip() for line in zip(*laid_out))
