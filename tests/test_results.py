"""Results and their table."""

import pytest

from residual_fairseq.errors import UsageError
from residual_fairseq.results import comparison, read_json, write_json


def result(connection, bleu, **others):
    return {
        "connection": connection,
        "encoder_layers": 12,
        "decoder_layers": 3,
        "parameters": 1234567,
        "updates": 900,
        "words_per_second": 1234.5,
        "bleu": bleu,
        "signature": "nrefs:1",
        "machine": {"device": "2 CPU cores", "trainings_at_once": 3},
        **others,
    }


def test_table():
    text = comparison([result("post", 9.876), result("residual", 87.654)], {"pre 12+3": "why"})
    assert text.split("\n") == [
        "connection  depth  parameters  updates  words/s  sacreBLEU",
        "post         12+3   1,234,567      900    1,234       9.88",
        "residual     12+3   1,234,567      900    1,234      87.65",
        "pre          12+3                                   failed",
        "",
        "sacreBLEU: nrefs:1",
        "words/s: target units in training, 3 at once on 2 CPU cores",
        "pre 12+3 failed: why",
    ]


def test_speeds_that_do_not_compare_are_told_apart():
    alone = {"device": "2 CPU cores", "trainings_at_once": 1}
    text = comparison([result("post", 1), result("pre", 2, machine=alone)], {})
    assert "1 at once" in text and "3 at once" in text and "not comparable" in text


def test_only_failures():
    assert "failed" in comparison([], {"pre 1+1": "why"})


def test_json_comes_back_and_leaves_nothing_else(tmp_path):
    write_json(tmp_path / "a.json", {"é": [1, None]})
    assert read_json(tmp_path / "a.json") == {"é": [1, None]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert read_json(tmp_path / "b.json") is None


def test_half_a_json_file_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": ')
    with pytest.raises(UsageError, match="a.json: not a JSON file"):
        read_json(path)
