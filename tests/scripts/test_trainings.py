"""Trainings: their folders and what is said about their progress."""

import dataclasses
import json

import pytest
from conftest import ROOT

from residual_fairseq.errors import UsageError
from scripts import trainings
from scripts.trainings import Progress, Training, perform_all, versions


@pytest.fixture
def training(tmp_path):
    return Training(
        connection="pre",
        encoder_layers=12,
        decoder_layers=3,
        folder=tmp_path / "runs" / "pre-12x3",
        corpus=tmp_path / "corpus",
        corpus_record={"options": {"source": "de", "target": "en"}, "inputs": {"train.de": "1"}},
        recipe=ROOT / "configs" / "quickstart.yaml",
        overrides={"optimization.max_update": 50},
    )


def test_command_has_the_options(training):
    command = " ".join(training.train_command())
    assert f"fairseq_cli.train {training.corpus}/bin" in command
    assert "--residual-connection pre " in command
    assert "--encoder-layers 12 " in command and "--decoder-layers 3 " in command
    assert "--max-update 50 " in command
    assert f"--save-dir {training.folder}/checkpoints" in command


def test_folder_is_taken_up_by_the_same_training_elsewhere(training):
    training.claim_folder()
    moved = dataclasses.replace(training, corpus=training.corpus / "moved")
    moved.claim_folder()


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"overrides": {"optimization.max_update": 60}}, "optimization.max_update 50, not 60"),
        (
            {"overrides": {"optimization.max_update": 60, "common.log_interval": 1}},
            "optimization.max_update 50, not 60",
        ),
        ({"connection": "post"}, "residual_connection pre, not post"),
        (
            {"corpus_record": {"options": {"source": "de", "target": "en"}, "inputs": {}}},
            "inputs.train.de 1, not None",
        ),
    ],
)
def test_folder_of_another_training_is_refused(training, changes, reason):
    training.claim_folder()
    with pytest.raises(UsageError, match=reason) as error:
        dataclasses.replace(training, **changes).claim_folder()
    assert str(training.folder) in str(error.value)


ELSEWHERE = {
    "common.log_interval": 7,
    "dataset.num_workers": 5,
    "dataset.max_tokens": 128,
    "optimization.update_freq": [2],
    "distributed_training.distributed_world_size": 2,
    "common.fp16": True,
}


def test_what_has_ended_is_taken_up_on_any_machine(training, capsys):
    training.claim_folder()
    moved = dataclasses.replace(training, overrides={**training.overrides, **ELSEWHERE})
    with pytest.raises(UsageError, match="max_tokens 512, not 128"):
        moved.claim_folder()
    (training.folder / "train.log").write_text("done training in 50 seconds\n")
    moved.claim_folder()
    assert "pre 12+3: was trained with recipe.common.fp16 None" in capsys.readouterr().out
    larger = {**moved.overrides, "dataset.max_tokens": 256}
    with pytest.raises(UsageError, match="effective_batch_tokens 512, not 1024"):
        dataclasses.replace(moved, overrides=larger).claim_folder()
    longer = {**moved.overrides, "optimization.max_update": 51}
    with pytest.raises(UsageError, match="max_update 50, not 51"):
        dataclasses.replace(moved, overrides=longer).claim_folder()


def test_logging_otherwise_is_no_other_training(training):
    training.claim_folder()
    logging = {key: ELSEWHERE[key] for key in ("common.log_interval", "dataset.num_workers")}
    dataclasses.replace(training, overrides={**training.overrides, **logging}).claim_folder()


@pytest.fixture
def translated(training, monkeypatch):
    """A training on lower-cased text that has ended, and its translations, which are perfect."""
    text = training.corpus / "text"
    text.mkdir(parents=True)
    for name, line in (
        ("test.de", "Ein Hund sieht ihn."),
        ("test.en", "A dog sees it now."),
        ("test.tok.en", "a dog sees it now ."),
    ):
        (text / name).write_text(line + "\n")
    record = {
        "options": {"source": "de", "target": "en", "tokenizer": "moses", "lowercase": True},
        "inputs": {},
        "tests": {"test": {"source": "de", "target": "en", "subset": "test", "text": "text/test"}},
    }
    ended = dataclasses.replace(training, corpus_record=record)
    ended.claim_folder()
    (ended.folder / "train.log").write_text("done training in 50 seconds\n")
    (ended.folder / "checkpoints").mkdir()
    (ended.folder / "checkpoints" / "checkpoint_best.pt").touch()
    ended.generated("test").parent.mkdir(parents=True)
    ended.generated("test").write_text("H-0\t-0.1\ta do@@ g sees it now .\n")
    monkeypatch.setattr(Training, "translate", lambda *arguments: None)
    return ended


