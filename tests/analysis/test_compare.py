"""residual-analyze compare: learning curves, scores by depth, significance."""

import argparse
from statistics import stdev

import pytest
from made_runs import scored, write_run, write_translated_run

from residual_fairseq.analysis import compare
from residual_fairseq.errors import UsageError
from residual_fairseq.report import tables
from residual_fairseq.results import read_runs
from residual_fairseq.summary import summarise

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


def write_log(result, losses):
    """A ``train.log`` beside a result, of validation losses by update."""
    lines = (
        f'... | INFO | valid | {{"valid_loss": "9.9", "valid_nll_loss": "{loss}", '
        f'"valid_num_updates": "{update}"}}\n'
        for update, loss in losses.items()
    )
    result.with_name("train.log").write_text("".join(lines), encoding="utf-8")


def run(*arguments):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    return compare.run(parser.parse_args(list(map(str, arguments))))


@pytest.fixture
def trainings(tmp_path):
    """Two depths; at 6+6 post has two seeds, at 18+18 it failed."""
    for seed, score, losses in ((1, 20.0, {100: 8.0, 200: 6.0}), (2, 22.0, {100: 7.0, 250: 5.0})):
        scores = scored({"test": score}, SIGNATURE)
        write_log(write_run(tmp_path, "post", seed=seed, scores=scores), losses)
    failed = write_run(tmp_path, "post", (18, 18), status="failed", reason="loss nan")
    write_log(failed, {100: 9.5, 200: "nan"})
    write_log(write_run(tmp_path, "pre", scores=scored({"test": 21.0}, SIGNATURE)), {100: 6.5})
    write_run(tmp_path, "pre", (18, 18), scores=scored({"test": 24.0}, SIGNATURE))
    return tmp_path


def test_curves_are_means_over_seeds_where_all_were_measured(trainings):
    analysis = run(trainings)
    curves = analysis.numbers["made"]["learning_curves"]
    assert curves["6+6"] == {
        "post": {"mean": {100: 7.5}, "deviation": {100: stdev([8.0, 7.0])}},
        "pre": {"mean": {100: 6.5}, "deviation": {}},
    }
    # What is not a number is left out, and a training without a log has no line.
    assert curves["18+18"] == {
        "post seed 1, failed": {"mean": {100: 9.5}, "deviation": {}},
    }
    drawn, _ = analysis.pictures
    assert [panel.title for panel in drawn.panels] == ["6+6 layers", "18+18 layers"]
    assert drawn.panels[0].curves == {"post": {100: 7.5}, "pre": {100: 6.5}}
    assert "bits" in drawn.panels[0].y


def test_seeds_without_a_shared_update_have_lines_of_their_own(tmp_path):
    for seed in (1, 2):
        path = write_run(tmp_path, "post", seed=seed, scores=scored({"test": 20.0}, SIGNATURE))
        write_log(path, {100 * seed: 5.0})
    (picture,) = run(tmp_path).pictures
    assert picture.panels[0].curves == {"post seed 1": {100: 5.0}, "post seed 2": {200: 5.0}}


def test_scores_by_depth(trainings):
    analysis = run(trainings)
    _, drawn = analysis.pictures
    (panel,) = drawn.panels
    assert panel.curves == {"post": {6: 21.0}, "pre": {6: 21.0, 18: 24.0}}
    assert panel.spreads == {"post": {6: stdev([20, 22])}, "pre": {6: 0, 18: 0}}
    assert (panel.x, panel.y) == ("layers of the encoder", "sacreBLEU")
    assert "post 18+18" in drawn.description and "Failed" in drawn.description
    scores = analysis.numbers["made"]["scores"]
    assert [(s["connection"], s["encoder_layers"], s.get("score")) for s in scores] == [
        ("post", 6, 21.0),
        ("pre", 6, 21.0),
        ("post", 18, None),
        ("pre", 18, 24.0),
    ]


def test_other_depths_of_the_decoder_are_other_lines(tmp_path):
    for depth in ((6, 6), (12, 6), (12, 12)):
        write_run(tmp_path, "post", depth, scores=scored({"test": sum(depth)}, SIGNATURE))
    (picture,) = run(tmp_path).pictures
    assert picture.panels[0].curves == {"post": {6: 12, 12: 24}, "post, decoder of 6": {12: 18}}


def test_tables_and_significance_are_those_of_residual_results(tmp_path):
    write_translated_run(tmp_path, "pre", 0.3)
    write_translated_run(tmp_path, "post", 0.7)
    analysis = run(tmp_path, "--baseline", "pre")
    (summary,) = summarise(read_runs([tmp_path]), baseline="pre")
    assert analysis.tables == tables(summary)
    (row,) = (row for row in summary.rows if row.comparisons)
    (line,) = analysis.numbers["made"]["comparisons"]
    (expected,) = row.comparisons["one",].values()
    assert (line["difference"], line["p"]) == expected
    assert line["difference"] < -10 and line["p"] < 0.05
    assert (line["connection"], line["baseline"], line["seed"]) == ("post", "pre", 1)


def test_written(trainings, tmp_path):
    names = {path.name for path in run(trainings).write(tmp_path / "out", "the command")}
    assert names == {"compare.json", "compare-made-curves.png", "compare-made-depth.png"}


def test_wrong_use(trainings):
    with pytest.raises(UsageError, match="--baseline admin: none of the trainings has it"):
        run(trainings, "--baseline", "admin")
    log = trainings / "pre-6x6-1" / "train.log"
    log.write_text('{"valid_num_updates": "many"}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="train.log: not a log of fairseq-train"):
        run(trainings)
