"""Reads what fairseq-train logs in JSON: learning curves, speed, progress."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from statistics import median

from .errors import UsageError


@dataclass
class TrainingLog:
    """What a training has logged so far.

    Losses are negative log-likelihoods without label smoothing, in bits per target unit (fairseq
    logs base 2), by the number of updates.

    Attributes:
        train: mean over the updates since the entry before, measured while training.
        valid: on the validation set ``valid``.
        words_per_second: target units a second, the median over the entries of ``train``:
            validation and saving, which fall into a few of them, do not count. None before the
            first entry.
        updates: how far training is.
        parameters: of the model, shared ones counted once; None if the log does not say.
        device_memory: the most memory of the first GPU that any entry of ``train`` saw in use, in
            bytes, to a tenth of a GiB; None without a GPU.
        finished: whether training has come to its end.
        last_line: the last one that is not blank; of a training that failed, why.
    """

    train: dict[int, float] = field(default_factory=dict)
    valid: dict[int, float] = field(default_factory=dict)
    words_per_second: float | None = None
    updates: int = 0
    parameters: int | None = None
    device_memory: int | None = None
    finished: bool = False
    last_line: str = ""


def read_log(path: str | os.PathLike) -> TrainingLog:
    """Reads a log of ``fairseq-train --log-format json``.

    Either its standard output or the file of ``--log-file`` (which says neither the number of
    parameters nor reliably the end). The file may still be written to. A training that was
    interrupted and went on from a checkpoint may have appended to it: of updates that were done
    twice the later ones count.

    Raises:
        UsageError: there is no such file.
    """
    log = TrainingLog()
    speeds = {}
    total, free = None, []
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            for line in file:
                log.last_line = line.strip() or log.last_line
                stats = json_of(line)
                if "valid_num_updates" in stats:
                    log.updates = int(stats["valid_num_updates"])
                    log.valid[log.updates] = loss(stats, "valid_")
                elif "num_updates" in stats:
                    log.updates = int(stats["num_updates"])
                    log.train[log.updates] = loss(stats)
                    speeds[log.updates] = float(stats["wps"])
                    if "gb_free" in stats:
                        free.append(float(stats["gb_free"]))
                elif "num. shared model params:" in line:
                    log.parameters = int(re.findall(r"params: ([\d,]+)", line)[0].replace(",", ""))
                elif "; total memory = " in line and total is None:
                    total = float(re.findall(r"total memory = ([\d.]+) GB", line)[0])
                elif "done training in" in line:
                    log.finished = True
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if speeds:
        log.words_per_second = median(speeds.values())
    if total is not None and free:
        log.device_memory = round((total - min(free)) * 2**30)
    return log


def json_of(line: str) -> dict:
    """The JSON object at the end of a line; empty if there is none."""
    try:
        return json.loads(line[line.index("{") :])
    except ValueError:
        return {}


def loss(stats: dict, prefix: str = "") -> float:
    """The loss without label smoothing; criteria that do not smooth name it ``loss``."""
    return float(stats.get(f"{prefix}nll_loss", stats[f"{prefix}loss"]))
