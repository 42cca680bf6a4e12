"""From text to BLEU scores, a table and a picture: see ``bash scripts/quickstart.sh --help``."""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import shlex
import sys
from pathlib import Path

DESCRIPTION = """\
Trains one Transformer with several residual connections on a parallel corpus, translates the test
set with beam 5, and shows parameters, speed, sacreBLEU, some translations and learning curves.

Without --data the corpus is made on the spot by Babel and num2words: dates, times, numbers,
amounts, countries and languages in English and German. The hyper-parameters are those of
configs/quickstart.yaml; more data than that corpus deserves more --updates.

What is done is never done twice: call it again to add connections or depths to the table, or to
go on after an interruption."""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bash scripts/quickstart.sh",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--connections",
        default="post pre residual",
        metavar='"NAME ..."',
        help="residual connections, separated by spaces (default: %(default)s)",
    )
    parser.add_argument(
        "--layers",
        type=depth,
        metavar="N or NxM",
        help="layers of the encoder and of the decoder (default: those of the recipe)",
    )
    parser.add_argument(
        "--updates",
        type=positive,
        metavar="N",
        help="length of each training (default: that of the recipe)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the trainings (default: %(default)s)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="plain text of your own: train, valid and test, each .SOURCE and .TARGET, one "
        "sentence a line (default: the embedded corpus)",
    )
    parser.add_argument(
        "--source", default="en", metavar="LANG", help="source language (default: %(default)s)"
    )
    parser.add_argument(
        "--target", default="de", metavar="LANG", help="target language (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results", "quickstart"),
        metavar="FOLDER",
        help="for everything that comes of it (default: %(default)s)",
    )
    return parser.parse_args(arguments)


def depth(text: str) -> tuple[int, int]:
    """``6`` to (6, 6), ``12x3`` or ``12+3`` to (12, 3)."""
    encoder, x, decoder = text.replace("+", "x").partition("x")
    return positive(encoder), positive(decoder if x else encoder)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    arguments = sys.argv[1:] if arguments is None else arguments
    args = parse(arguments)
    # While it is imported, fairseq logs what is of no use here.
    logging.disable(logging.INFO)
    try:
        # Only now, since importing fairseq takes seconds, and --help should not.
        from residual_fairseq.errors import UsageError
        from scripts.stages import run

        out = Path(os.path.abspath(args.out))
        try:
            out.mkdir(parents=True, exist_ok=True)
            lock = open(out / "lock", "w")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"--out {args.out}: another quickstart works there") from None
        except OSError as error:
            raise UsageError(f"--out {args.out}: {error.strerror}") from error
        with lock:
            command = shlex.join(["bash", "scripts/quickstart.sh", *arguments])
            failures = run(args, out, command, lock.fileno())
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
