"""``residual-analyze``: what a residual connection does to gradients, representations, training.

Usage::

    residual-analyze gradients --connections "post pre residual" --depths "6 18"
    residual-analyze representations --checkpoints RUN/checkpoints/checkpoint_best.pt ...
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from . import adam, gradients, representations, trainability

#: The module of each subcommand: its ``add_arguments`` and ``run``; its docstring is the help.
ANALYSES = {
    "gradients": gradients,
    "representations": representations,
    "adam": adam,
    "trainability": trainability,
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
        subparser.add_argument(
            "--out",
            type=Path,
            default=Path("results", "analysis"),
            metavar="FOLDER",
            help="for what comes of it (default: %(default)s)",
        )
    args = parser.parse_args(arguments)
    logging.disable(logging.INFO)
    try:
        analysis = ANALYSES[args.analysis].run(args)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        raise SystemExit(130) from None
    print(analysis)
    for path in analysis.write(args.out, shlex.join(["residual-analyze", *arguments])):
        print(path)
