"""Which connections train at which depth, with and without learning-rate warm-up."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import product
from pathlib import Path
from statistics import mean
from threading import Thread
from typing import Any, NamedTuple

import torch

from ..divergence import MARGIN, learnt_nothing
from ..errors import UsageError
from ..formats import Table
from ..models import ResidualTransformerModel
from ..plots import learning_curves
from ..results import read_json, versions, write_json
from .data import DataBin, quieten
from .models import new_model
from .output import Analysis, Picture
from .probe import loss_of
from .subjects import (
    NEW_MODELS,
    add_data,
    add_models,
    check_positive,
    connections_of,
    depths_of,
    settings_of,
    values_of,
)

#: Makes the default architecture small enough for a dozen trainings on a laptop.
NARROW = ["encoder.embed_dim=64", "encoder.ffn_embed_dim=128"]

#: Measurements of the validation loss in a training.
POINTS = 10


class Trial(NamedTuple):
    """A short training.

    Attributes:
        warmup: updates over which the learning rate rises; 0: it is there from the first on.
    """

    connection: str
    encoder_layers: int
    decoder_layers: int
    warmup: int
    seed: int

    def __str__(self) -> str:
        warmup = f"warm-up {self.warmup}" if self.warmup else "no warm-up"
        depth = f"{self.encoder_layers}+{self.decoder_layers}"
        return f"{self.connection} {depth}, {warmup}, seed {self.seed}"

    @property
    def setting(self) -> str:
        """What is common to the trials of a panel: ``18+18, no warm-up``."""
        return str(self).partition(" ")[2].rpartition(",")[0]


def train(
    model: ResidualTransformerModel,
    batches: Iterator[dict],
    valid: Iterable[dict],
    updates: int,
    lr: float,
    warmup: int = 0,
) -> Iterator[tuple[int, float]]:
    """Train by Adam, with a constant learning rate after its warm-up.

    β = (0.9, 0.98), ε = 1e-8, the loss is the negative log-likelihood, nothing is clipped, decayed
    or dropped. Ends early if the loss is not a number.

    Args:
        batches: for the updates, one each.
        valid: batches to measure the loss on.
        updates: how many.
        lr: of the updates after the warm-up.
        warmup: updates over which the rate rises linearly from lr / warmup.

    Yields:
        ten times, the number of updates, and the validation loss in bits per target unit.
    """
    valid = list(valid)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.98), eps=1e-8)
    interval = math.ceil(updates / POINTS)
    for update in range(1, updates + 1):
        model.train()
        model.set_num_updates(update - 1)
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, update / warmup) if warmup else lr
        optimizer.zero_grad()
        loss = loss_of(model, next(batches))
        loss.backward()
        optimizer.step()
        failed = not math.isfinite(loss.item())
        if failed or update % interval == 0 or update == updates:
            yield update, validation_bits(model, valid)
        if failed:
            return


@torch.no_grad()
def validation_bits(model: ResidualTransformerModel, batches: Iterable[dict]) -> float:
    """The mean negative log-likelihood in evaluation mode, in bits per target unit."""
    model.eval()
    total = units = 0.0
    for batch in batches:
        total += loss_of(model, batch).item() * batch["ntokens"]
        units += batch["ntokens"]
    return total / units / math.log(2)


def perform(trial: Trial, options: Mapping[str, Any]) -> dict[str, Any]:
    """Train one model, or read what an earlier call has found; for a process of its own.

    Args:
        options: ``data``, ``folder``, ``updates``, ``lr``, ``max_tokens``, ``valid_batches``,
            ``arch``, ``values``; whatever else decides about the outcome.

    Returns:
        ``settings``, at ``valid`` the losses by update, null where they are not finite, and the
        ``minutes`` that the training took.
    """
    settings = {
        **trial._asdict(),
        **{key: value for key, value in options.items() if key != "folder"},
    }
    path = Path(options["folder"], re.sub(r"[^\w+]+", "-", str(trial)) + ".json")
    known = read_json(path)
    if known and known["settings"] == settings:
        return known
    start = time.monotonic()
    quieten()
    torch.set_num_threads(1)
    data = DataBin(options["data"])
    layers = (trial.encoder_layers, trial.decoder_layers)
    model = new_model(
        data, trial.connection, layers, trial.seed, options["arch"], options["values"]
    )
    batches = data.batches("train", options["max_tokens"], trial.seed)
    valid = data.once("valid", options["max_tokens"], options["valid_batches"])
    torch.manual_seed(trial.seed)
    losses = {}
    for update, bits in train(
        model, batches, valid, options["updates"], options["lr"], trial.warmup
    ):
        losses[str(update)] = bits if math.isfinite(bits) else None
        print(f"{trial}: {bits:.2f} bits after {update} of {options['updates']}", flush=True)
    minutes = round((time.monotonic() - start) / 60, 2)
    found = {"settings": settings, "valid": losses, "minutes": minutes}
    write_json(path, found)
    return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_models(parser)
    parser.epilog = f"The default --arch is made narrower: --set {' --set '.join(NARROW)}."
    whole = {"type": int, "metavar": "N"}
    parser.add_argument(
        "--warmups",
        default="0 100",
        metavar='"N ..."',
        help="updates of warm-up, 0: none (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds", default="1", metavar='"N ..."', help="of the trainings (default: %(default)s)"
    )
    parser.add_argument(
        "--updates", **whole, default=400, help="of a training (default: %(default)s)"
    )
    parser.add_argument(
        "--lr", type=float, default=1e-3, metavar="R", help="learning rate (default: %(default)s)"
    )
    parser.add_argument(
        "--max-tokens", **whole, default=1024, help="of a batch at most (default: %(default)s)"
    )
    parser.add_argument(
        "--valid-batches",
        **whole,
        default=10,
        help="to measure the validation loss on, chosen at random (default: %(default)s)",
    )
    parser.add_argument(
        "--at-once",
        **whole,
        default=os.cpu_count(),
        help="trainings at the same time, on one core each (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> Analysis:
    """Short trainings of every connection at every depth, and which of them got anywhere."""
    data = DataBin(args.data)
    data.split("train"), data.split("valid")
    warmups, seeds = numbers_of("warmups", args.warmups), numbers_of("seeds", args.seeds)
    check_positive(args, "updates", "lr", "max_tokens", "valid_batches", "at_once")
    trials = [
        Trial(connection, *layers, warmup, seed)
        for layers, warmup, connection, seed in product(
            depths_of(args.depths), warmups, connections_of(args.connections), seeds
        )
    ]
    if args.arch == NEW_MODELS["arch"]:
        args.set = [*NARROW, *args.set]
    settings = settings_of(args, data)
    folder = args.out / "trainability"
    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "data": str(data.path),
        "folder": str(folder),
        **{key: getattr(args, key) for key in ("updates", "lr", "max_tokens", "valid_batches")},
        "arch": args.arch,
        "values": values_of(args),
        "data_sha256": settings["data_sha256"],
        "versions": versions(),
    }
    for connection, layers in {(trial.connection, trial[1:3]): None for trial in trials}:
        # What cannot be trained is refused before the first training.
        with torch.device("meta"):
            model = new_model(data, connection, layers, 1, args.arch, options["values"])
        if remark := model.too_short(args.updates):
            print(f"{connection}: {remark}")
    unigram = data.unigram_bits()
    print(f"{len(trials)} trainings; a model that knows frequencies alone: {unigram:.2f} bits")
    found = perform_all(trials, options, args.at_once)
    numbers = {
        "unigram_bits": unigram,
        "trials": [
            {
                **trial._asdict(),
                "valid": one["valid"],
                "failed": failed(one["valid"], unigram),
                "minutes": one["minutes"],
            }
            for trial, one in found.items()
        ],
    }
    curves = {trial: one["valid"] for trial, one in found.items()}
    return Analysis(
        name="trainability",
        title="Trainability",
        settings=settings,
        tables=[table(curves, unigram, args)],
        pictures=[picture(curves, unigram, args)],
        numbers=numbers,
    )


def perform_all(
    trials: Iterable[Trial], options: Mapping[str, Any], at_once: int
) -> dict[Trial, dict[str, Any]]:
    """What ``perform`` has found, for all trials."""
    start, done = time.monotonic(), {}
    trials = list(trials)
    # The longest first, so that none of them is left alone at the end.
    order = sorted(trials, key=lambda t: -(t.encoder_layers + t.decoder_layers))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, context, end_with_parent) as executor:
        running = {executor.submit(perform, trial, options): trial for trial in order}
        try:
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    done[running.pop(future)] = future.result()
                minutes = (time.monotonic() - start) / 60
                print(f"{len(done)} of {len(trials)} done in {minutes:.1f} minutes", flush=True)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    return {trial: done[trial] for trial in trials}


def end_with_parent() -> None:
    """Lets a process leave interrupts to its parent, and end when that has ended in any way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait_for_end():
        multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
        os._exit(1)

    Thread(target=wait_for_end, daemon=True).start()


