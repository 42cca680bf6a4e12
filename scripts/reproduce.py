"""A benchmark from its archive to a table: every connection at every depth with every seed."""

from __future__ import annotations

import argparse
import fcntl
import importlib
import itertools
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from residual_fairseq.errors import UsageError
from residual_fairseq.recipe import flatten
from residual_fairseq.report import render
from residual_fairseq.results import read_json, read_runs, write_text
from residual_fairseq.scoring import METRICS, check_comet
from residual_fairseq.summary import only, summarise
from scripts.benchmarks import BENCHMARKS, Benchmark
from scripts.quickstart import depth, positive
from scripts.trainings import Training, effective_batch, perform_all

#: The values of a recipe that the command line can change, by flag.
SHORTHANDS = {"updates": "optimization.max_update", "average": "checkpoint.keep_last_epochs"}


def parse(benchmark: Benchmark, arguments: list[str]) -> argparse.Namespace:
    """The command line of a benchmark."""
    layers = benchmark.layers
    parser = argparse.ArgumentParser(
        prog=f"bash scripts/reproduce-{benchmark.name.partition('_en_de')[0].replace('_', '-')}.sh",
        description=f"{benchmark.title} from its archive to a table: prepares the data, trains "
        "every connection at every depth with every seed, averages checkpoints, translates, "
        "scores. What is done is not done again; the same command goes on after an interruption. "
        f"Hyper-parameters are those of configs/{benchmark.recipe.name}.",
    )
    parser.add_argument(
        "--connections",
        default="post pre residual",
        metavar='"NAME ..."',
        help="residual connections (default: %(default)s)",
    )
    parser.add_argument(
        "--depths",
        default=f"{layers[0]}x{layers[1]}",
        metavar='"N NxM ..."',
        help="layers of encoder and decoder: 6, or 12x6 (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds", default="1", metavar='"N ..."', help="of the trainings (default: %(default)s)"
    )
    parser.add_argument(
        "--baseline",
        default="post",
        metavar="NAME",
        help="the connection that others are tested against (default: %(default)s)",
    )
    add_training_options(parser)
    add_comet(parser)
    parser.add_argument(
        "--at-once",
        type=positive,
        metavar="N",
        help="trainings at the same time, on one core each (default: with a GPU one, otherwise "
        "one more than there are cores)",
    )
    parser.add_argument(
        "--archive", type=Path, metavar="FILE|FOLDER", help="the data, in place of the download"
    )
    parser.add_argument(
        "--prepare",
        default="",
        metavar='"FLAG ..."',
        help=f"more flags for data preparation, see bash data_prep/{benchmark.name}.sh --help",
    )
    parser.add_argument(
        "--corpus", type=Path, metavar="FOLDER", help="data that is prepared already"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results", benchmark.name),
        metavar="FOLDER",
        help="for all that comes of it (default: %(default)s)",
    )
    # argparse would take a single flag behind --prepare for one of its own.
    arguments = list(arguments)
    for i in reversed(range(len(arguments) - 1)):
        if arguments[i] == "--prepare":
            arguments[i : i + 2] = [f"--prepare={arguments[i + 1]}"]
    return parser.parse_args(arguments)


#: The formats of the table besides text, by the ending of their files.
FORMATS = {"md": "markdown", "csv": "csv", "tex": "latex"}


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """The options that every training has."""
    parser.add_argument(
        "--updates", type=positive, metavar="N", help="length of a training (default: the recipe's)"
    )
    parser.add_argument(
        "--average",
        type=positive,
        metavar="N",
        help="checkpoints to keep and average, the last epochs' (default: the recipe's)",
    )
    parser.add_argument(
        "--devices",
        type=positive,
        metavar="N",
        help="GPUs for each training (default: as many as divide the batch; without any, the CPU)",
    )
    parser.add_argument(
        "--max-tokens",
        type=positive,
        metavar="N",
        help="tokens on a device at once (default: the recipe's); the batch stays as it is, since "
        "update-freq makes up for it",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="another value of the recipe, for all trainings; may be repeated",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print every command, and do nothing"
    )


def add_comet(parser: argparse.ArgumentParser) -> None:
    """The option to score with COMET."""
    parser.add_argument(
        "--comet",
        type=Path,
        metavar="CKPT",
        help="score with COMET too, by a model on this machine (needs unbabel-comet)",
    )


