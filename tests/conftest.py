"""A toy corpus and a toy training, made once by fairseq's own commands."""

import os
import random
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "residual_fairseq"

TRAIN_FLAGS = (
    "--arch residual_transformer --share-all-embeddings"
    " --encoder-layers 1 --encoder-embed-dim 8 --encoder-ffn-embed-dim 8"
    " --encoder-attention-heads 2"
    " --decoder-layers 1 --decoder-embed-dim 8 --decoder-ffn-embed-dim 8"
    " --decoder-attention-heads 2"
    " --optimizer adam --lr 0.01 --max-tokens 200 --num-workers 0 --cpu --no-progress-bar"
    # BLEU on the validation set leaves numpy arrays in the checkpoints.
    ' --eval-bleu --eval-bleu-args {"beam":1}'
).split()


def fairseq(command, *flags):
    """Runs one of fairseq's commands in a process of its own, on one thread.

    Args:
        command: without its prefix, such as `train`.

    Returns:
        The finished process, with its output as text.
    """
    return subprocess.run(
        [Path(sys.executable).with_name(f"fairseq-{command}"), *map(str, flags)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def free_port():
    """A port of this machine that nothing listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def generate(run, path):
    """Translates the toy run's validation set with a checkpoint."""
    return fairseq(
        "generate", run.data, "--user-dir", PLUGIN, "--path", path, "--gen-subset", "valid",
        "--cpu", "--beam", 2, "--num-workers", 0,
    )  # fmt: skip


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory):
    """A ResiDual Transformer, trained for three epochs of a few updates.

    Attributes: `data` the data-bin, `save` the save directory, `flags` for fairseq-train.
    """
    folder = tmp_path_factory.mktemp("toy")
    generator = random.Random(1)
    for split, pairs in (("train", 50), ("valid", 10)):
        sources = [generator.sample("abcdefghij", generator.randint(2, 7)) for _ in range(pairs)]
        for language, step in (("de", 1), ("en", -1)):
            lines = "".join(" ".join(words[::step]) + "\n" for words in sources)
            (folder / f"{split}.{language}").write_text(lines)
    run = SimpleNamespace(
        data=folder / "bin",
        save=folder / "save",
        flags=[folder / "bin", "--user-dir", PLUGIN, *TRAIN_FLAGS],
    )
    steps = [
        fairseq(
            "preprocess", "-s", "de", "-t", "en", "--joined-dictionary", "--workers", 1,
            "--trainpref", folder / "train", "--validpref", folder / "valid",
            "--destdir", run.data,
        ),
        fairseq("train", *run.flags, "--save-dir", run.save, "--max-epoch", 3),
    ]  # fmt: skip
    for step in steps:
        assert step.returncode == 0, step.stderr
    return run
