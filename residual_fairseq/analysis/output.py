"""What an analysis leaves behind: numbers as JSON, tables, pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from ..formats import Table, as_text
from ..plots import Panel, plot
from ..results import versions, write_json


def by_layer(values: Sequence[float]) -> dict[float, float]:
    """A curve over layers, counted from 1."""
    return dict(enumerate(values, start=1))


@dataclass(frozen=True)
class Picture:
    """A picture to be drawn.

    Attributes:
        name: of its file, without ``.png``.
        title: above it.
        description: for a person who does not see it.
        panels: side by side.
    """

    name: str
    title: str
    description: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Analysis:
    """The outcome of an analysis.

    Attributes:
        name: of the subcommand.
        title: for a person.
        settings: everything that decides about the numbers.
        tables: for a person.
        pictures: of the numbers.
        numbers: all of them, as JSON has them.
    """

    name: str
    title: str
    settings: Mapping[str, Any]
    tables: Sequence[Table]
    pictures: Sequence[Picture]
    numbers: Any

    def write(self, folder: Path, command: str) -> list[Path]:
        """Write ``NAME.json`` and the pictures.

        What ``NAME.json`` holds:

            analysis, title     as above
            command             the whole command line
            settings, numbers   as above
            tables              each with "title", "columns", "rows" and "notes"
            pictures            each with its "file" in the same folder, "title", "description"
            versions            of what computed it

        Args:
            folder: made if it is missing.
            command: the command line.

        Returns:
            the files.
        """
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for picture in self.pictures:
            path = folder / f"{picture.name}.png"
            plot(picture.panels, path, title=picture.title, command=command)
            written.append(path)
        path = folder / f"{self.name}.json"
        write_json(
            path,
            {
                "analysis": self.name,
                "title": self.title,
                "command": command,
                "settings": self.settings,
                "tables": [asdict(table) for table in self.tables],
                "pictures": [
                    {"file": f"{p.name}.png", "title": p.title, "description": p.description}
                    for p in self.pictures
                ],
                "numbers": self.numbers,
                "versions": versions(),
            },
        )
        return [path, *written]

    def __str__(self) -> str:
        return as_text(self.tables)
