"""Benchmarks from their archives to a table, with small archives and small models."""

import gzip
import json
import os
import re
import subprocess
import sys
import zipfile

import pytest
from archives_made import iwslt14_files, opus100_archives, tar, unpack, wmt_en_de_files
from conftest import ROOT

from data_prep import embedded_corpus
from data_prep.embedded import generate
from residual_fairseq.errors import UsageError
from residual_fairseq.scoring import read_lines, scores
from scripts import reproduce
from scripts.benchmarks import BENCHMARKS

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

#: A model and a schedule small enough to learn something in seconds.
SMALL = [
    "model.encoder.embed_dim=32",
    "model.encoder.ffn_embed_dim=64",
    "model.encoder.attention_heads=2",
    "model.decoder.attention_heads=2",
    "model.dropout=0",
    "dataset.max_tokens=1000",
    "dataset.num_workers=0",
    "optimization.update_freq=[1]",
    "optimization.lr=[0.005]",
    "lr_scheduler.warmup_updates=30",
    "common.log_interval=10",
]


def run(benchmark, *arguments):
    settings = [flag for value in SMALL for flag in ("--set", value)]
    return subprocess.run(
        [sys.executable, "-m", "scripts.reproduce", benchmark, *settings, *map(str, arguments)],
        env=ENVIRONMENT,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )


def write_multi30k(folder):
    """Files of the repository's names; the text is made."""
    folder.mkdir()
    lines = generate(("en", "de"), train=400, valid=30, test=90, seed=3)
    test = lines["test"]
    splits = {
        "train": lines["train"],
        "val": lines["valid"],
        "test_2016_flickr": test[:40],
        "test_2017_flickr": test[40:70],
        "test_2017_mscoco": test[70:],
    }
    for split, pairs in splits.items():
        for side, lang in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{lang}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return folder


def write_home_assistant(path):
    """A wheel with the texts of some components."""
    pairs = [pair for split in generate(("en", "de"), train=900, seed=4).values() for pair in split]
    with zipfile.ZipFile(path, "w") as wheel:
        for number in range(60):
            block = pairs[number * 15 : number * 15 + 15]
            for side, lang in enumerate(("en", "de")):
                texts = {f"key{i}": pair[side] for i, pair in enumerate(block)}
                name = f"homeassistant/components/made{number}/translations/{lang}.json"
                wheel.writestr(name, json.dumps({"title": f"Made {number}", "state": texts}))
    return path


def check_chain(benchmark, archive, out, *arguments):
    """Two connections at two depths, to a table; then all of it again, which does nothing."""
    arguments = (
        *("--archive", archive, "--out", out, "--connections", "post residual"),
        *("--depths", "1 1x2", "--updates", "150", "--average", "2", *arguments),
    )
    first = run(benchmark, *arguments)
    assert first.returncode == 0, first.stderr[-3000:]
    results = [json.loads(path.read_text()) for path in sorted(out.glob("runs/*/result.json"))]
    assert [(r["connection"], r["encoder_layers"], r["decoder_layers"]) for r in results] == [
        ("post", 1, 1),
        ("post", 1, 2),
        ("residual", 1, 1),
        ("residual", 1, 2),
    ]
    for result in results:
        row = rf"^{result['connection']} +{result['encoder_layers']}\+{result['decoder_layers']} "
        table = first.stdout[first.stdout.index("\nconnection ") :]
        cells = re.search(row + "(.*)$", table, re.M).group(1)
        assert f"{result['parameters']:,}" in cells
        if result["status"] == "ok":
            assert all(f"{s['bleu']['score']:.2f}" in cells for s in result["scores"].values())
            assert result["scores"][next(iter(result["scores"]))]["chrf"]["score"] > 0
            assert result["signature"] in first.stdout
        else:
            assert "failed" in cells
    assert (out / "results.md").read_text().count("|") > 20
    assert (out / "results.tex").exists() and (out / "results.csv").exists()
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/**/*") if path.is_file()}
    second = run(benchmark, *arguments)
    assert second.returncode == 0, second.stderr[-3000:]
    assert second.stdout.count("reused") >= 5
    assert {p: p.stat().st_mtime_ns for p in out.glob("runs/**/*") if p.is_file()} == before
    assert first.stdout[first.stdout.index("\nconnection ") :] in second.stdout
    return results


@pytest.mark.slow
def test_multi30k(tmp_path):
    results = check_chain("multi30k", write_multi30k(tmp_path / "raw"), tmp_path / "out")
    trained = [result for result in results if result["status"] == "ok"]
    assert trained, [result["reason"] for result in results]
    for result in trained:
        assert list(result["scores"]) == ["test2016", "test2017", "testcoco"]
        assert "case:lc" in result["signature"]
        assert result["averaged"] == 2
        assert result["effective_batch_tokens"] == 1000
        assert result["peak_memory_bytes"] > 2**27


@pytest.mark.slow
def test_home_assistant(tmp_path):
    results = check_chain(
        "home_assistant", write_home_assistant(tmp_path / "ha.whl"), tmp_path / "out"
    )
    assert {result["benchmark"] for result in results} == {"home_assistant de-en"}


@pytest.mark.slow
def test_iwslt14(tmp_path):
    archive = tmp_path / "de-en.tgz"
    archive.write_bytes(tar(iwslt14_files(talks=8, lines=40)))
    results = check_chain(
        "iwslt14", archive, tmp_path / "out", "--prepare", "--bpe-merges 150", "--seeds", "2"
    )
    assert {result["seed"] for result in results} == {2}
    for result in results:
        if result["status"] == "ok":
            assert set(result["scores"]["test"]) == {"bleu", "chrf", "ter", "tokenised_bleu"}


