"""One training by itself, step by step: train, average, evaluate."""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import logging
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from residual_fairseq.errors import UsageError
from residual_fairseq.results import read_json, write_json
from residual_fairseq.scoring import check_comet
from scripts.benchmarks import BENCHMARKS, Benchmark
from scripts.commands import CommandFailed, Commands
from scripts.quickstart import depth, positive
from scripts.reproduce import add_comet, add_training_options, overrides, read_record
from scripts.trainings import Training, describe_machine


def main(arguments: list[str] | None = None) -> None:
    """The command line: the step, and its options."""
    step, *arguments = sys.argv[1:] if arguments is None else arguments
    STEPS[step](arguments)


def train(arguments: list[str]) -> None:
    """Train a model, or go on with it."""
    parser = argparse.ArgumentParser(
        prog="bash scripts/train.sh",
        description="Trains one model on a prepared corpus with the recipe of a benchmark, or goes "
        "on where it was interrupted.",
    )
    parser.add_argument("benchmark", choices=BENCHMARKS, help="whose recipe")
    parser.add_argument(
        "--corpus", type=Path, required=True, metavar="FOLDER", help="made by data_prep"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="for the training")
    parser.add_argument(
        "--connection", default="residual", metavar="NAME", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--layers", type=depth, metavar="N|NxM", help="(default: those of the recipe)"
    )
    parser.add_argument("--seed", type=positive, default=1, metavar="N", help="(default: 1)")
    add_training_options(parser)
    args = parser.parse_args(arguments)
    benchmark = BENCHMARKS[args.benchmark]
    layers = args.layers or benchmark.layers
    run = {
        "benchmark": args.benchmark,
        "connection": args.connection,
        "encoder_layers": layers[0],
        "decoder_layers": layers[1],
        "corpus": os.path.abspath(args.corpus),
        "overrides": {**overrides(benchmark, args), "common.seed": args.seed},
    }
    training = training_of(args.out, run)
    training.check_model()
    if args.dry_run:
        print(shlex.join(training.train_command()))
        return
    training.claim_folder()
    write_json(training.folder / "run.json", run)

    def step(commands: Commands) -> None:
        print(shlex.join(training.train_command()), flush=True)
        failure = training.train(commands, describe_machine(1))
        if failure:
            if not training.result:
                training.record(commands, describe_machine(1), failure)
            raise UsageError(
                f"{args.out}: did not train: {failure}; to train again, remove that folder"
            )
        print(f"{args.out}: trained, see {training.folder / 'train.log'}")

    perform(training, step)


def average(arguments: list[str]) -> None:
    """Average the checkpoints of a training."""
    parser = argparse.ArgumentParser(
        prog="bash scripts/average.sh",
        description="Averages the checkpoints that a training has kept: residual-average with the "
        "recipe's number.",
    )
    args = parse_run(parser, arguments)
    training = training_of(args.run, read_run(args.run))
    if args.dry_run:
        print(shlex.join(training.average_command(training.checkpoints_to_average())))
        return
    check_trained(training, args.run)
    checkpoint, number = training.average()
    print(f"{training.folder / 'checkpoints' / checkpoint}: of {number} checkpoints")


def evaluate(arguments: list[str]) -> None:
    """Translate and score the test sets."""
    parser = argparse.ArgumentParser(
        prog="bash scripts/evaluate.sh",
        description="Averages the checkpoints of a training, translates its test sets and scores "
        "them; writes RUN/result.json.",
    )
    add_comet(parser)
    args = parse_run(parser, arguments)
    training = dataclasses.replace(training_of(args.run, read_run(args.run)), comet=args.comet)
    if args.comet:
        check_comet(args.comet)
    if args.dry_run:
        checkpoint = "average.pt" if training.checkpoints_to_average() else "checkpoint_best.pt"
        for test in training.corpus_record["tests"]:
            print(shlex.join(training.generate_command(test, checkpoint)))
        return
    check_trained(training, args.run)

    def step(commands: Commands) -> None:
        result = training.perform(commands, describe_machine(1))
        if result["status"] == "failed":
            raise UsageError(f"{args.run}: did not train: {result['reason']}")
        for test, metrics in result["scores"].items():
            for metric, score in metrics.items():
                print(f"{test}\t{metric}\t{score['score']:.2f}\t{score['signature']}")

    perform(training, step)


def check_trained(training: Training, folder: Path) -> None:
    """Check that there is a trained model.

    Raises:
        UsageError: there is none yet, or training has failed.
    """
    result = training.result
    if result and result["status"] == "failed":
        raise UsageError(f"{folder}: did not train: {result['reason']}")
    if not training.log.finished and not result:
        raise UsageError(f"{folder}: training has not come to its end; go on with train.sh")


STEPS = {"train": train, "average": average, "evaluate": evaluate}


def parse_run(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    parser.add_argument("run", type=Path, metavar="RUN", help="the --out of train.sh")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, do nothing")
    return parser.parse_args(arguments)


def read_run(folder: Path) -> dict:
    """What a training was to be.

    Raises:
        UsageError: the folder is not one of train.sh.
    """
    run = read_json(folder / "run.json")
    if run is None:
        raise UsageError(f"{folder}: no run.json in it; give the --out of train.sh")
    return run


def training_of(folder: Path, run: dict) -> Training:
    """The training that a ``run.json`` describes."""
    benchmark: Benchmark = BENCHMARKS[run["benchmark"]]
    corpus = Path(run["corpus"])
    return benchmark.training(
        connection=run["connection"],
        layers=(run["encoder_layers"], run["decoder_layers"]),
        folder=Path(os.path.abspath(folder)),
        corpus=corpus,
        record=read_record(corpus),
        overrides=run["overrides"],
    )


def perform(training: Training, step: Callable[[Commands], None]) -> None:
    """Do a step of a training that nobody else works on."""
    with open(training.folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{training.folder}: another command works on it") from None
        commands = Commands({}, lock.fileno())
        try:
            step(commands)
        except CommandFailed as error:
            raise UsageError(str(error)) from None
        except BaseException:
            commands.stop()
            raise


if __name__ == "__main__":
    logging.disable(logging.INFO)
    try:
        main()
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None
