"""Trainings: their folders and what is said about their progress."""

import dataclasses
import json

import pytest
from conftest import ROOT

from residual_fairseq.errors import UsageError
from scripts import trainings
from scripts.trainings import Progress, Training


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
