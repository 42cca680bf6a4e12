"""OPUS-100 from its archives to a table."""

import json

import pytest
from archives_made import opus100_archives, unpack
from chains import check_chain, folder_of


@pytest.mark.slow
def test_opus100(tmp_path):
    archives = unpack(opus100_archives(), tmp_path / "archives")
    results, trained = check_chain(
        "opus100",
        archives,
        tmp_path / "out",
        *("--prepare", '--pairs "de fr an" --vocabulary-size 300'),
        # As in the recipe, an epoch is a part of the 900 pairs.
        *("--set", "task.virtual_epoch_size=600"),
    )
    record = json.loads((tmp_path / "out" / "corpus" / "corpus.json").read_text())
    assert record["options"]["train_only"] == ["an-en"]
    assert record["task"]["langs"] == "an,de,en,fr"
    for result in trained:
        assert list(result["scores"]) == [
            *("de-en", "en-de", "en-fr", "fr-en", "zero-shot de-fr", "zero-shot fr-de")
        ]
        assert result["averaged"] == 2
    log = (tmp_path / "out" / "runs" / folder_of(results[0]) / "train.log").read_text()
    assert "train_only:an-en" in log and "train_only:en-an" in log
