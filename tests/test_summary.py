"""From results to the numbers of a table."""

import json
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import scored, sentences, write_lines, write_run, write_translated_run
from sacrebleu.metrics import BLEU

from residual_fairseq.errors import UsageError
from residual_fairseq.results import read_runs
from residual_fairseq.significance import Comparison, paired_bootstrap
from residual_fairseq.summary import MAX_TESTS, averages, summarise, verdict


def summary_of(folder, *arguments, **options):
    """The summary of all results in a folder, which are of one benchmark."""
    (summary,) = summarise(read_runs([folder]), *arguments, **options)
    return summary


def cells(row):
    return {column.test: seeds for column, seeds in row.cells.items()}


def test_mean_and_deviation_over_seeds_and_test_sets(tmp_path):
    for seed, one, two in ((1, 20, 30), (2, 22, 34), (3, 24, 32)):
        write_run(tmp_path, "post", seed=seed, scores=scored({"one": one, "two": two}))
    (row,) = summary_of(tmp_path).rows
    assert cells(row)["one"] == (22, 2, 3)
    assert cells(row)["two"] == (32, 2, 3)
    # Means of the seeds: 25, 28, 28. Their deviation is not the mean of the others.
    assert cells(row)["average"] == (27, pytest.approx(3**0.5), 3)


def test_one_seed_has_no_deviation(tmp_path):
    write_run(tmp_path, "post", scores=scored({"one": 20}))
    (row,) = summary_of(tmp_path).rows
    assert list(row.cells.values()) == [(20, None, 1)]


def test_seeds_that_failed_or_lack_a_test_set(tmp_path):
    write_run(tmp_path, "post", seed=1, scores=scored({"one": 20, "two": 30}))
    write_run(tmp_path, "post", seed=2, scores=scored({"one": 22}))
    write_run(tmp_path, "post", seed=3, status="failed", reason="NaN")
    (row,) = summary_of(tmp_path).rows
    assert [run.failure for run in row.failed] == ["NaN"] and len(row.runs) == 2
    assert cells(row)["one"] == (21, pytest.approx(2**0.5), 2)
    # Not the mean of 25 and 22: an average over other test sets is another number.
    assert cells(row)["average"] == (25, None, 1)


def test_all_failed(tmp_path):
    write_run(tmp_path, "post", status="failed", reason="NaN")
    summary = summary_of(tmp_path, baseline="post")
    assert summary.columns == [] and len(summary.rows) == 1


def test_rows_by_depth_and_with_the_baseline_first(tmp_path):
    for connection in ("a", "post", "z"):
        for depth in ((18, 18), (6, 6), (18, 6)):
            write_run(tmp_path, connection, depth, scores=scored({"one": 1}))
    names = [row.first.name for row in summary_of(tmp_path, baseline="post").rows]
    assert names[:4] == ["post 6+6", "a 6+6", "z 6+6", "post 18+6"]
    assert summary_of(tmp_path).rows[0].first.name == "a 6+6"


def test_benchmarks_are_apart(tmp_path):
    write_run(tmp_path / "a", "post", scores=scored({"one": 1}))
    write_run(tmp_path / "b", "post", scores=scored({"one": 2}, "other"), benchmark="another")
    summaries = summarise(read_runs([tmp_path]))
    assert [summary.benchmark for summary in summaries] == ["another", "made"]


def test_averages_of_directions():
    tests = ["en-de", "en-fr", "de-en", "fr-en", "zero-shot de-fr", "zero-shot fr-de"]
    assert averages(tests) == {
        "en-X": ["en-de", "en-fr"],
        "X-en": ["de-en", "fr-en"],
        "all": ["en-de", "en-fr", "de-en", "fr-en"],
        "zero-shot": ["zero-shot de-fr", "zero-shot fr-de"],
    }
    assert averages(["en-de", "de-en", "de-fr", "fr-de"]) == {
        "X-Y": ["de-fr", "fr-de"],
        "all": ["en-de", "de-en", "de-fr", "fr-de"],
    }
    assert averages(["en-de", "en-fr"]) == {"en-X": ["en-de", "en-fr"]}
    assert averages(["newstest2014", "newstest2015"]) == {
        "average": ["newstest2014", "newstest2015"]
    }
    assert averages(["test"]) == averages(["en-de"]) == {}


