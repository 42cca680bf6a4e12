import argparse
import math
import os
import subprocess
import sys
import weakref
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from conftest import ROOT, fairseq, generate

from residual_fairseq import averaging, checkpoints
from residual_fairseq.averaging import last_checkpoints, main
from residual_fairseq.errors import UsageError

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def save(path, model, updates=3):
    """Writes a checkpoint of a given model, complete with an optimizer's state."""
    torch.save(
        {
            "model": OrderedDict(model),
            "cfg": {"model": argparse.Namespace(arch="transformer")},
            "optimizer_history": [
                {
                    "criterion_name": "CrossEntropyCriterion",
                    "optimizer_name": "FairseqAdam",
                    "lr_scheduler_state": {},
                    "num_updates": updates,
                }
            ],
            "extra_state": {"train_iterator": {"epoch": 2}},
            "last_optimizer_state": {"state": torch.zeros(20_000)},
        },
        path,
    )
    return path


def average(*paths, output="mean.pt"):
    output = Path(paths[0]).parent / output
    main(["--inputs", *map(str, paths), "--output", str(output)])
    return checkpoints.load(output)


def refusal(*arguments):
    """The line that refuses a command."""
    with pytest.raises(UsageError) as caught:
        main([str(argument) for argument in arguments])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def parameters(dtype, seed, shape=(50, 40)):
    """Numbers of very different sizes."""
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.randint(-6, 7, shape, generator=generator)
    return (torch.randn(shape, generator=generator) * 2.0**exponents).to(dtype)


def bits(tensor):
    return tensor.contiguous().view({2: torch.int16, 4: torch.int32}[tensor.element_size()])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_mean_of_equal_checkpoints_is_the_checkpoint(tmp_path, dtype, count):
    special = torch.tensor([0.0, -0.0, torch.finfo(dtype).tiny / 4, torch.finfo(dtype).max, 1 / 3])
    model = {"weight": parameters(dtype, 1), "special": special.to(dtype)}
    paths = [save(tmp_path / f"{i}.pt", model) for i in range(count)]
    mean = average(*paths)["model"]
    for name, tensor in model.items():
        assert mean[name].dtype == dtype
        assert torch.equal(bits(mean[name]), bits(tensor))


@pytest.mark.parametrize("dtype", DTYPES)
def test_mean_of_two_is_right_to_one_unit_in_the_last_place(tmp_path, dtype):
    models = [parameters(dtype, seed) for seed in (1, 2)]
    paths = [save(tmp_path / f"{i}.pt", {"w": model}) for i, model in enumerate(models)]
    mean = average(*paths)["model"]["w"].double()
    exact = (models[0].double() + models[1].double()) / 2
    unit = torch.finfo(dtype).eps * 2.0 ** exact.abs().log2().floor()
    assert ((mean - exact).abs() <= unit).all()


def test_sum_beyond_float16_does_not_overflow(tmp_path):
    model = {"w": torch.tensor([60_000.0], dtype=torch.float16)}
    paths = [save(tmp_path / f"{i}.pt", model) for i in range(3)]
    assert average(*paths)["model"]["w"].item() == model["w"].item()


def test_tied_parameters_are_averaged_once_and_stay_tied(tmp_path):
    paths = []
    for i, value in enumerate((1.0, 2.0, 6.0)):
        shared = torch.full((4, 2), value)
        model = {"encoder.embed": shared, "decoder.embed": shared, "decoder.out": shared}
        paths.append(save(tmp_path / f"{i}.pt", {**model, "alone": shared.clone()}))
    mean = average(*paths)["model"]
    assert {name: tensor.unique().item() for name, tensor in mean.items()} == dict.fromkeys(mean, 3)
    assert mean["encoder.embed"].data_ptr() == mean["decoder.embed"].data_ptr()
    assert mean["encoder.embed"].data_ptr() == mean["decoder.out"].data_ptr()
    assert mean["encoder.embed"].data_ptr() != mean["alone"].data_ptr()


