"""Which trainings have failed to train."""

import math

import pytest

from residual_fairseq.divergence import MARGIN, diverged
from residual_fairseq.logs import TrainingLog


def test_good_training():
    log = TrainingLog(train={10: 9.0, 20: 3.0}, valid={10: 8.9, 20: 2.5}, finished=True)
    assert diverged(log, 9.0) is None
    assert diverged(log, None) is None
    assert diverged(TrainingLog(), 9.0) is None


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_loss_that_is_no_number(loss):
    assert diverged(TrainingLog(train={10: 5.0, 20: loss}), None) == (
        f"training loss {loss} at update 20"
    )
    assert diverged(TrainingLog(train={10: 5.0}, valid={10: loss}), 9.0) == (
        f"validation loss {loss} at update 10"
    )


def test_unigram_level():
    at, below = 9.0 - MARGIN / 2, 9.0 - 2 * MARGIN
    reason = diverged(TrainingLog(valid={10: 3.0, 20: at}), 9.0)
    assert reason == (
        "validation loss 8.95 bits per unit at update 20, no better than the units' frequencies "
        "(9.00)"
    )
    assert diverged(TrainingLog(valid={10: at, 20: below}), 9.0) is None
    assert diverged(TrainingLog(valid={20: at}), None) is None


def test_loss_scale():
    line = (
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding."
    )
    log = TrainingLog(train={10: 5.0}, updates=10, last_line=line)
    assert diverged(log, None) == "fp16 loss scale reached its minimum after 10 updates"


def test_crash_is_no_divergence():
    assert diverged(TrainingLog(train={10: 5.0}, last_line="CUDA out of memory"), 9.0) is None
