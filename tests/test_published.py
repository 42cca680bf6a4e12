"""Published numbers are consistent in themselves."""

from statistics import mean

import pytest

from residual_fairseq.published import PUBLISHED, WMT_AVERAGE, WMT_TESTS, of
from residual_fairseq.scoring import METRICS


@pytest.mark.parametrize("result", PUBLISHED, ids=lambda result: result.system)
def test_entries(result):
    assert result.metric in METRICS
    assert result.certainty in ("confirmed", "computed")
    assert result.case in ("mixed", "lc")
    assert result.source
    assert all(0 < float(score) < 100 for score in result.scores.values())
    assert result.deviations.keys() <= result.scores.keys()
    assert all(part.isdecimal() for part in filter(None, result.depth.split("+")))


def test_averages_are_those_of_their_numbers():
    whole = [result for result in PUBLISHED if {*WMT_TESTS, WMT_AVERAGE} == result.scores.keys()]
    assert len(whole) == 4
    for result in whole:
        average = mean(float(result.scores[test]) for test in WMT_TESTS)
        assert float(result.scores[WMT_AVERAGE]) == pytest.approx(average, abs=0.0051)
    opus = [result for result in of("opus100") if "en-X" in result.scores]
    assert len(opus) == 6
    for result in opus:
        average = mean(float(result.scores[kind]) for kind in ("en-X", "X-en"))
        assert float(result.scores["all"]) == pytest.approx(average, abs=0.0051)


def test_what_is_not_said_is_not_claimed():
    """A reader has to see what makes a number another one than ours, which is 256 wide."""
    for result in of("iwslt14 de-en"):
        if result.comparable:
            assert "wide" in result.remark or "width not said" in result.remark
    depths = {result.depth for result in of("wmt14_en_de en-de") if "Wang" in result.source}
    assert depths == {"20", "25", "30"}
    (deepnet,) = (result for result in of("opus100") if result.system == "DeepNet")
    assert deepnet.certainty == "computed"


def test_benchmarks():
    assert {result.system for result in of("multi30k en-de")} >= {"Transformer-Tiny, Post-LN"}
    assert of("iwslt14 de-en") and of("wmt_en_de en-de") and of("wmt14_en_de en-de")
    assert of("iwslt14 en-de") == []