@pytest.mark.slow
def test_wmt(tmp_path):
    archive = tmp_path / "wmt16_en_de.tar.gz"
    archive.write_bytes(tar(wmt_en_de_files(pairs=300)))
    results = check_chain("wmt_en_de", archive, tmp_path / "out")
    trained = [result for result in results if result["status"] == "ok"]
    assert trained, [result["reason"] for result in results]
    for result in trained:
        assert list(result["scores"]) == [f"newstest{year}" for year in range(2010, 2017)]
        assert "compound_split_bleu" in result["scores"]["newstest2014"]
        commands = {
            test: json.loads(
                (
                    tmp_path / "out" / "runs" / folder_of(result) / "generate" / test / "done.json"
                ).read_text()
            )
            for test in ("newstest2013", "newstest2014")
        }
        assert commands["newstest2014"][commands["newstest2014"].index("--lenpen") + 1] == "0.6"
        assert commands["newstest2013"][commands["newstest2013"].index("--lenpen") + 1] == "1.0"


def folder_of(result):
    depth = f"{result['encoder_layers']}x{result['decoder_layers']}"
    return f"{result['connection']}-{depth}-seed{result['seed']}"


@pytest.mark.slow
def test_opus100(tmp_path):
    archives = unpack(opus100_archives(), tmp_path / "archives")
    results = check_chain(
        "opus100",
        archives,
        tmp_path / "out",
        *("--prepare", '--pairs "de fr an" --vocabulary-size 300'),
        *("--set", "task.virtual_epoch_size=null"),
    )
    record = json.loads((tmp_path / "out" / "corpus" / "corpus.json").read_text())
    assert record["options"]["train_only"] == ["an-en"]
    assert record["task"]["langs"] == "an,de,en,fr"
    for result in results:
        if result["status"] == "ok":
            assert list(result["scores"]) == [
                *("de-en", "en-de", "en-fr", "fr-en", "zero-shot de-fr", "zero-shot fr-de")
            ]
    log = (tmp_path / "out" / "runs" / folder_of(results[0]) / "train.log").read_text()
    assert "train_only:an-en" in log and "train_only:en-an" in log


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


@pytest.mark.slow
def test_single_steps(tmp_path):
    """What train.sh, average.sh and evaluate.sh do, one after the other."""
    environment = {**ENVIRONMENT, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}

    def step(module, *arguments):
        return subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments)],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    corpus, out = tmp_path / "corpus", tmp_path / "run"
    made = step(
        "data_prep.multi30k",
        *("--archive", write_multi30k(tmp_path / "raw"), "--out", corpus, "--tests", "test2016"),
    )
    assert made.returncode == 0, made.stderr[-2000:]
    settings = [flag for value in SMALL for flag in ("--set", value)]
    train = [
        *("scripts.run", "train", "multi30k", "--corpus", corpus, "--out", out, *settings),
        *("--connection", "pre", "--layers", "1", "--average", "3"),
    ]
    early = step("scripts.run", "evaluate", out)
    assert early.returncode == 1 and "no run.json in it" in early.stderr
    trained = step(*train, "--updates", "150")
    assert trained.returncode == 0, trained.stderr[-2000:]
    other = step(*train, "--updates", "20")
    assert other.returncode == 1 and "max_update 150, not 20" in other.stderr
    average = step("scripts.run", "average", out)
    assert "average.pt: of 3 checkpoints" in average.stdout, average.stderr[-2000:]
    scored = step("scripts.run", "evaluate", out)
    assert scored.returncode == 0, scored.stderr[-2000:]
    result = json.loads((out / "result.json").read_text())
    bleu = result["scores"]["test2016"]["bleu"]
    assert f"test2016\tbleu\t{bleu['score']:.2f}\t{bleu['signature']}" in scored.stdout
    assert result["averaged"] == 3


@pytest.mark.slow
def test_one_model_for_four_languages(tmp_path):
    """Every direction that was trained on is far better than copying the source would be."""
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    embedded_corpus.main(
        ["--languages", "en,de,fr,es", "--train", "3000", "--valid", "40", "--test", "60"]
        + ["--vocabulary-size", "1500", "--out", str(corpus)]
    )
    larger = {
        "task.virtual_epoch_size": "null",
        "model.encoder.embed_dim": 64,
        "model.encoder.ffn_embed_dim": 128,
        "model.attention_dropout": 0,
        "model.activation_dropout": 0,
        "dataset.max_tokens": 2000,
        "optimization.lr": "[0.004]",
        "lr_scheduler.warmup_updates": 100,
    }
    settings = [flag for key, value in larger.items() for flag in ("--set", f"{key}={value}")]
    process = run(
        "opus100",
        *("--corpus", corpus, "--out", out, "--connections", "pre", "--depths", "2"),
        *("--updates", "700", "--average", "1", *settings),
    )
    assert process.returncode == 0, process.stderr[-3000:]
    result = json.loads((out / "runs" / "pre-2x2-seed1" / "result.json").read_text())
    trained = [name for name in result["scores"] if not name.startswith("zero-shot")]
    assert sorted(trained) == ["de-en", "en-de", "en-es", "en-fr", "es-en", "fr-en"]
    assert len(result["scores"]) == 12
    for direction in trained:
        source, target = direction.split("-")
        folder = corpus / "text" / "-".join(sorted((source, target)))
        copied = scores(
            read_lines(folder / f"test.{source}"), read_lines(folder / f"test.{target}"), target
        )
        assert result["scores"][direction]["bleu"]["score"] > copied["bleu"]["score"] + 20
        assert result["scores"][direction]["off_target"]["score"] < 25
