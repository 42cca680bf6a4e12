"""Results and their table."""

import pytest
from made_runs import scored, write_run

from residual_fairseq.errors import UsageError
from residual_fairseq.results import comparison, read_json, read_runs, write_json


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


def test_training_that_did_not_train_is_a_row():
    """It has a result.json, but no score in it."""
    failed = {
        key: result("pre", 0)[key] for key in ("connection", "encoder_layers", "decoder_layers")
    }
    text = comparison([result("post", 9.876), {**failed, "status": "failed", "reason": "NaN"}], {})
    assert text.split("\n")[2].split() == ["pre", "12+3", "failed"]
    assert text.endswith("pre 12+3 failed: NaN")


def test_runs_of_all_folders_each_once(tmp_path):
    write_run(tmp_path / "a" / "deep", "post", scores=scored({"one": 1}))
    write_run(tmp_path / "b", "post", (18, 6), 3, "failed", reason="why")
    runs = read_runs([tmp_path / "b", tmp_path, tmp_path / "a"])
    assert [(run.name, run.seed, run.failure) for run in runs] == [
        ("post 6+6", 1, None),
        ("post 18+6", 3, "why"),
    ]
    assert runs[0].scores == scored({"one": 1}) and runs[1].scores == {}
    assert runs[0].hypotheses_file("one") is None


def test_files_are_relative_to_the_folder_or_absolute(tmp_path):
    names = {"hypotheses": {"one": "one.en"}, "references": {"one": str(tmp_path / "one.en")}}
    path = write_run(tmp_path / "runs", "post", scores={}, **names)
    (run,) = read_runs([tmp_path])
    assert run.hypotheses_file("one") is None and run.references_file("one") is None
    (path.parent / "one.en").touch()
    (tmp_path / "one.en").touch()
    assert run.hypotheses_file("one") == path.parent / "one.en"
    assert run.references_file("one") == tmp_path / "one.en"


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"benchmark": None, "scores": {}}, "benchmark is None"),
        ({"status": "done"}, "status 'done' is neither"),
        ({"status": "failed"}, "there is no 'reason'"),
        ({}, "there is no 'scores'"),
        ({"scores": {"one": {"bleu": 5.0}}}, "scores of one: 5.0 is no score with signature"),
        ({"scores": {"one": 5.0}}, "scores of one: 5.0 is no score with signature"),
    ],
)
def test_unusable_results(tmp_path, changes, reason):
    path = write_run(tmp_path, "post", **changes)
    with pytest.raises(UsageError, match=f"{path}: {reason}"):
        read_runs([tmp_path])


def test_other_json(tmp_path):
    (tmp_path / "result.json").write_text("[1]")
    with pytest.raises(UsageError, match="result.json: not the result of a training"):
        read_runs([tmp_path])


def test_folders_without_results(tmp_path):
    with pytest.raises(UsageError, match="no result.json in it"):
        read_runs([tmp_path])
    with pytest.raises(UsageError, match="nowhere: no such folder"):
        read_runs([tmp_path / "nowhere"])


def test_the_same_training_twice_would_count_as_two_seeds(tmp_path):
    for folder in "ab":
        write_run(tmp_path / folder, "post", scores=scored({"one": 1}))
    with pytest.raises(UsageError, match="are both post 6.6 with seed 1 on made: leave one out"):
        read_runs([tmp_path])


def test_settings_are_what_should_be_the_same(tmp_path):
    for connection, depth, seed in (("post", (6, 6), 1), ("pre", (12, 3), 2)):
        write_run(tmp_path, connection, depth, seed, scores={})
    one, other = read_runs([tmp_path])
    assert one.settings == other.settings
    assert one.settings["recipe.optimization.lr"] == [0.001]
    assert one.settings["corpus.inputs.train.en"] == "abc"
    assert one.settings["effective_batch_tokens"] == 4096
    assert "recipe.optimization.update_freq" not in one.settings


def test_without_the_whole_batch_its_parts_count(tmp_path):
    write_run(tmp_path, "post", scores={}, effective_batch_tokens=None)
    (run,) = read_runs([tmp_path])
    assert run.settings["recipe.optimization.update_freq"] == [2]