def test_parts_of_one_storage_are_not_taken_for_tied(tmp_path):
    whole = torch.arange(12.0).view(4, 3)
    parts = {"first": whole[:2], "second": whole[2:], "square": whole[:3], "turned": whole[:3].t()}
    paths = [save(tmp_path / f"{i}.pt", parts) for i in range(2)]
    mean = average(*paths)["model"]
    for name, part in parts.items():
        assert torch.equal(mean[name], part)


def test_copies_saved_from_a_gpu_stay_equal(tmp_path):
    """fairseq moves each parameter to the CPU by itself, so that tied ones are saved as copies."""
    paths = []
    for i, value in enumerate((1.0, 2.0)):
        model = {"in": torch.full((2,), value), "out": torch.full((2,), value)}
        paths.append(save(tmp_path / f"{i}.pt", model))
    mean = average(*paths)["model"]
    assert torch.equal(mean["in"], torch.full((2,), 1.5))
    assert torch.equal(mean["in"], mean["out"])


def test_parameters_tied_in_one_file_only(tmp_path):
    shared = torch.ones(2)
    a = save(tmp_path / "a.pt", {"in": shared, "out": shared})
    b = save(tmp_path / "b.pt", {"in": torch.zeros(2), "out": torch.zeros(2)})
    assert torch.equal(average(a, b)["model"]["out"], torch.full((2,), 0.5))
    c = save(tmp_path / "c.pt", {"in": torch.zeros(2), "out": shared})
    line = refusal("--inputs", a, c, "--output", tmp_path / "mean.pt")
    assert f"{c}: out and in differ, but are tied in {a}" in line


@pytest.mark.parametrize(
    "changed, told",
    [
        ({"n": None}, "{b} lacks n, which {a} has"),
        ({"x": torch.zeros(1)}, "{b} has x, which {a} lacks"),
        ({"w": torch.zeros(3, 2)}, "{b}: w is float32 (3, 2), but float32 (2, 3) in {a}"),
        ({"w": torch.zeros(2, 3).half()}, "{b}: w is float16 (2, 3), but float32 (2, 3) in {a}"),
        ({"n": torch.tensor(2)}, "{b}: n (int64 ()) differs from the one in {a}"),
        ({"n": 1}, "{b}: n is int, but int64 () in {a}"),
        ({"w": torch.tensor([[1.0, math.nan, 1.0]] * 2)}, "{b}: w holds NaN"),
    ],
    ids=["missing", "added", "shape", "dtype", "integer", "kind", "nan"],
)
def test_mismatched_checkpoints_are_refused(tmp_path, changed, told):
    model = {"w": torch.zeros(2, 3), "n": torch.tensor(1)}
    a = save(tmp_path / "a.pt", model)
    changed = {name: value for name, value in {**model, **changed}.items() if value is not None}
    b = save(tmp_path / "b.pt", changed)
    line = refusal("--inputs", a, a, b, "--output", tmp_path / "mean.pt")
    assert told.format(a=a, b=b) in line
    assert not (tmp_path / "mean.pt").exists()


def test_nan_in_the_first_file_and_opposite_infinities_are_refused(tmp_path):
    one, nan, up, down = (
        save(tmp_path / f"{value}.pt", {"w": torch.tensor([1.0, value])})
        for value in (1.0, math.nan, math.inf, -math.inf)
    )
    output = tmp_path / "mean.pt"
    assert f"{nan}: w holds NaN" in refusal("--inputs", nan, one, "--output", output)
    assert f"{down}: w holds NaN (or" in refusal("--inputs", up, down, "--output", output)
    assert average(up, one)["model"]["w"][1] == math.inf


