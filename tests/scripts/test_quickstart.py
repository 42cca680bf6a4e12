"""The quickstart, from plain text to table and picture."""

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT
from PIL import Image

from scripts.quickstart import parse

SCRIPT = ROOT / "scripts" / "quickstart.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def quickstart(*arguments, **options):
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=900,
        **options,
    )


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A folder of German-English text, each source sentence the English one spelled backwards."""
    folder = tmp_path_factory.mktemp("text")
    words = ["house", "tree", "river", "cloud", "stone", "bird", "night", "light"]
    for split, first, pairs in (("train", 0, 64), ("valid", 70, 8), ("test", 80, 10)):
        lines = [
            " ".join(words[(i * k) % 8] for k in (1, 3, i)) for i in range(first, first + pairs)
        ]
        (folder / f"{split}.en").write_text("".join(f"{line}.\n" for line in lines))
        (folder / f"{split}.de").write_text("".join(f"{line[::-1]}.\n" for line in lines))
    return folder


def test_options():
    args = parse(["--layers", "12x3", "--connections", "post pre"])
    assert args.layers == (12, 3) and args.connections == "post pre"
    assert parse(["--layers", "6"]).layers == (6, 6)


@pytest.mark.parametrize("layers", ["0", "6x", "x6", "6x6x6", "-1", "six"])
def test_unusable_depth(layers, capsys):
    with pytest.raises(SystemExit):
        parse([f"--layers={layers}"])
    assert "--layers" in capsys.readouterr().err


def test_help_needs_no_packages():
    process = subprocess.run(
        [sys.executable, "-I", "-S", SCRIPT, "--help"], capture_output=True, text=True
    )
    assert process.returncode == 0 and "--connections" in process.stdout


def test_wrong_flag_is_refused_before_set_up(tmp_path):
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    process = subprocess.run(
        ["bash", tmp_path / "scripts" / "quickstart.sh", "--nosuch"], capture_output=True, text=True
    )
    assert process.returncode == 2 and "--nosuch" in process.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.slow
def test_from_text_to_table_and_back_again(text, tmp_path):
    out = tmp_path / "out"
    options = ["--data", text, "--source", "de", "--target", "en", "--out", out, "--layers", "1x2"]
    first = quickstart(*options, "--connections", "residual post", "--updates", 4)
    assert first.returncode == 0, first.stderr[-2000:]
    for connection in ("post", "residual"):
        result = json.loads((out / "runs" / f"{connection}-1x2" / "result.json").read_text())
        assert result["updates"] == 4
        assert [int(update) for update in result["valid_loss_bits"]] == [1, 2, 3, 4]
        assert result["recipe"]["model"]["decoder"]["layers"] == 2
        row = rf"^{connection} +1\+2 +{result['parameters']:,} +4 +[\d,]+ +{result['bleu']:.2f}$"
        assert re.search(row, first.stdout, re.M), first.stdout
    assert f"sacreBLEU: {result['signature']}" in first.stdout
    references = (text / "test.en").read_text().split("\n")
    shown = re.findall("^  reference   (.*)$", first.stdout, re.M)
    assert shown == references[0:10:2]
    assert first.stdout.count("\n  source ") == first.stdout.count("\n  hypothesis ") == 5
    picture = Image.open(out / "learning-curves.png")
    assert str(out / "learning-curves.png") in first.stdout
    assert "--updates 4" in picture.text["Command"]

    logs = {path: path.stat().st_mtime_ns for path in out.glob("runs/**/*.log")}
    assert len(logs) == 4
    second = quickstart(*options, "--connections", "residual post", "--updates", 4)
    assert second.returncode == 0, second.stderr[-2000:]
    assert second.stdout.count("reused") >= 3
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/**/*.log")} == logs
    table = first.stdout[first.stdout.index("\nconnection ") : first.stdout.index("sacreBLEU:")]
    assert table in second.stdout

    other = quickstart(*options, "--connections", "post", "--updates", 5)
    assert other.returncode == 1
    assert "max_update 4, not 5" in other.stderr and "Traceback" not in other.stderr

    # A training that fails does not keep another one from its result, nor those of before.
    broken = out / "runs" / "pre-2x2" / "checkpoints"
    broken.mkdir(parents=True)
    (broken / "checkpoint_last.pt").write_bytes(b"PK\3\4 half a checkpoint")
    options[-1] = "2x2"
    failing = quickstart(*options, "--connections", "pre post", "--updates", 1)
    assert failing.returncode == 1
    assert re.search(r"^pre +2\+2 +failed$", failing.stdout, re.M), failing.stdout
    assert re.search(r"^post +2\+2 +[\d,]+ +1 ", failing.stdout, re.M)
    assert re.search(r"^residual +1\+2 ", failing.stdout, re.M)
    assert str(out / "runs" / "pre-2x2" / "train.log") in failing.stdout


def test_one_at_a_time(text, tmp_path):
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = quickstart("--data", text, "--source", "de", "--target", "en", "--out", tmp_path)
    assert refused.returncode == 1 and "another quickstart" in refused.stderr


@pytest.mark.slow
def test_interrupted_training_goes_on(text, tmp_path):
    out = tmp_path / "out"
    command = ["--data", text, "--source", "de", "--target", "en", "--out", out]
    command += ["--layers", 1, "--connections", "pre", "--updates", 1500]
    process = subprocess.Popen(
        [sys.executable, SCRIPT, *map(str, command)],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Where the tests run in the background, a shell may have made them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    run = out / "runs" / "pre-1x1"
    while not (run / "checkpoints" / "checkpoint_last.pt").exists():
        assert process.poll() is None, process.stderr.read()[-2000:]
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on from here" in errors and "Traceback" not in errors
    # No training is left behind to hold the lock.
    with open(out / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not (run / "result.json").exists()

    again = quickstart(*command)
    assert again.returncode == 0, again.stderr[-2000:]
    result = json.loads((run / "result.json").read_text())
    assert result["updates"] == 1500
    assert [int(update) for update in result["valid_loss_bits"]] == [*range(150, 1501, 150)]
    log = (run / "train.log").read_text()
    assert "Loaded checkpoint" in log and log.count("done training in") == 1
