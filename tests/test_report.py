"""The command residual-results."""

import csv
import io

import pytest
from made_runs import scored, write_run, write_translated_run

from residual_fairseq import report
from residual_fairseq.errors import UsageError
from residual_fairseq.results import read_runs
from residual_fairseq.summary import summarise

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


@pytest.fixture
def runs(tmp_path):
    """Three connections on two test sets, two seeds; one training of six failed."""
    folder = tmp_path / "runs"
    for connection, best in (("post", 20), ("pre", 22), ("residual", 23)):
        for seed in (1, 2):
            if (connection, seed) == ("post", 2):
                write_run(folder, connection, seed=seed, status="failed", reason="loss nan")
            else:
                numbers = {"one": best + seed, "two": best + 2 * seed}
                write_run(folder, connection, seed=seed, scores=scored(numbers, SIGNATURE))
    return folder


def run(capsys, *arguments):
    """What the command prints."""
    report.main(list(map(str, arguments)))
    return capsys.readouterr().out


def test_text(runs, capsys):
    assert run(capsys, runs) == (
        """\
made, sacreBLEU

connection  depth  parameters          seeds           one           two       average
post          6+6   1,234,567  1 of 2 failed         21.00         22.00         21.50
pre           6+6   1,234,567              2  23.50 ± 0.71  25.00 ± 1.41  24.25 ± 1.06
residual      6+6   1,234,567              2  24.50 ± 0.71  26.00 ± 1.41  25.25 ± 1.06

sacreBLEU: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0
average: mean of 2 test sets
±: standard deviation over the seeds (n - 1)
post 6+6 seed 2 failed: loss nan
"""
    )


def test_all_failed(tmp_path, capsys):
    for seed in (1, 2):
        write_run(tmp_path, "post", (18, 18), seed, "failed", reason="loss nan", parameters=None)
    write_run(tmp_path, "pre", (18, 18), scores=scored({"one": 5.0}, SIGNATURE))
    text = run(capsys, tmp_path)
    assert "made, one" in text
    assert "post        18+18           –  2 of 2 failed     failed" in text
    assert "pre         18+18   1,234,567              1       5.00" in text


def test_only_failures(tmp_path, capsys):
    write_run(tmp_path, "post", status="failed", reason="loss nan")
    assert "1 of 1 failed" in run(capsys, tmp_path, "--baseline", "post")
    for form in ("markdown", "latex", "csv"):
        assert "post" in run(capsys, tmp_path, "--format", form)


def test_number_of_seeds_if_not_all_have_the_score(tmp_path, capsys):
    write_run(tmp_path, "post", seed=1, scores=scored({"one": 20, "two": 30}, SIGNATURE))
    write_run(tmp_path, "post", seed=2, scores=scored({"one": 22}, SIGNATURE))
    assert "30.00 (n=1)" in run(capsys, tmp_path)


@pytest.fixture
def translated(tmp_path):
    """Two connections with translations, two seeds, each on two test sets."""
    folder = tmp_path / "runs"
    for seed in (1, 2):
        for connection, errors in (("post", 0.4), ("pre", 0.2), ("residual", 0.6)):
            write_translated_run(folder, connection, errors, ("one", "two"), seed)
    return folder


def test_significance(translated, capsys):
    text = run(capsys, translated, "--baseline", "post")
    head, post, pre, residual = text.split("\n")[2:6]
    assert head.endswith("average  p against post")
    assert post.endswith(")") is False and "*" not in post
    assert pre.endswith("  0.001*") and residual.endswith("  0.001†")
    assert "against post of the same depth and seed; of several seeds the largest p; *" in text
    line = next(line for line in text.split("\n") if line.startswith("pre 6+6 on 2 test sets"))
    assert line.count("p 0.001") == 2 and "seed 1: +" in line and "seed 2: +" in line
    assert "* better" not in run(capsys, translated)


def test_missing_comparison_is_explained(translated, capsys):
    for path in translated.glob("pre-*/one.reference"):
        path.unlink()
    for path in translated.glob("pre-*/two.reference"):
        path.unlink()
    text = run(capsys, translated, "--baseline", "post")
    assert text.split("\n")[4].endswith("  –")
    assert "–: no post of the same depth and seed that trained, or no translations" in text


