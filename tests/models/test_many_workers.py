"""Two data-parallel workers train what one worker with twice the batches an update trains."""

import os
import subprocess
import sys

import pytest
import torch
import toy
from conftest import PLUGIN, ROOT, free_port

FLAGS = (
    "--arch residual_transformer_tiny --share-all-embeddings --encoder-layers 2 --decoder-layers 2"
    " --encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
    " --decoder-attention-heads 2 --dropout 0"
    # Adam would make a gradient out of what rounding leaves of none.
    " --optimizer sgd --momentum 0.9 --lr 0.1 --clip-norm 1 --max-tokens 40 --max-update 6"
    " --num-workers 0 --cpu --no-progress-bar --disable-validation --no-save"
).split()


def run(data, folder, ranks, *flags):
    """Trains every connection; by connection, what each of the workers has seen."""
    folder.mkdir()
    port = free_port()
    connections = [name for name in toy.CONNECTIONS if not flags or name in toy.able(flags[0])]
    command = [sys.executable, str(ROOT / "tests" / "workers.py")]
    words = [data, "--user-dir", PLUGIN, *FLAGS, *flags[1:], "--", *connections]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [*command, *map(str, (rank, ranks, port, folder, *words))],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=900)
        assert process.returncode == 0, errors[-3000:]
    return {
        name: [torch.load(folder / f"{name}-{rank}.pt") for rank in range(ranks)]
        for name in connections
    }


@pytest.mark.slow
def test_two_workers_are_one_with_twice_the_batches(toy_run, tmp_path):
    together = run(toy_run.data, tmp_path / "two", 2)
    alone = run(toy_run.data, tmp_path / "one", 1)
    for name in toy.CONNECTIONS:
        (one,), two = alone[name], together[name]
        assert len(one["losses"]) == 6 and one["losses"][-1] < one["losses"][0], name
        # With two workers fairseq would have filled it with zeros.
        assert not one["without_gradient"], name
        for worker in two:
            assert worker["losses"] == pytest.approx(one["losses"], abs=1e-5), name
            assert worker["model"].keys() == one["model"].keys()
            for key, value in one["model"].items():
                assert torch.allclose(worker["model"][key], value, atol=1e-5), (name, key)


@pytest.mark.slow
def test_workers_drop_the_same_layers(toy_run, tmp_path):
    flags = ("--encoder-layerdrop", "0.5", "--decoder-layerdrop", "0.5")
    for name, (first, second) in run(
        toy_run.data, tmp_path / "two", 2, "encoder_layerdrop", *flags
    ).items():
        assert len(first["losses"]) == 6
        for key, value in first["model"].items():
            assert torch.equal(second["model"][key], value), (name, key)
