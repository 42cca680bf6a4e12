"""The stages of the quickstart: corpus, trainings, and what is shown of them."""

from __future__ import annotations

import argparse
import math
import os
import time
from pathlib import Path
from typing import Any, Mapping

from data_prep.embedded import write_corpus
from data_prep.options import Options
from data_prep.pipeline import describe, prepare, read_folder
from residual_fairseq.connections import REGISTRY
from residual_fairseq.errors import UsageError
from residual_fairseq.plots import plot_learning_curves
from residual_fairseq.recipe import read_recipe
from residual_fairseq.results import comparison, name_of, read_json
from residual_fairseq.scoring import read_lines
from scripts.trainings import Training, clock, perform_all

RECIPE = Path(__file__).resolve().parent.parent / "configs" / "quickstart.yaml"

#: Tuned on the embedded corpus, together with the recipe: 1000 and 4000 learn more slowly.
BPE_MERGES = 2000


def run(args: argparse.Namespace, out: Path, command: str, lock: int) -> dict[str, str]:
    """Do all stages.

    Args:
        args: the options of the quickstart.
        out: folder for the results, absolute.
        command: the command line, for the record.
        lock: file descriptor that the trainings hold open.

    Returns:
        by name of the training, why it failed; of those that did.

    Raises:
        UsageError: unusable options or text, or ``out`` holds something else.
    """
    start = time.monotonic()
    connections = known_connections(args.connections)
    recipe = read_recipe(RECIPE, {"task.data": ""})
    layers = args.layers or [recipe["model"][stack]["layers"] for stack in ("encoder", "decoder")]
    updates = args.updates or recipe["optimization"]["max_update"]
    # Ten points of the learning curve, and as many to resume an interrupted training from.
    interval = math.ceil(updates / 10)
    record = prepare_corpus(args, out)
    trainings = [
        Training(
            connection=connection,
            encoder_layers=layers[0],
            decoder_layers=layers[1],
            folder=out / "runs" / f"{connection}-{layers[0]}x{layers[1]}",
            corpus=out / "corpus",
            corpus_record=record,
            recipe=RECIPE,
            overrides={
                "optimization.max_update": updates,
                "common.seed": args.seed,
                "common.log_interval": math.ceil(interval / 10),
                "dataset.validate_interval_updates": interval,
                "checkpoint.save_interval_updates": interval,
            },
        )
        for connection in connections
    ]
    for training in trainings:
        training.check_model()
        training.claim_folder()
    failures = perform_all(trainings, lock)
    show(out, record, "embedded corpus" if args.data is None else args.data.name, failures, command)
    print(f"all done in {clock(time.monotonic() - start)} minutes")
    return failures


def known_connections(names: str) -> list[str]:
    """The connections of ``--connections``, each once.

    Raises:
        UsageError: there is no such connection, or none is named.
    """
    connections = list(dict.fromkeys(names.split()))
    if not connections or not REGISTRY.keys() >= set(connections):
        raise UsageError(
            f"--connections {names!r}: give one or more of {' '.join(sorted(REGISTRY))}"
        )
    return connections


def prepare_corpus(args: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Make the data-bin in ``out/corpus``, unless it is there; returns its record."""
    text = args.data
    if text is None:
        text = out / "text"
        written = write_corpus(text, (args.source, args.target))
        print(f"embedded corpus: {'made' if written else 'reused'}", flush=True)
    workers = os.cpu_count() or 1
    options = Options(args.source, args.target, bpe_merges=BPE_MERGES)
    record = prepare(read_folder(text, options), options, out / "corpus", workers)
    print(describe(record), flush=True)
    return record


def show(
    out: Path, record: Mapping[str, Any], title: str, failures: Mapping[str, str], command: str
) -> None:
    """Print the table and translations, and draw the learning curves, of all trainings in ``out``.

    Args:
        record: of the corpus; trainings on another one are left out.
        title: of the corpus, for a person.
        failures: of this call.
        command: for the picture's metadata.
    """
    found = {path.parent: read_json(path) for path in out.glob("runs/*/result.json")}
    results = {
        folder: result
        for folder, result in sorted(found.items())
        if result["corpus"]["inputs"] == record["inputs"]
    }
    print()
    print(comparison(list(results.values()), failures))
    scored = [folder for folder, result in results.items() if "bleu" in result]
    if not scored:
        return
    best = max(scored, key=lambda folder: results[folder]["bleu"])
    source, target = record["options"]["source"], record["options"]["target"]
    print(f"\nFrom the test set, translated by {name_of(results[best])}:")
    print(
        examples(
            read_lines(out / "corpus" / "text" / f"test.{source}"),
            read_lines(out / "corpus" / "text" / f"test.{target}"),
            read_lines(best / results[best]["hypotheses"]["test"]),
        )
    )
    pairs = record["counts"]["clean"]["train"]["pairs"]
    picture = out / "learning-curves.png"
    plot_learning_curves(
        {
            name_of(result): {int(u): loss for u, loss in result["valid_loss_bits"].items()}
            for result in results.values()
        },
        picture,
        title=f"{title}, {source} to {target}, {pairs:,} pairs",
        command=command,
    )
    print(f"\nlearning curves: {picture}")


def examples(source: list[str], reference: list[str], hypothesis: list[str], count: int = 5) -> str:
    """Lay out sentences of a test set, evenly spread over it."""
    lines = []
    for i in range(0, len(source), math.ceil(len(source) / count)):
        lines.append(f"\n  source      {source[i]}")
        lines.append(f"  reference   {reference[i]}")
        lines.append(f"  hypothesis  {hypothesis[i]}")
    return "\n".join(lines)
