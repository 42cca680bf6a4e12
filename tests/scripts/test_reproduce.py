"""What a reproduction would do, and what it refuses."""

import json

import pytest
from conftest import ROOT

from residual_fairseq.errors import UsageError
from scripts import reproduce
from scripts.benchmarks import BENCHMARKS


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
        (["--connections", "post nosuch"], "no connection nosuch: known are post pre residual"),
        (["--depths", "six"], "--depths 'six'"),
        (["--seeds", "0"], "--seeds '0'"),
        (["--devices", "64"], "--devices 64: this machine has"),
        (["--set", "lr"], "--set lr: write SECTION.KEY=VALUE"),
        (["--prepare", "--target ja"], "Multi30k has en with de, fr or cs"),
        (["--corpus", "nowhere"], "--corpus .*nowhere: no corpus.json"),
        (["--corpus", "some", "--archive", "raw"], "leave --archive and --prepare out"),
    ],
)
def test_wrong_use(tmp_path, capsys, arguments, message):
    with pytest.raises(UsageError, match=message):
        dry_run("multi30k", tmp_path, capsys, *arguments)


@pytest.mark.parametrize("benchmark", BENCHMARKS.values(), ids=BENCHMARKS)
def test_every_benchmark_has_its_files(benchmark):
    assert benchmark.recipe.exists()
    assert (ROOT / "data_prep" / f"{benchmark.name}.sh").exists()