def test_lower_cased_text_has_a_cased_score_too(translated):
    result = translated.perform(None, {})
    found = result["scores"]["test"]
    assert set(found) == {"bleu", "cased_bleu", "chrf", "ter", "tokenised_bleu"}
    assert "case:lc" in found["bleu"]["signature"]
    assert "case:mixed" in found["cased_bleu"]["signature"]
    assert found["bleu"]["score"] > 99 > found["cased_bleu"]["score"]
    assert translated.complete


@pytest.mark.parametrize(("lang", "tokenised"), [("zh_Hans", False), ("ko", True)])
def test_moses_tokens_are_scored_where_words_are_apart(training, lang, tokenised):
    options = {"source": "en", "target": lang, "tokenizer": "moses", "lowercase": False}
    training = dataclasses.replace(training, corpus_record={"options": options})
    assert ("tokenised_bleu" in training.metrics) == tokenised


def test_translations_may_outlive_the_checkpoints(translated):
    before = translated.perform(None, {})
    (translated.folder / "checkpoints" / "checkpoint_best.pt").unlink()
    assert translated.perform(None, {}) == before


@pytest.fixture
def comet(monkeypatch, tmp_path):
    """A stand-in for COMET: gives as the score how often it was asked."""
    model = tmp_path / "checkpoints" / "model.ckpt"
    model.parent.mkdir()
    for path in (model, tmp_path / "hparams.yaml"):
        path.touch()
    asked = []

    def comet_score(*texts_and_model):
        asked.append(texts_and_model)
        return {"score": len(asked), "signature": trainings.comet_signature(model)}

    monkeypatch.setattr(trainings, "comet_score", comet_score)
    monkeypatch.setattr(trainings, "check_comet", lambda model: None)
    monkeypatch.setattr("residual_fairseq.scoring.version", lambda name: "2.2.7")
    return model


def test_comet_of_a_training_that_has_a_result(translated, comet, capsys, tmp_path):
    """It is scored again with COMET, and neither trained nor scored a third time."""
    translated.perform(None, {})
    asking = dataclasses.replace(translated, comet=comet)
    with open(tmp_path / "lock", "w") as lock:
        for _ in range(2):
            assert perform_all([asking], lock.fileno()) == {}
    assert asking.result["scores"]["test"]["comet"]["score"] == 1
    shown = capsys.readouterr().out
    assert shown.count("BLEU on test") == 1 and shown.count("reused") == 1
    comet.write_text("another model")
    trainings.comet_signature.cache_clear()
    assert not asking.complete


def test_score_that_is_not_asked_for_again_stays(translated, comet):
    """... as long as the translations are the same."""
    dataclasses.replace(translated, comet=comet).perform(None, {})
    assert translated.perform(None, {})["scores"]["test"]["comet"]["score"] == 1
    translated.generated("test").write_text("H-0\t-0.1\ta cat .\n")
    assert "comet" not in translated.perform(None, {})["scores"]["test"]


def test_comet_that_is_not_there_is_refused_before_the_training(training, tmp_path):
    asking = dataclasses.replace(training, comet=tmp_path / "nowhere.ckpt")
    with open(tmp_path / "lock", "w") as lock:
        with pytest.raises(UsageError, match="nowhere.ckpt: no such file"):
            perform_all([asking], lock.fileno())


def test_failure_is_a_result_and_not_tried_again(training):
    training.claim_folder()
    failed = {"status": "failed", "reason": "loss nan"}
    (training.folder / "result.json").write_text(json.dumps(failed))
    assert training.train(None, {}) == "loss nan" and training.complete


def test_result_says_how_it_was_trained(translated):
    """Not how another call of the same command would train, on another machine."""
    (translated.folder / "training.json").write_text('{"train_command": "first", "versions": {}}')
    moved = dataclasses.replace(translated, overrides={**translated.overrides, **ELSEWHERE})
    result = moved.perform(None, {})
    assert (result["train_command"], result["versions"]) == ("first", {})
    assert result["recipe"]["dataset"]["max_tokens"] == 512
    assert result["effective_batch_tokens"] == 512
    assert {"sentencepiece", "numpy", "sacrebleu"} <= versions().keys()


def test_progress(training, monkeypatch):
    now = 0.0
    monkeypatch.setattr(trainings.time, "monotonic", lambda: now)
    progress = Progress(training)
    assert progress.line() == "pre 12+3: 0 of 50 updates"
    training.folder.mkdir(parents=True)
    log = training.folder / "train.log"
    stats = {"loss": "9", "nll_loss": "8.765", "wps": "5", "num_updates": "10"}
    log.write_text(json.dumps(stats) + "\n")
    assert progress.line() == "pre 12+3: 10 of 50 updates, training loss 8.77 bits per unit"
    now = 40.0
    stats.update(num_updates="20", nll_loss="7")
    log.write_text(log.read_text() + json.dumps(stats) + "\n")
    assert progress.line().endswith("20 of 50 updates, training loss 7.00 bits per unit, 2:00 left")
    log.write_text(log.read_text() + "done training in 50 seconds\n")
    assert progress.line() == "pre 12+3: trained, translating"
