"""What a reproduction would do, and what it refuses."""

import csv
import json

import pytest
from conftest import ROOT
from made_runs import write_translated_run

from data_prep import embedded_corpus, multi30k
from residual_fairseq.errors import UsageError
from scripts import reproduce
from scripts.benchmarks import BENCHMARKS

GPUS = ["--devices", "64", "--max-tokens", "512"]


def dry_run(benchmark, tmp_path, capsys, *arguments):
    reproduce.main([benchmark, "--dry-run", "--out", str(tmp_path / "out"), *arguments])
    assert not (tmp_path / "out").exists()
    return capsys.readouterr().out


def test_dry_run_shows_every_command(tmp_path, capsys):
    shown = dry_run(
        "multi30k", tmp_path, capsys, "--depths", "4 6x2", "--seeds", "1 2", "--prepare", "--cased"
    )
    lines = shown.split("\n")
    assert "-m data_prep.multi30k" in lines[0] and lines[0].endswith("--cased")
    assert sum("fairseq_cli.train" in line for line in lines) == 3 * 2 * 2
    assert sum(line.startswith("residual-average") for line in lines) == 3 * 2 * 2
    assert sum("fairseq_cli.generate" in line for line in lines) == 3 * 2 * 2 * 3
    assert sum("--encoder-layers 6 --decoder-layers 2" in line for line in lines) == 6
    assert "batch: 8,192 tokens per update = 4,096 x 1 CPU x update-freq 2" in shown


def test_corpus_of_another_benchmark_is_refused(tmp_path, capsys):
    record = {"benchmark": "iwslt14", "options": {}, "inputs": {}, "tests": {}}
    (tmp_path / "corpus.json").write_text(json.dumps(record))
    with pytest.raises(UsageError, match="prepared for iwslt14, not for multi30k"):
        dry_run("multi30k", tmp_path, capsys, "--corpus", str(tmp_path))


def test_nothing_is_done_twice(tmp_path, capsys):
    shown = dry_run("multi30k", tmp_path, capsys, "--depths", "4 4x4", "--seeds", "1 01")
    assert shown.count("# post 4+4 seed 1") == 1 and shown.count("\n# ") == 3


def test_batch_is_kept_with_fewer_tokens_at_once(tmp_path, capsys):
    shown = dry_run("multi30k", tmp_path, capsys, "--max-tokens", "512")
    assert "--max-tokens 512 " in shown and "--update-freq 16 " in shown
    with pytest.raises(UsageError, match="do not make up a batch of 8192 tokens"):
        dry_run("multi30k", tmp_path, capsys, "--max-tokens", "1000")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--connections", "post nosuch"], "no connection nosuch: known are .*post pre .*residual"),
        (["--depths", "six"], "--depths 'six'"),
        (["--seeds", "0"], "--seeds '0'"),
        (["--devices", "7"], "--devices 7 and 4096 tokens on each do not make up"),
        (["--set", "model.hc_streams=2"], "--hc-streams has no meaning .* post, only for: hc"),
        (["--set", "model.hc_stream=2"], "model.hc_stream .* did you mean model.hc_streams"),
        (
            ["--connections", "post dlcl", "--set", "model.encoder.layerdrop=0.1"],
            "--encoder-layerdrop: .*dlcl combines all layers",
        ),
        (["--set", "lr"], "--set lr: write SECTION.KEY=VALUE"),
        (["--prepare", "--target ja"], "Multi30k has en with de, fr or cs"),
        (["--corpus", "nowhere"], "--corpus .*nowhere: no corpus.json"),
        (["--corpus", "some", "--archive", "raw"], "leave --archive and --prepare out"),
        (["--comet", "nowhere.ckpt"], "nowhere.ckpt: no such file"),
    ],
)
def test_wrong_use(tmp_path, capsys, arguments, message):
    with pytest.raises(UsageError, match=message):
        dry_run("multi30k", tmp_path, capsys, *arguments)


def test_more_gpus_than_there_are(tmp_path, capsys):
    """Commands for another machine can be shown, not run."""
    assert "--distributed-world-size 64 " in dry_run("wmt_en_de", tmp_path, capsys, *GPUS)
    with pytest.raises(UsageError, match="--devices 64: this machine has"):
        reproduce.main(["wmt_en_de", "--out", str(tmp_path / "out"), *GPUS])