@given(
    st.lists(st.sampled_from(["en-de", "de-en", "en-fr", "de-fr", "zero-shot fr-nl"]), unique=True)
)
def test_every_direction_is_averaged_in_one_kind_and_in_all(tests):
    kinds = averages(tests)
    kinds.pop("all", None)
    found = [test for over in kinds.values() for test in over]
    assert len(found) == len(set(found)) and set(found) <= set(tests)


def test_many_test_sets_are_shown_on_request_only(tmp_path):
    names = [f"test{i}" for i in range(MAX_TESTS + 1)]
    write_run(tmp_path, "post", scores=scored({name: i for i, name in enumerate(names)}))
    assert [column.test for column in summary_of(tmp_path).columns] == ["average"]
    columns = summary_of(tmp_path, tests=["test5", "test2"]).columns
    assert [column.test for column in columns] == ["test5", "test2", "average"]
    assert cells(summary_of(tmp_path, tests=["test5", "test2"]).rows[0])["average"].mean == 3.5


def test_several_metrics(tmp_path):
    both = {"one": {**scored({"one": 1})["one"], **scored({"one": 2}, "s", "chrf")["one"]}}
    write_run(tmp_path, "post", scores=both)
    summary = summary_of(tmp_path, ["chrf", "bleu"])
    assert [column.metric for column in summary.columns] == ["chrf", "bleu"]
    assert summary.signatures == {"chrf": {"s": ["one"]}, "bleu": {"tok:13a": ["one"]}}


def test_signatures_by_test_set(tmp_path):
    scores = {**scored({"en-de": 1, "en-fr": 2}), **scored({"en-zh": 3}, "tok:zh")}
    write_run(tmp_path, "post", scores=scores)
    assert summary_of(tmp_path).signatures == {
        "bleu": {"tok:13a": ["en-de", "en-fr"], "tok:zh": ["en-zh"]}
    }


def test_two_signatures_in_one_column_are_refused(tmp_path):
    one = write_run(tmp_path, "post", scores=scored({"one": 1}))
    other = write_run(tmp_path, "pre", scores=scored({"one": 2}, "tok:zh"))
    message = f"{one} and {other} do not compare: bleu of one is by tok:13a and by tok:zh"
    with pytest.raises(UsageError, match=message):
        summary_of(tmp_path)


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"metrics": ["comet"]}, "--metric comet: none of the trainings has it; there are: bleu"),
        ({"tests": ["two"]}, "--tests two: none of the trainings has it; there are: one"),
        ({"baseline": "pre"}, "--baseline pre: none of the trainings has it; there are: post"),
    ],
)
def test_what_there_is_not(tmp_path, options, reason):
    write_run(tmp_path, "post", scores=scored({"one": 1}))
    with pytest.raises(UsageError, match=reason):
        summary_of(tmp_path, **options)


def test_recipes_that_differ_are_named(tmp_path):
    write_run(tmp_path, "post", scores=scored({"one": 1}))
    write_run(tmp_path, "pre", scores=scored({"one": 1}), averaged=5)
    write_run(tmp_path, "z", status="failed", reason="NaN", averaged=10)
    assert summary_of(tmp_path).differences == {
        "averaged": {"10": ["post 6+6 seed 1", "z 6+6 seed 1"], "5": ["pre 6+6 seed 1"]}
    }


def test_a_failed_training_has_averaged_nothing(tmp_path):
    write_run(tmp_path, "post", scores=scored({"one": 1}))
    path = write_run(tmp_path, "pre", status="failed", reason="NaN")
    content = json.loads(path.read_text())
    del content["averaged"]
    path.write_text(json.dumps(content))
    assert summary_of(tmp_path).differences == {}


def test_other_corpora_are_refused(tmp_path):
    write_run(tmp_path, "post", scores=scored({"one": 1}))
    corpus = {"options": {"lowercase": True}, "inputs": {"train.en": "abc"}}
    write_run(tmp_path, "pre", scores=scored({"one": 1}), corpus=corpus)
    message = "not of the same made: corpus.options.lowercase is False and True"
    with pytest.raises(UsageError, match=message):
        summary_of(tmp_path)