def test_entries_without_a_mean_are_kept(tmp_path):
    model = {
        "step": torch.tensor(2**53 + 1),
        "mask": torch.tensor([True, False]),
        "note": "any",
        "empty": torch.zeros(0, 3),
        "void": torch.zeros(0, dtype=torch.int64),
    }
    mean = average(*[save(tmp_path / f"{i}.pt", model) for i in range(2)])["model"]
    assert list(mean) == list(model)
    assert mean["note"] == "any"
    for name in ("step", "mask", "empty", "void"):
        assert torch.equal(mean[name], model[name])
        assert mean[name].dtype == model[name].dtype


def test_the_rest_comes_from_the_last_without_the_optimizer(tmp_path):
    a = save(tmp_path / "a.pt", {"w": torch.zeros(2)}, updates=10)
    b = save(tmp_path / "b.pt", {"w": torch.ones(2)}, updates=20)
    state = average(a, b)
    assert state["last_optimizer_state"] == {}
    assert state["optimizer_history"][-1]["num_updates"] == 20
    assert state["cfg"]["model"].arch == "transformer"
    assert state["extra_state"] == {"train_iterator": {"epoch": 2}}
    assert (tmp_path / "mean.pt").stat().st_size < a.stat().st_size / 5


@pytest.mark.parametrize(
    "by, name", [("epochs", "checkpoint{}.pt"), ("updates", "checkpoint_3_{}.pt")]
)
def test_the_last_are_chosen_by_number(tmp_path, capsys, by, name):
    for number in (11, 9, 10, 8):
        save(tmp_path / name.format(number), {"w": torch.tensor([float(number)])}, updates=number)
    for part in ("_best.pt", "_last.pt", "99.pt.tmp", "_4_99.pt.tmp", "_4_98-shard0.pt"):
        (tmp_path / f"checkpoint{part}").write_bytes(b"")
    assert [path.name for path in last_checkpoints(tmp_path, 3, by)] == [
        name.format(number) for number in (9, 10, 11)
    ]
    output = tmp_path / "mean.pt"
    main(["--inputs", str(tmp_path), "--last", "2", "--by", by, "--output", str(output)])
    state = checkpoints.load(output)
    assert state["model"]["w"].item() == 10.5
    assert state["optimizer_history"][-1]["num_updates"] == 11
    said = capsys.readouterr()
    assert "averaging" in said.err
    assert said.out == f"{output}: mean of {name.format(10)}, {name.format(11)}\n"
    line = refusal("--inputs", tmp_path, "--last", 5, "--by", by, "--output", output)
    assert "--last 5" in line and "holds 4 files" in line


def test_epochs_are_the_default_and_updates_do_not_count_as_epochs(tmp_path):
    for name, value in (("1", 1.0), ("2", 3.0), ("_3_9", 90.0)):
        save(tmp_path / f"checkpoint{name}.pt", {"w": torch.tensor([value])})
    output = tmp_path / "mean.pt"
    main(["--inputs", str(tmp_path), "--last", "2", "--output", str(output)])
    assert checkpoints.load(output)["model"]["w"].item() == 2


def test_wrong_use_is_told_in_one_line(tmp_path):
    a = save(tmp_path / "a.pt", {"w": torch.zeros(2)})
    output = tmp_path / "mean.pt"
    for arguments, told in (
        (["--inputs", tmp_path, "--output", output], "--last N"),
        (["--inputs", a, "--last", 1, "--output", output], "one folder"),
        (["--inputs", tmp_path, tmp_path, "--last", 1, "--output", output], "one folder"),
        (["--inputs", tmp_path, "--last", 0, "--output", output], "--last 0"),
        (["--inputs", a, "--by", "updates", "--output", output], "--by"),
        (["--inputs", a, tmp_path / "b.pt", "--output", output], f"{tmp_path / 'b.pt'}"),
        (["--inputs", a, "--output", tmp_path], "is a folder"),
        (["--inputs", a, "--output", tmp_path / "none" / "x.pt"], f"no folder {tmp_path / 'none'}"),
        (["--inputs", a, a, "--output", a], "one of the inputs"),
    ):
        assert told in refusal(*arguments)
    assert torch.equal(checkpoints.load(a)["model"]["w"], torch.zeros(2))