def failed(curve: Mapping[str, float | None], unigram_bits: float) -> bool:
    """Whether a training has not left the level of the units' frequencies."""
    last = list(curve.values())[-1]
    return last is None or learnt_nothing(last, unigram_bits)


def numbers_of(flag: str, text: str) -> list[int]:
    words = text.split()
    if not words or not all(word.isdecimal() for word in words):
        raise UsageError(f"--{flag} {text!r}: write whole numbers")
    return list(dict.fromkeys(map(int, words)))


def table(
    found: Mapping[Trial, Mapping[str, float | None]], unigram: float, args: argparse.Namespace
) -> Table:
    settings = list(dict.fromkeys(trial.setting for trial in found))
    cells: dict[str, dict[str, list[float]]] = {}
    for trial, curve in found.items():
        last = math.nan if failed(curve, unigram) else list(curve.values())[-1]
        cells.setdefault(trial.connection, {}).setdefault(trial.setting, []).append(last)
    rows = [
        [name, *(cell(of.get(setting, [])) for setting in settings)] for name, of in cells.items()
    ]
    return Table(
        f"Validation loss after {args.updates:,} updates of at most {args.max_tokens:,} tokens",
        ["connection", *settings],
        rows,
        [
            f"bits per target unit; learning rate {args.lr:g}",
            f"failed: no more than {MARGIN} bits better than a model that knows the units' "
            f"frequencies and nothing else, {unigram:.2f}",
        ],
    )


