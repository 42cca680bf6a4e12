"""Paired bootstrap, by sacreBLEU."""

import subprocess
import sys

import pytest
from made_runs import sentences, translations, write_lines
from sacrebleu.metrics import BLEU

from residual_fairseq.errors import UsageError
from residual_fairseq.scoring import score, scores
from residual_fairseq.significance import RESAMPLED, metric_of, paired_bootstrap


def test_better_system_and_equal_systems():
    references = sentences(100)
    bad, good = translations(references, 0.5, 1), translations(references, 0.2, 2)
    better = paired_bootstrap(bad, good, references, BLEU())
    assert better.difference > 5 and better.p < 0.01
    worse = paired_bootstrap(good, bad, references, BLEU())
    assert worse.difference == -better.difference and worse.p == better.p
    close = paired_bootstrap(bad, translations(references, 0.5, 3), references, BLEU())
    assert abs(close.difference) < 5 and close.p > 0.05
    same = paired_bootstrap(bad, bad, references, BLEU())
    assert same.difference == 0


def test_agrees_with_the_command(tmp_path):
    references = sentences(50)
    systems = [translations(references, errors, 1) for errors in (0.30, 0.27)]
    names = ["references", "baseline", "system"]
    for name, lines in zip(names, (references, *systems)):
        write_lines(tmp_path / name, lines)
    flags = ["-i", "baseline", "system", "--paired-bs", "--format", "json"]
    command = [sys.executable, "-m", "sacrebleu", "references", *flags]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    comparison = paired_bootstrap(*systems, references, BLEU())
    assert f'"p_value": {comparison.p}' in output.stdout


def test_unequal_lines():
    with pytest.raises(UsageError, match="2 references for 1 system"):
        paired_bootstrap(["a", "b"], ["a"], ["a", "b"], BLEU())


@pytest.mark.parametrize("lang, lowercase", [("en", False), ("en", True), ("zh", False)])
def test_metrics_come_back_from_their_signatures(lang, lowercase):
    hypotheses, references = ["A cat 在 这里", "The dog"], ["a Cat 在这里", "The dog barks"]
    found = scores(hypotheses, references, lang, lowercase)
    assert set(found) == set(RESAMPLED) - (set() if lowercase else {"cased_bleu"})
    for name, first in found.items():
        assert score(metric_of(name, first["signature"]), hypotheses, references) == first


def test_mecab_adds_its_version(monkeypatch):
    asked = []
    monkeypatch.setattr("residual_fairseq.significance.BLEU", lambda **kw: asked.append(kw))
    metric_of("bleu", "case:mixed|tok:ja-mecab-0.996-IPA")
    assert asked == [{"lowercase": False, "tokenize": "ja-mecab"}]