def test_directions_are_counted(tmp_path, capsys):
    for connection, errors in (("post", 0.4), ("pre", 0.2)):
        write_translated_run(tmp_path, connection, errors, ("en-de", "en-fr", "de-en"))
    text = run(capsys, tmp_path, "--baseline", "post")
    assert text.split("\n")[4].endswith("  3 better, 0 worse of 3")
    assert "each test set by itself, not corrected for their number" in text


def test_comparison_by_what_cannot_be_resampled(tmp_path, capsys):
    for connection in ("post", "pre"):
        write_run(tmp_path, connection, scores=scored({"one": 1}, "s", "comet"))
    text = run(capsys, tmp_path, "--metric", "comet", "--baseline", "post")
    assert "no comparison: sacreBLEU, chrF and TER can be resampled, and none is shown" in text


def test_several_metrics_and_test_sets(tmp_path, capsys):
    both = {
        test: {
            **scored({test: 5}, "a")[test],
            **scored({test: 60}, "b", "chrf")[test],
        }
        for test in ("one", "two")
    }
    write_run(tmp_path, "post", scores=both)
    head = run(capsys, tmp_path, "--metric", "bleu", "chrf", "bleu").split("\n")[2]
    assert "sacreBLEU one  sacreBLEU two  sacreBLEU average  chrF one  chrF two" in head
    text = run(capsys, tmp_path, "--metric", "bleu", "chrf", "--tests", "two")
    assert text.startswith("made, two\n")
    assert text.split("\n")[2].endswith("  sacreBLEU   chrF")
    assert "sacreBLEU: a\nchrF: b\n" in text


def test_signatures_of_single_test_sets(tmp_path, capsys):
    scores = {**scored({"en-de": 1, "en-fr": 2}, "tok:13a"), **scored({"en-zh": 3}, "tok:zh")}
    write_run(tmp_path, "post", scores=scores)
    text = run(capsys, tmp_path)
    assert "sacreBLEU of en-de, en-fr: tok:13a\nsacreBLEU of en-zh: tok:zh\n" in text


def test_recipes_that_differ(tmp_path, capsys):
    write_run(tmp_path, "post", scores=scored({"one": 1}, "s"))
    for seed in (1, 2, 3, 4):
        write_run(tmp_path, "pre", seed=seed, scores=scored({"one": 1}, "s"), averaged=5)
    assert (
        "WARNING: not one recipe: averaged is 10 (post 6+6 seed 1); 5 (pre 6+6 seed 1, "
        "pre 6+6 seed 2, pre 6+6 seed 3 ... (4 in all))"
    ) in run(capsys, tmp_path)


def test_off_target_of_the_references(tmp_path, capsys):
    scores = scored({"en-de": 5.0}, "naive-bayes", "off_target")
    scores["en-de"]["off_target"]["references"] = 1.25
    write_run(tmp_path, "post", scores=scores)
    text = run(capsys, tmp_path, "--metric", "off_target")
    assert "off-target %: the references themselves get 1.25 on average" in text


def iwslt(folder, metric, case):
    signature = SIGNATURE.replace("mixed", case)
    scores = scored({"test": 35.0}, signature, metric)
    write_run(folder, "post", scores=scores, benchmark="iwslt14 de-en")


@pytest.mark.parametrize(
    "metric, case, expected",
    [
        ("tokenised_bleu", "lc", "yes"),
        ("tokenised_bleu", "mixed", "no: ours is cased"),
        ("bleu", "lc", "with tokenised BLEU only"),
    ],
)
def test_published_numbers_and_whether_they_compare(tmp_path, capsys, metric, case, expected):
    iwslt(tmp_path, metric, case)
    text = run(capsys, tmp_path, "--metric", metric)
    assert "iwslt14 de-en, tokenised BLEU, published by others\n" in text
    line = next(line for line in text.split("\n") if line.startswith("Admin "))
    assert "35.67 ± 0.15" in line and f"  {expected} " in line and line.endswith("[1]")
    assert "[1] github.com/LiyuanLucasLiu/Transformer-Clinic, issue 12; 512 wide, RAdam" in text
    assert "unclear" in next(line for line in text.split("\n") if line.startswith("Macaron"))