def cell(losses: list[float]) -> str:
    """``5.10``, the mean over seeds; ``failed``; ``5.10 (1 of 3 failed)``."""
    trained = [loss for loss in losses if not math.isnan(loss)]
    if not trained:
        return "failed"
    lost = len(losses) - len(trained)
    return f"{mean(trained):.2f}" + (f" ({lost} of {len(losses)} failed)" if lost else "")


def picture(
    found: Mapping[Trial, Mapping[str, float | None]], unigram: float, args: argparse.Namespace
) -> Picture:
    panels = []
    for setting in dict.fromkeys(trial.setting for trial in found):
        curves: dict[str, dict[float, float]] = {}
        for connection in dict.fromkeys(trial.connection for trial in found):
            seeds = [
                curve
                for trial, curve in found.items()
                if (trial.connection, trial.setting) == (connection, setting)
            ]
            finite = [{u for u, bits in curve.items() if bits is not None} for curve in seeds]
            shared = set.intersection(*finite) if seeds else set()
            curves[connection] = {
                int(update): mean(curve[update] for curve in seeds) for update in shared
            }
        curves["frequencies alone"] = {0: unigram, args.updates: unigram}
        panels.append(learning_curves(curves, setting))
    return Picture(
        "trainability",
        f"Training at depth, learning rate {args.lr:g}",
        "Validation loss over updates, one line for each connection and one for a model that knows "
        f"frequencies alone; panels: {', '.join(panel.title for panel in panels)}.",
        panels,
    )