def test_a_training_too_short_for_its_connection_is_said(tmp_path, capsys):
    flags = ["--connections", "post branchnorm", "--updates"]
    assert (
        "branchnorm 4+4 seed 1: 3,999 updates are few"
        in (shown := dry_run("multi30k", tmp_path, capsys, *flags, "3999"))
        and "only after 4,000" in shown
    )
    assert " are few" not in dry_run("multi30k", tmp_path, capsys, *flags, "4000")


def test_two_dictionaries_have_no_embeddings_in_common(tmp_path, capsys):
    apart = ["--prepare", "--separate-dictionaries"]
    with pytest.raises(UsageError, match="add --set model.share_all_embeddings=false"):
        dry_run("iwslt14", tmp_path, capsys, *apart)
    # Nor is anything prepared for it.
    with pytest.raises(UsageError, match="add --set model.share_all_embeddings=false"):
        reproduce.main(["iwslt14", "--out", str(tmp_path / "out"), *apart])
    assert not (tmp_path / "out").exists()
    set_apart = ["--set", "model.share_all_embeddings=false"]
    assert "--share-all-embeddings" not in dry_run("iwslt14", tmp_path, capsys, *apart, *set_apart)


@pytest.mark.parametrize(
    ("languages", "fitting", "other"),
    [("en,de", "embedded", "opus100"), ("en,de,fr", "opus100", "embedded")],
)
def test_embedded_corpus_of_either_kind(tmp_path, capsys, languages, fitting, other):
    record = {**embedded_corpus.plan(["--languages", languages]), "benchmark": "embedded"}
    (tmp_path / "corpus.json").write_text(json.dumps(record))
    shown = dry_run(fitting, tmp_path, capsys, "--corpus", str(tmp_path))
    assert shown.count("fairseq_cli.train") == 3
    with pytest.raises(UsageError, match=f"languages, which .* {other} is not.*take .*{fitting}$"):
        dry_run(other, tmp_path, capsys, "--corpus", str(tmp_path))


def test_other_corpus_in_the_same_folder_is_refused(tmp_path, monkeypatch):
    """Before anything is trained: there is no table for both."""
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    corpus.mkdir()
    trained = []
    monkeypatch.setattr(reproduce, "perform_all", lambda todo, *others: trained.extend(todo) or {})

    def reproduction_of(content, connections):
        record = {**multi30k.plan([]), "inputs": {"train.en.gz": {"sha256": content}}}
        (corpus / "corpus.json").write_text(json.dumps(record))
        with pytest.raises(SystemExit) as end:
            flags = ["--corpus", str(corpus), "--out", str(out), "--connections", connections]
            reproduce.main(["multi30k", *flags])
        return str(end.value)

    assert reproduction_of("a", "post") == reproduction_of("a", "pre") == "0"
    said = reproduction_of("b", "residual")
    assert "post-4x4-seed1 is of another corpus, with inputs.train.en.gz.sha256 a, not b" in said
    assert [training.connection for training in trained] == ["post", "pre"]


def test_table_in_files_has_every_metric(tmp_path, capsys):
    for connection, errors in (("post", 0.5), ("pre", 0.2)):
        write_translated_run(tmp_path / "runs", connection, errors, ("one", "two"))
    reproduce.show_table(tmp_path, "post")
    shown = capsys.readouterr().out
    assert "made, sacreBLEU" in shown and "p against post" in shown and "chrF:" not in shown
    for metric in ("sacreBLEU one", "chrF one", "TER average", "p against post"):
        assert f"| {metric} " in (tmp_path / "results.md").read_text()
    rows = list(csv.DictReader((tmp_path / "results.csv").open()))
    assert {row["metric"] for row in rows} == {"bleu", "chrf", "ter"}
    assert "chrF" not in (tmp_path / "results.tex").read_text()


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)
def test_every_benchmark_has_its_files(benchmark):
    assert benchmark.recipe.exists()
    assert (ROOT / "data_prep" / f"{benchmark.name}.sh").exists()