def test_published_number_of_another_metric_and_case(tmp_path, capsys):
    iwslt(tmp_path, "bleu", "lc")
    line = next(line for line in run(capsys, tmp_path).split("\n") if "JoeyNMT  " in line)
    assert "33.73  yes" in line
    write_run(
        tmp_path,
        "pre",
        scores=scored({"newstest2014": 27}, SIGNATURE.replace("mixed", "lc")),
        benchmark="wmt_en_de en-de",
    )
    text = run(capsys, tmp_path)
    assert "no: ours is lower-cased" in next(x for x in text.split("\n") if x.startswith("B2T "))
    failed = next(x for x in text.split("\n") if x.startswith("Post-LN") and "18+18" in x)
    assert "failed" in failed


def test_markdown(runs, capsys):
    lines = run(capsys, runs, "--format", "markdown").split("\n")
    assert lines[0] == "**made, sacreBLEU**"
    assert lines[3] == "| :-- | --: | --: | --: | --: | --: | --: |"
    assert lines[4] == ("| post | 6+6 | 1,234,567 | 1 of 2 failed | 21.00 | 22.00 | 21.50 |")
    assert "- post 6+6 seed 2 failed: loss nan" in lines


def test_latex(runs, capsys):
    text = run(capsys, runs, "--format", "latex")
    assert "pre & 6+6 & 1,234,567 & 2 & 23.50 $\\pm$ 0.71 & 25.00 $\\pm$ 1.41" in text
    assert "\\begin{tabular}{lrrrrrr}" in text


def test_csv(translated, capsys):
    write_run(translated, "post", (18, 18), 1, "failed", reason="NaN")
    iwslt(translated / "iwslt", "tokenised_bleu", "lc")
    flags = ["--metric", "bleu", "tokenised_bleu", "--baseline", "post", "--format", "csv"]
    lines = list(csv.DictReader(io.StringIO(run(capsys, translated, *flags))))
    kinds = [line["kind"] for line in lines]
    assert kinds.count("comparison") == 4 and kinds.count("published") > 10
    (summary,) = summarise(
        [run for run in read_runs([translated]) if run.benchmark == "made"], baseline="post"
    )
    seeds = summary.rows[1].cells[summary.columns[-1]]
    line = next(
        line
        for line in lines
        if (line["kind"], line["connection"], line["test"]) == ("result", "pre", "average")
    )
    assert float(line["score"]) == seeds.mean and float(line["deviation"]) == seeds.deviation
    assert line["seeds"] == "2" and line["failed"] == "0" and line["metric"] == "bleu"
    assert line["signature"].startswith("nrefs:1|case:mixed")
    failed = [line for line in lines if line["encoder_layers"] == "18" and line["failed"] == "1"]
    assert {line["score"] for line in failed} == {""}
    comparison = next(line for line in lines if line["kind"] == "comparison")
    assert comparison["test"] == "one and two" and comparison["seed"] == "1"
    assert float(comparison["p"]) < 0.05 and float(comparison["difference"]) > 5
    published = next(line for line in lines if line["connection"] == "Admin")
    assert published["score"] == "35.67" and published["deviation"] == "0.15"
    assert published["comparable"] == "yes" and "issue 12" in published["source"]


def test_output_file(runs, tmp_path, capsys):
    path = tmp_path / "table.txt"
    assert run(capsys, runs, "--output", path) == ""
    assert path.read_text(encoding="utf-8") == run(capsys, runs)
    with pytest.raises(UsageError, match="nowhere/table.txt: No such file or directory"):
        run(capsys, runs, "--output", tmp_path / "nowhere" / "table.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "table.txt"]


def test_unknown_metric_is_refused(runs, capsys):
    with pytest.raises(SystemExit):
        run(capsys, runs, "--metric", "meteor")
    assert "invalid choice: 'meteor'" in capsys.readouterr().err