def preparation(benchmark: Benchmark, args: argparse.Namespace, corpus: Path) -> list[str]:
    """The command that prepares the data."""
    command = [sys.executable, "-m", benchmark.preparation, "--out", str(corpus)]
    if args.archive:
        command += ["--archive", str(args.archive)]
    return command + shlex.split(args.prepare)


def overrides(benchmark: Benchmark, args: argparse.Namespace) -> dict[str, Any]:
    """The values of the recipe that the options and the machine change.

    Raises:
        UsageError: the batch cannot be kept on these devices, or an option is unusable.
    """
    values: dict[str, Any] = {}
    for flag, key in SHORTHANDS.items():
        if getattr(args, flag) is not None:
            values[key] = getattr(args, flag)
    for setting in args.set:
        key, equals, value = setting.partition("=")
        if not equals or key.count(".") < 1:
            raise UsageError(f"--set {setting}: write SECTION.KEY=VALUE")
        values[key] = plain(value)
    recipe = benchmark.values(values)
    gpus = torch.cuda.device_count()
    if args.dry_run and (args.devices or 1) > 1:
        # The commands may be for another machine.
        gpus = max(gpus, args.devices)
    if gpus and getattr(args, "at_once", None) not in (None, 1):
        raise UsageError("--at-once is for a CPU: on GPUs one training runs after the other")
    devices = args.devices or 1
    if devices > max(gpus, 1):
        raise UsageError(f"--devices {devices}: this machine has {gpus or 'no'} GPUs")
    batch = effective_batch(recipe)
    max_tokens = args.max_tokens or recipe["dataset"]["max_tokens"]
    if not args.devices:
        # All GPUs, but for those that the batch is too small for.
        fitting = [n for n in range(1, gpus + 1) if batch % (max_tokens * n) == 0]
        devices = max(fitting, default=1)
    update_freq, rest = divmod(batch, max_tokens * devices)
    if rest or not update_freq:
        raise UsageError(
            f"--devices {devices} and {max_tokens} tokens on each do not make up a batch of "
            f"{batch} tokens: choose --devices and --max-tokens that divide it"
        )
    values["distributed_training.distributed_world_size"] = devices
    values["dataset.max_tokens"] = max_tokens
    values["optimization.update_freq"] = [update_freq]
    if not gpus:
        for key in ("fp16", "amp", "bf16"):
            if recipe["common"].get(key):
                print(f"no GPU: trains in float32, not with {key}", flush=True)
                values[f"common.{key}"] = False
    print(
        f"batch: {batch:,} tokens per update = {max_tokens:,} x {devices} "
        f"{'GPUs' if gpus else 'CPU'} x update-freq {update_freq}",
        flush=True,
    )
    return values


def plain(text: str) -> Any:
    """``0.1`` to a number, ``true`` to a boolean, as YAML has them."""
    import yaml

    return yaml.safe_load(text)


def trainings(
    benchmark: Benchmark,
    args: argparse.Namespace,
    values: Mapping[str, Any],
    out: Path,
    corpus: Path,
    record: Mapping[str, Any],
) -> list[Training]:
    """Every training that was asked for.

    Args:
        values: as ``overrides`` returns them.
        record: of the corpus, or what is known of it before it is prepared.

    Raises:
        UsageError: an unknown connection, or an unusable depth or seed, or the corpus is not one
            for this benchmark.
    """
    connections = words("connections", args.connections)
    try:
        depths = list(dict.fromkeys(depth(text) for text in words("depths", args.depths)))
    except argparse.ArgumentTypeError:
        raise UsageError(f"--depths {args.depths!r}: write them like 6 or 12x6") from None
    seeds = words("seeds", args.seeds)
    if not all(seed.isdecimal() and int(seed) for seed in seeds):
        raise UsageError(f"--seeds {args.seeds!r}: write whole numbers above 0")
    seeds = list(dict.fromkeys(map(int, seeds)))
    return [
        benchmark.training(
            connection=connection,
            layers=layers,
            folder=out / "runs" / f"{connection}-{layers[0]}x{layers[1]}-seed{seed}",
            corpus=corpus,
            record=record,
            overrides={**values, "common.seed": seed},
            comet=args.comet,
        )
        for connection, layers, seed in itertools.product(connections, depths, seeds)
    ]


def words(flag: str, text: str) -> list[str]:
    """The words of an option, each once."""
    found = list(dict.fromkeys(text.split()))
    if not found:
        raise UsageError(f"--{flag} is empty")
    return found


