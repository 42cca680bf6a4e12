"""Trainings that ran and did not train: a result of an experiment, not an accident."""

from __future__ import annotations

import math

import numpy as np

from .logs import TrainingLog

#: Bits per unit by which a model has to be better than the frequencies of the units to have
#: learnt anything. Those that do translate are several bits better; what learnt too little for
#: that and still more than this shows by its score.
MARGIN = 0.1


def unigram_bits(frequencies: np.ndarray) -> float:
    """The loss of a model that knows how frequent each unit is and nothing else, in bits per unit.

    Args:
        frequencies: of the units, ends of sentences among them.
    """
    shares = frequencies[frequencies > 0] / frequencies.sum()
    return -float((shares * np.log2(shares)).sum())


def learnt_nothing(loss: float, unigram_bits: float) -> bool:
    """Whether a loss in bits per unit is no better than that of frequencies, or no number."""
    return not loss < unigram_bits - MARGIN


def diverged(log: TrainingLog, unigram_bits: float | None) -> str | None:
    """Why a training has failed to train.

    Args:
        log: of the training, as far as it came.
        unigram_bits: entropy of the units and ends of sentences of the training text's target
            side, in bits per unit: the loss of a model that knows how frequent each is and nothing
            else. None: unknown, then only what is not a number or fairseq's own verdict counts.

    Returns:
        the reason, for a table's footnote; None if there is none.
    """
    if "Minimum loss scale reached" in log.last_line:
        return f"fp16 loss scale reached its minimum after {log.updates} updates"
    for name, losses in (("training", log.train), ("validation", log.valid)):
        for update, loss in losses.items():
            if not math.isfinite(loss):
                return f"{name} loss {loss} at update {update}"
    if unigram_bits is not None and log.valid:
        update, loss = max(log.valid.items())
        if learnt_nothing(loss, unigram_bits):
            return (
                f"validation loss {loss:.2f} bits per unit at update {update}, no better than "
                f"the units' frequencies ({unigram_bits:.2f})"
            )
    return None