def test_evil_checkpoint_is_refused_and_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    a = save(tmp_path / "a.pt", {"w": torch.zeros(2)})
    for legacy in (False, True):
        torch.save(
            {"model": {"w": torch.zeros(2)}, "extra": Evil()},
            tmp_path / "evil.pt",
            _use_new_zipfile_serialization=not legacy,
        )
        line = refusal("--inputs", a, tmp_path / "evil.pt", "--output", tmp_path / "mean.pt")
        assert f"{os.system.__module__}.system" in line
        assert not (tmp_path / "ran").exists()


def test_same_inputs_give_the_same_bytes(tmp_path):
    paths = [save(tmp_path / f"{i}.pt", {"w": parameters(torch.float32, i)}) for i in range(3)]
    average(*paths, output="one.pt")
    average(*paths, output="two.pt")
    assert (tmp_path / "one.pt").read_bytes() == (tmp_path / "two.pt").read_bytes()


def test_one_checkpoint_is_in_memory_at_a_time(tmp_path, monkeypatch):
    class State(dict):
        """A dictionary that can be watched."""

    held = []

    def watched(path):
        assert all(state() is None for state in held)
        state = State(checkpoints.load(path))
        held.append(weakref.ref(state))
        return state

    monkeypatch.setattr(averaging, "load", watched)
    averaging.average([save(tmp_path / f"{i}.pt", {"w": torch.ones(2)}) for i in range(3)])
    assert len(held) == 3


def test_interruption_leaves_no_half_file(tmp_path, monkeypatch):
    a = save(tmp_path / "a.pt", {"w": torch.zeros(2)})
    (tmp_path / "mean.pt").write_bytes(b"an earlier result")

    def interrupted(state, stream):
        stream.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(torch, "save", interrupted)
        average(a, a)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pt", "mean.pt"]
    assert (tmp_path / "mean.pt").read_bytes() == b"an earlier result"
    assert torch.equal(average(a, a)["model"]["w"], torch.zeros(2))


@pytest.mark.slow
def test_average_of_a_real_run(toy_run, tmp_path):
    output = tmp_path / "mean.pt"
    done = subprocess.run(
        [sys.executable, "-m", "residual_fairseq.averaging", "--inputs", toy_run.save]
        + ["--last", "2", "--output", output],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{output}: mean of checkpoint2.pt, checkpoint3.pt\n"
    models = [
        checkpoints.load(path)["model"]
        for path in (toy_run.save / "checkpoint2.pt", toy_run.save / "checkpoint3.pt", output)
    ]
    assert any(not torch.equal(models[0][name], models[1][name]) for name in models[0])
    for name in models[0]:
        first, second, mean = (model[name].double() for model in models)
        torch.testing.assert_close((first + second) / 2, mean, rtol=1e-6, atol=1e-7)
    tied = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
    assert models[2][tied[0]].data_ptr() == models[2][tied[1]].data_ptr()

    translated = generate(toy_run, output)
    assert translated.returncode == 0, translated.stderr
    assert translated.stdout.count("\nH-") == 10

    # Continued from an average, training would start at update 0 in the old epoch, unsaid.
    flags = [*toy_run.flags, "--max-update", 1]
    resumed = fairseq("train", *flags, "--save-dir", tmp_path / "a", "--restore-file", output)
    assert resumed.returncode != 0
    assert "please reset the optimizer (--reset-optimizer). none (mean of 2)" in resumed.stderr
    tuned = fairseq("train", *flags, "--save-dir", tmp_path / "b", "--finetune-from-model", output)
    assert tuned.returncode == 0, tuned.stderr
    assert (tmp_path / "b" / "checkpoint_last.pt").exists()
