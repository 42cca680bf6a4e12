"""``residual-analyze``: what a residual connection does to gradients, representations, training.

Usage::

    residual-analyze gradients --connections "post pre residual" --depths "6 18"
    residual-analyze representations --checkpoints RUN/checkpoints/checkpoint_best.pt ...
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from . import adam, collect, compare, gradients, representations, trainability
from .data import quieten

#: The module of each subcommand: ``add_arguments``, and ``run``, which gives an `Analysis`, or
#: ``main_of``, which writes files of its own; its docstring is the help.
ANALYSES = {
    "gradients": gradients,
    "representations": representations,
    "adam": adam,
    "trainability": trainability,
    "compare": compare,
    "report": collect,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog="residual-analyze",
        description="What a residual connection does to gradients, representations and training: "
        "pictures, tables, and all numbers as JSON.",
    )
    subparsers = parser.add_subparsers(dest="analysis", required=True, metavar="ANALYSIS")
    for name, module in ANALYSES.items():
        help = module.__doc__.split("\n")[0]
        subparser = subparsers.add_parser(name, help=help, description=help)
        module.add_arguments(subparser)
        if hasattr(module, "run"):
            subparser.add_argument(
                "--out",
                type=Path,
                default=Path("results", "analysis"),
                metavar="FOLDER",
                help="for what comes of it (default: %(default)s)",
            )
    args = parser.parse_args(arguments)
    quieten()
    try:
        written = perform(args, shlex.join(["residual-analyze", *arguments]))
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        raise SystemExit(130) from None
    for path in written:
        print(path)


def perform(args: argparse.Namespace, command: str) -> list[Path]:
    """Do what was asked for; returns the files that came of it.

    Args:
        command: the whole command line.
    """
    module = ANALYSES[args.analysis]
    if not hasattr(module, "run"):
        return module.main_of(args, command)
    check_folder(args.out)
    analysis = module.run(args)
    print(analysis)
    try:
        return analysis.write(args.out, command)
    except OSError as error:
        raise UsageError(f"--out {args.out}: {error.strerror}") from error


def check_folder(path: Path) -> None:
    """Refuses a folder that can't be written to, before long work for it.

    Raises:
        UsageError: a file is in its way, or a right is missing.
    """
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    try:
        tempfile.TemporaryFile(dir=existing).close()
    except OSError as error:
        raise UsageError(f"--out {path}: {existing}: {error.strerror}") from error