def test_comparison_is_over_all_test_sets_together_and_seed_by_seed(tmp_path):
    for seed in (1, 2):
        write_translated_run(tmp_path, "post", 0.5, ("one", "two"), seed)
        write_translated_run(tmp_path, "pre", 0.2, ("one", "two"), seed)
    baseline, system = summary_of(tmp_path, baseline="post").rows
    assert baseline.comparisons is None
    assert list(system.comparisons) == [("one", "two")]
    by_seed = system.comparisons["one", "two"]
    assert set(by_seed) == {1, 2} and by_seed[1] != by_seed[2]

    texts = []
    for connection in ("post", "pre"):
        folder = tmp_path / f"{connection}-6x6-1"
        texts.append(
            (folder / "one.en").read_text().split("\n")[:-1]
            + (folder / "two.en").read_text().split("\n")[:-1]
        )
    references = sentences(60, seed=0) + sentences(60, seed=1)
    assert by_seed[1] == paired_bootstrap(*texts, references, BLEU())
    assert verdict(by_seed, "bleu") == "better"


def test_directions_are_compared_each_by_itself(tmp_path):
    for connection, errors in (("post", 0.5), ("pre", 0.2)):
        write_translated_run(tmp_path, connection, errors, ("en-de", "de-en"))
    _, system = summary_of(tmp_path, baseline="post").rows
    assert list(system.comparisons) == [("en-de",), ("de-en",)]


@pytest.mark.parametrize("name", ["one.en", "one.reference"])
def test_no_comparison_without_files(tmp_path, name):
    write_translated_run(tmp_path, "post", 0.5)
    path = write_translated_run(tmp_path, "pre", 0.2)
    (path.parent / name).unlink()
    _, system = summary_of(tmp_path, baseline="post").rows
    assert system.comparisons is None


def test_no_comparison_with_another_depth_or_seed(tmp_path):
    write_translated_run(tmp_path, "post", 0.5, seed=1)
    write_translated_run(tmp_path, "pre", 0.2, seed=2)
    write_translated_run(tmp_path, "z", 0.2, seed=1, depth=(12, 12))
    assert all(row.comparisons is None for row in summary_of(tmp_path, baseline="post").rows)


def test_translations_that_were_not_scored_are_refused(tmp_path):
    write_translated_run(tmp_path, "post", 0.5)
    path = write_translated_run(tmp_path, "pre", 0.2)
    write_lines(path.parent / "one.en", sentences(60))
    with pytest.raises(UsageError, match="one.en: its bleu is 100.00, but .* score it again"):
        summary_of(tmp_path, baseline="post")
    write_lines(path.parent / "one.en", sentences(59))
    with pytest.raises(UsageError, match="one.en has 59 lines, its reference 60"):
        summary_of(tmp_path, baseline="post")


def test_different_references_are_refused(tmp_path):
    write_translated_run(tmp_path, "post", 0.5, ("one",))
    write_translated_run(tmp_path, "pre", 0.2, ("zero", "one"))
    with pytest.raises(UsageError, match="scored against different references of one"):
        summary_of(tmp_path, baseline="post")


def test_metrics_that_cannot_be_resampled(tmp_path):
    for connection in ("post", "pre"):
        write_run(tmp_path, connection, scores=scored({"one": 1}, metric="comet"))
    summary = summary_of(tmp_path, ["comet"], baseline="post")
    assert summary.compared_by is None
    assert all(row.comparisons is None for row in summary.rows)


def test_verdict_needs_every_seed():
    better, worse, equal = Comparison(1.0, 0.01), Comparison(-1.0, 0.01), Comparison(1.0, 0.2)
    assert verdict({1: better, 2: better}, "bleu") == "better"
    assert verdict({1: worse, 2: worse}, "bleu") == "worse"
    assert verdict({1: worse, 2: worse}, "ter") == "better"
    assert verdict({1: better, 2: worse}, "bleu") is None
    assert verdict({1: better, 2: equal}, "bleu") is None


def test_off_target_of_the_references(tmp_path):
    scores = scored({"en-de": 5, "de-en": 6}, "nb", "off_target")
    for rate, by_metric in zip((1, 2), scores.values()):
        by_metric["off_target"]["references"] = rate
    write_run(tmp_path, "post", scores=scores)
    assert summary_of(tmp_path, ["off_target"]).references_off_target == mean([1, 2])