def check_models(planned: list[Training]) -> None:
    """Refuse what cannot be trained; once for each model, whatever the seeds.

    Raises:
        UsageError: as ``Training.check_model``.
    """
    models = {(t.connection, t.encoder_layers, t.decoder_layers): t for t in planned}
    for training in models.values():
        training.check_model()


def show_commands(training: Training) -> None:
    """Print every command of a training."""
    print(f"\n# {training.name}")
    print(shlex.join(training.train_command()))
    number = training.checkpoints_to_average()
    if number:
        print(shlex.join(training.average_command(number)))
    checkpoint = "average.pt" if number else "checkpoint_best.pt"
    for test in training.corpus_record["tests"]:
        print(shlex.join(training.generate_command(test, checkpoint)))


def main(arguments: list[str] | None = None) -> None:
    """The command line: name of the benchmark, and its options."""
    name, *arguments = sys.argv[1:] if arguments is None else arguments
    benchmark = BENCHMARKS[name]
    args = parse(benchmark, arguments)
    out = Path(os.path.abspath(args.out))
    corpus = Path(os.path.abspath(args.corpus or out / "corpus"))
    if args.corpus and (args.archive or args.prepare):
        raise UsageError("--corpus is prepared already: leave --archive and --prepare out")
    if args.comet:
        check_comet(args.comet)
    prepare = preparation(benchmark, args, corpus)
    if args.corpus:
        record = read_record(corpus)
    else:
        print(shlex.join(prepare), flush=True)
        record = importlib.import_module(benchmark.preparation).plan(prepare[3:])
    values = overrides(benchmark, args)
    # What cannot be trained is refused before data is prepared for it.
    planned = trainings(benchmark, args, values, out, corpus, record)
    check_models(planned)
    if args.dry_run:
        for training in planned:
            show_commands(training)
        return
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"--out {args.out}: another reproduction works there") from None
        if not args.corpus and subprocess.run(prepare).returncode:
            raise SystemExit(1)
        todo = trainings(benchmark, args, values, out, corpus, read_record(corpus))
        check_same_corpus(out, todo[0])
        for training in todo:
            training.claim_folder()
        failures = perform_all(todo, lock.fileno(), args.at_once)
    print()
    show_table(out, args.baseline)
    for training, reason in failures.items():
        print(f"{training} stopped: {reason}", file=sys.stderr)
    raise SystemExit(1 if failures else 0)


def check_same_corpus(out: Path, training: Training) -> None:
    """Check that the trainings in ``out`` and a new one fit into a table.

    Raises:
        UsageError: an earlier one is of another corpus.
    """
    now = dict(flatten(training.settings()["corpus"], "."))
    for path in sorted(out.glob("runs/*/settings.json")):
        before = dict(flatten(read_json(path)["corpus"], "."))
        for key in {**before, **now}:
            if before.get(key) != now.get(key):
                raise UsageError(
                    f"{path.parent} is of another corpus, with {key} {before.get(key)}, not "
                    f"{now.get(key)}: choose another --out"
                )


def show_table(out: Path, baseline: str) -> None:
    """Print the table of all trainings in ``out``, and write it in the other formats.

    The others are compared with the connection ``baseline``, if it is among them.

    chrF and TER are in the files that scroll: with them lines get too long for a terminal.
    """
    if not any(out.glob("runs/*/result.json")):
        return
    runs = read_runs([out / "runs"])
    scored = [run for run in runs if run.scores]
    found = next(iter(scored[0].scores.values())) if scored else {}
    metrics = [metric for metric in METRICS if metric in found] or ["bleu"]
    trained = {run.connection for run in scored}
    has_both = baseline in trained and len(trained) > 1
    whole = summarise(runs, metrics, None, baseline if has_both else None)
    narrow = [only(summary, set(metrics) - {"chrf", "ter"}) for summary in whole]
    print(render(narrow, "text"))
    for ending, form in FORMATS.items():
        summaries = narrow if form == "latex" else whole
        write_text(out / f"results.{ending}", f"{render(summaries, form)}\n")
    print(f"\nalso as {out / 'results'}.{{{','.join(FORMATS)}}}, in md and csv with chrF and TER")


def read_record(corpus: Path) -> dict[str, Any]:
    """The ``corpus.json`` of a prepared corpus.

    Raises:
        UsageError: there is none.
    """
    record = read_json(corpus / "corpus.json")
    if record is None:
        raise UsageError(f"--corpus {corpus}: no corpus.json in it; is it of data_prep?")
    return record


if __name__ == "__main__":
    logging.disable(logging.INFO)
    try:
        main()
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None
