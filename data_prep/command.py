"""What the command lines of the benchmarks have in common."""

from __future__ import annotations

import argparse
from pathlib import Path


def parser(
    name: str, description: str, out: str, archive: str | None = None
) -> argparse.ArgumentParser:
    """A command line with ``--out``, ``--workers`` and, of what is downloaded, ``--archive``.

    Args:
        name: of the script, without its ending.
        description: for ``--help``.
        out: the default of ``--out``.
        archive: what ``--archive`` takes; None if the corpus is not downloaded.
    """
    command = argparse.ArgumentParser(prog=f"bash data_prep/{name}.sh", description=description)
    if archive:
        command.add_argument(
            "--archive",
            type=Path,
            metavar="FILE|FOLDER",
            help=f"{archive}, in place of the download",
        )
        command.add_argument(
            "--downloads",
            type=Path,
            default=Path("data", "downloads"),
            metavar="FOLDER",
            help="where downloads are kept (default: %(default)s)",
        )
    command.add_argument(
        "--out",
        type=Path,
        default=Path(out),
        metavar="FOLDER",
        help="folder to make: data-bin, test text and corpus.json (default: %(default)s)",
    )
    command.add_argument(
        "--workers", type=int, default=2, metavar="N", help="processes (default: %(default)s)"
    )
    return command
