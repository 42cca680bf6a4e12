"""The embedded corpus of two languages to a table, by the quickstart's recipe."""

import json

import pytest
from chains import run


@pytest.mark.slow
def test_bilingual_embedded_corpus(tmp_path):
    process = run(
        "embedded",
        *("--prepare", "--train 600 --valid 20 --test 30 --bpe-merges 200"),
        *("--out", tmp_path, "--connections", "pre", "--depths", "1", "--updates", "150"),
        *("--set", "dataset.validate_interval_updates=75"),
        *("--set", "checkpoint.save_interval_updates=75"),
    )
    assert process.returncode == 0, process.stderr[-3000:]
    result = json.loads((tmp_path / "runs" / "pre-1x1-seed1" / "result.json").read_text())
    assert result["status"] == "ok" and result["benchmark"] == "embedded en-de"
    assert f"{result['scores']['test']['bleu']['score']:.2f}" in process.stdout
