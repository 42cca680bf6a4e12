"""Multi30k from its files to a table."""

import gzip
import json
import subprocess
import sys

import pytest
from chains import ENVIRONMENT, SMALL, check_chain
from conftest import ROOT

from data_prep.embedded import generate


def write_multi30k(folder):
    """Files of the repository's names; the text is made."""
    folder.mkdir()
    lines = generate(("en", "de"), train=400, valid=30, test=90, seed=3)
    test = lines["test"]
    splits = {
        "train": lines["train"],
        "val": lines["valid"],
        "test_2016_flickr": test[:40],
        "test_2017_flickr": test[40:70],
        "test_2017_mscoco": test[70:],
    }
    for split, pairs in splits.items():
        for side, lang in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{lang}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return folder


@pytest.mark.slow
def test_multi30k(tmp_path):
    _, trained = check_chain("multi30k", write_multi30k(tmp_path / "raw"), tmp_path / "out")
    for result in trained:
        assert list(result["scores"]) == ["test2016", "test2017", "testcoco"]
        assert "case:lc" in result["signature"]
        assert result["averaged"] == 2
        assert result["effective_batch_tokens"] == 1000
        assert result["peak_memory_bytes"] > 2**27


@pytest.mark.slow
def test_single_steps(tmp_path):
    """What train.sh, average.sh and evaluate.sh do, one after the other."""

    def step(module, *arguments):
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)],
            env=ENVIRONMENT,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    corpus, out = tmp_path / "corpus", tmp_path / "run"
    made = step(
        "data_prep.multi30k",
        *("--archive", write_multi30k(tmp_path / "raw"), "--out", corpus, "--tests", "test2016"),
    )
    assert made.returncode == 0, made.stderr[-2000:]
    settings = [flag for value in SMALL for flag in ("--set", value)]
    train = [
        *("scripts.run", "train", "multi30k", "--corpus", corpus, "--out", out, *settings),
        *("--connection", "pre", "--layers", "1", "--average", "3"),
    ]
    early = step("scripts.run", "evaluate", out)
    assert early.returncode == 1 and "no run.json in it" in early.stderr
    trained = step(*train, "--updates", "150")
    assert trained.returncode == 0, trained.stderr[-2000:]
    other = step(*train, "--updates", "20")
    assert other.returncode == 1 and "max_update 150, not 20" in other.stderr
    average = step("scripts.run", "average", out)
    assert "average.pt: of 3 checkpoints" in average.stdout, average.stderr[-2000:]
    scored = step("scripts.run", "evaluate", out)
    assert scored.returncode == 0, scored.stderr[-2000:]
    result = json.loads((out / "result.json").read_text())
    bleu = result["scores"]["test2016"]["bleu"]
    assert f"test2016\tbleu\t{bleu['score']:.2f}\t{bleu['signature']}" in scored.stdout
    assert result["averaged"] == 3
