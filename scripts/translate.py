"""Runs fairseq-generate several times in one process, which then imports fairseq only once.

    python -m scripts.translate TODO.json

The file is a list of commands without their first words, each with the file that says it is done.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from fairseq_cli import generate

from residual_fairseq.results import read_json, write_json


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    (todo,) = sys.argv[1:] if arguments is None else arguments
    for entry in read_json(todo):
        # fairseq logs into the file of the translations, and a second time not at all if there
        # is a handler from the first.
        logging.root.handlers.clear()
        generate.logging.getLogger("fairseq_cli.generate").handlers.clear()
        sys.argv = ["fairseq-generate", *entry["command"]]
        generate.cli_main()
        write_json(Path(entry["done"]), entry["command"])
        print(f"done: {entry['done']}", flush=True)


if __name__ == "__main__":
    main()
