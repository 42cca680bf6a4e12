"""Is one system better than another, or was it the choice of test sentences? Paired bootstrap."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from .scoring import check_equally_many

#: Metrics that can be resampled: those that sacreBLEU computes from plain text.
RESAMPLED = ("bleu", "cased_bleu", "chrf", "ter")

#: How often the test sentences are drawn.
SAMPLES = 1000

#: A smaller p-value counts as significant.
LEVEL = 0.05


class Comparison(NamedTuple):
    """Of a system and a baseline on the same sentences.

    Attributes:
        difference: of the scores, system minus baseline.
        p: of a difference this large, either way, if both were equally good.
    """

    difference: float
    p: float


def metric_of(name: str, signature: str) -> Metric:
    """The metric that made a score of :func:`residual_fairseq.scoring.scores`.

    Args:
        name: one of ``RESAMPLED``.
        signature: of the score.
    """
    said = dict(part.split(":", 1) for part in signature.split("|"))
    if name == "chrf":
        return CHRF(lowercase=said["case"] == "lc")
    if name == "ter":
        asian = said["asian"] == "yes"
        return TER(normalized=asian, asian_support=asian)
    # MeCab adds its version: "ja-mecab-0.996-IPA".
    tokenize = re.sub("(?<=mecab)-.*", "", said["tok"])
    return BLEU(lowercase=said["case"] == "lc", tokenize=tokenize)


def paired_bootstrap(
    baseline: Sequence[str], system: Sequence[str], references: Sequence[str], metric: Metric
) -> Comparison:
    """Compare two systems by paired bootstrap resampling (Koehn 2004), as sacreBLEU does it.

    ``sacrebleu REFERENCES -i BASELINE SYSTEM --paired-bs`` gives the same p-value. The sentences
    are drawn with a fixed seed, which the variable ``SACREBLEU_SEED`` sets.

    Args:
        baseline, system: their translations of the same sentences.
        references: of these sentences.
        metric: to compare them by.

    Raises:
        UsageError: unequal numbers of lines, or none.
    """
    check_equally_many(references=references, baseline=baseline, system=system)
    # It reports every resampling, and fairseq has switched such reports on.
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    test = PairedTest(
        [("baseline", list(baseline)), ("system", list(system))],
        {"metric": metric},
        [list(references)],
        test_type="bs",
        n_samples=SAMPLES,
    )
    _, columns = test()
    (results,) = (column for name, column in columns.items() if name != "System")
    return Comparison(results[1].score - results[0].score, results[1].p_value)
