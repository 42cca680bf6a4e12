"""One model of many languages learns each direction."""

import json

import pytest
from chains import run

from data_prep import embedded_corpus
from residual_fairseq.scoring import read_lines, scores


@pytest.mark.slow
def test_one_model_for_four_languages(tmp_path):
    """Every direction that was trained on is far better than copying the source would be."""
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    embedded_corpus.main(
        ["--languages", "en,de,fr,es", "--train", "3000", "--valid", "40", "--test", "60"]
        + ["--vocabulary-size", "1500", "--out", str(corpus)]
    )
    larger = {
        "task.virtual_epoch_size": "null",
        "model.encoder.embed_dim": 64,
        "model.encoder.ffn_embed_dim": 128,
        "model.attention_dropout": 0,
        "model.activation_dropout": 0,
        "dataset.max_tokens": 2000,
        "optimization.lr": "[0.004]",
        "lr_scheduler.warmup_updates": 100,
    }
    settings = [flag for key, value in larger.items() for flag in ("--set", f"{key}={value}")]
    process = run(
        "opus100",
        *("--corpus", corpus, "--out", out, "--connections", "pre", "--depths", "2"),
        *("--updates", "700", "--average", "1", *settings),
    )
    assert process.returncode == 0, process.stderr[-3000:]
    result = json.loads((out / "runs" / "pre-2x2-seed1" / "result.json").read_text())
    trained = [name for name in result["scores"] if not name.startswith("zero-shot")]
    assert sorted(trained) == ["de-en", "en-de", "en-es", "en-fr", "es-en", "fr-en"]
    assert len(result["scores"]) == 12
    for direction in trained:
        source, target = direction.split("-")
        folder = corpus / "text" / "-".join(sorted((source, target)))
        copied = scores(
            read_lines(folder / f"test.{source}"), read_lines(folder / f"test.{target}"), target
        )
        assert result["scores"][direction]["bleu"]["score"] > copied["bleu"]["score"] + 20
        assert result["scores"][direction]["off_target"]["score"] < 25
