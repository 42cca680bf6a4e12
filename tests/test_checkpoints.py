import argparse
import ast
import os
import pickle
import tarfile
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import pytest
import torch
from conftest import PLUGIN, ROOT, fairseq, free_port, generate
from fairseq import checkpoint_utils
from fairseq.models import FairseqEncoder
from torch.serialization import get_unsafe_globals_in_checkpoint

from residual_fairseq import ResidualTransformerModel, checkpoints
from residual_fairseq.errors import UsageError

READERS = {
    "fairseq": lambda path: checkpoint_utils.load_checkpoint_to_cpu(str(path)),
    "ours": checkpoints.load,
}


@pytest.fixture(params=READERS)
def read(request):
    return READERS[request.param]


@pytest.fixture(params=[True, False], ids=["zip", "legacy"])
def save(request):
    def save(state, path, **options):
        torch.save(state, path, _use_new_zipfile_serialization=request.param, **options)

    return save


class Call:
    """Pickles as a call of a function, with a state for the result."""

    def __init__(self, function, *arguments, state=None):
        self.parts = (function, arguments, state)

    def __reduce__(self):
        return self.parts if self.parts[2] is not None else self.parts[:2]


def checkpoint(**others):
    """The least that fairseq reads as a checkpoint."""
    return {
        "model": OrderedDict(weight=torch.arange(6.0).view(2, 3)),
        "args": None,
        "cfg": {
            "generation": {"beam": 5, "print_alignment": None},
            "model": argparse.Namespace(arch="transformer"),
        },
        "optimizer_history": [
            {
                "criterion_name": "CrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {},
                "num_updates": 3,
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1}},
        **others,
    }


def refusal(read, path):
    """The line that refuses a file."""
    with pytest.raises(UsageError) as caught:
        read(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def touching(path):
    return Call(os.system, f"touch {path}")


def test_payload_of_these_tests_is_live(tmp_path):
    pickle.loads(pickle.dumps(touching(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", ["model", "extra"])
def test_system_call_is_refused_by_name_and_not_run(tmp_path, read, save, place):
    save(checkpoint(**{place: touching(tmp_path / "ran")}), tmp_path / "evil.pt")
    assert f"{os.system.__module__}.system" in refusal(read, tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("function", [eval, exec, getattr, torch.hub.load, np.load])
def test_other_functions_are_refused_by_name(tmp_path, read, save, function):
    save(checkpoint(extra=Call(function, "1")), tmp_path / "evil.pt")
    assert function.__name__ in refusal(read, tmp_path / "evil.pt")


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_bare_pickle_is_refused_and_not_run(tmp_path, read, protocol):
    evil = pickle.dumps(touching(tmp_path / "ran"), protocol=protocol)
    (tmp_path / "evil.pt").write_bytes(evil)
    refusal(read, tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


def test_newer_pickle_protocol_is_refused_and_not_run(tmp_path, read, save):
    evil = checkpoint(extra=touching(tmp_path / "ran"))
    save(evil, tmp_path / "evil.pt", pickle_protocol=4)
    refusal(read, tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


def test_tar_archive_of_old_torch_is_refused_and_not_run(tmp_path, read):
    evil = pickle.dumps(touching(tmp_path / "ran"), protocol=2)
    with tarfile.open(tmp_path / "evil.pt", "w") as archive:
        for name in ("storages", "tensors", "pickle"):
            member = tarfile.TarInfo(name)
            member.size = len(evil)
            archive.addfile(member, BytesIO(evil))
    refusal(read, tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


def test_weights_only_loader_can_not_be_turned_off(tmp_path, monkeypatch, read, save):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    save(checkpoint(extra=touching(tmp_path / "ran")), tmp_path / "evil.pt")
    refusal(read, tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "reader",
    [
        lambda path: checkpoint_utils.load_model_ensemble_and_task([str(path)]),
        lambda path: checkpoint_utils.load_pretrained_component_from_model(
            FairseqEncoder(None), str(path)
        ),
        lambda path: checkpoint_utils.load_ema_from_checkpoint(str(path)),
        lambda path: ResidualTransformerModel.from_pretrained(str(path.parent), path.name),
    ],
    ids=["ensemble", "component", "ema", "from_pretrained"],
)
def test_every_loader_of_fairseq_is_guarded(tmp_path, save, reader):
    save(checkpoint(extra=touching(tmp_path / "ran")), tmp_path / "evil.pt")
    assert "system" in refusal(reader, tmp_path / "evil.pt")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "forged",
    [
        # An array of Python objects laid over bytes: numpy would follow the pointer 0x4141...
        Call(np.ndarray, (1,), "O", b"A" * 8),
        # Memory before the buffer.
        Call(np.ndarray, (1,), "f8", b"A" * 8, -800),
        Call(np.dtype, "O"),
        Call(np.dtype, "V8", False, True, state=(3, "|", None, None, None, 8, 1, 63)),
    ],
    ids=["objects", "offset", "dtype", "structure"],
)
def test_forged_arrays_are_refused(tmp_path, read, save, forged):
    save(checkpoint(extra=forged), tmp_path / "evil.pt")
    assert "numpy." in refusal(read, tmp_path / "evil.pt")


def test_forged_flags_of_a_dtype_have_no_effect(tmp_path, read, save):
    flags = 63
    forged = Call(np.dtype, "f8", False, True, state=(3, "<", None, None, None, -1, -1, flags))
    save(checkpoint(extra=forged), tmp_path / "evil.pt")
    assert read(tmp_path / "evil.pt")["extra"].flags == 0
    assert np.dtype("f8").flags == 0


def test_pickle_can_not_construct_what_may_only_be_filled(tmp_path, read, save):
    for name in checkpoints.BUILT_ONLY:
        assert "." not in name
    save(checkpoint(extra=type(np.dtype("f8"))), tmp_path / "type.pt")
    refusal(read, tmp_path / "type.pt")


def test_missing_file_and_folder(tmp_path, read):
    assert "No such file" in refusal(read, tmp_path / "none.pt")
    refusal(read, tmp_path)


@pytest.mark.parametrize("share", [0, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999])
def test_truncated_file(tmp_path, read, save, share):
    save(checkpoint(extra=torch.zeros(500)), tmp_path / "whole.pt")
    whole = (tmp_path / "whole.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: int(share * len(whole))])
    assert ("is empty" if share == 0 else "cut short") in refusal(read, tmp_path / "cut.pt")


def test_other_kinds_of_file(tmp_path, read):
    path = tmp_path / "file.pt"
    for content in (b"<!DOCTYPE html>\n<html>404</html>\n", b"\n", bytes(range(256)) * 9):
        path.write_bytes(content)
        assert "no PyTorch checkpoint" in refusal(read, path)
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    assert "no PyTorch checkpoint" in refusal(read, path)


def test_saved_tensors_that_are_no_checkpoint(tmp_path, read, save):
    for other in (torch.zeros(2), [1], {"weight": torch.zeros(2)}):
        save(other, tmp_path / "other.pt")
        assert "no fairseq checkpoint" in refusal(read, tmp_path / "other.pt")


def test_sound_checkpoint_is_read(tmp_path, read, save):
    save(checkpoint(), tmp_path / "sound.pt")
    state = read(tmp_path / "sound.pt")
    assert torch.equal(state["model"]["weight"], torch.arange(6.0).view(2, 3))
    assert state["cfg"]["model"] == checkpoint()["cfg"]["model"]


def test_fairseq_still_upgrades_and_overrides(tmp_path):
    """What the guard doesn't refuse goes through the rest of fairseq's own function."""
    torch.save(checkpoint(), tmp_path / "sound.pt")
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "sound.pt"), {"beam": 7})
    assert state["cfg"].generation.beam == 7
    assert state["extra_state"]["train_iterator"]["epoch"] == 1


def test_arrays_and_numbers_of_numpy_are_read(tmp_path, read, save):
    arrays = [np.array([[1, 0, 1], [0, 0, 1]], dtype=dtype) for dtype in checkpoints.NUMBERS]
    arrays += [np.asfortranarray(array) for array in arrays]
    save(checkpoint(arrays=arrays, numbers=[a[0, 0] for a in arrays]), tmp_path / "numpy.pt")
    state = read(tmp_path / "numpy.pt")
    for array, found, number in zip(arrays, state["arrays"], state["numbers"]):
        assert type(found) is np.ndarray
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
        assert type(number) is type(array[0, 0])
        assert number == 1


@pytest.mark.parametrize("other", [b"cnumpy.core.multiarray\n", b"cnumpy._core.multiarray\n"])
def test_arrays_written_with_either_numpy_are_read(tmp_path, read, other):
    path = tmp_path / "numpy.pt"
    state = checkpoint(array=np.arange(4), number=np.float64(0.5))
    torch.save(state, path, _use_new_zipfile_serialization=False)
    written = path.read_bytes()
    own = b"c" + np.arange(4).__reduce__()[0].__module__.encode() + b"\n"
    assert own in written
    path.write_bytes(written.replace(own, other))
    np.testing.assert_array_equal(read(path)["array"], np.arange(4))
    assert read(path)["number"] == 0.5


def test_guarding_twice_is_guarding_once():
    before = (checkpoint_utils.load_checkpoint_to_cpu, checkpoint_utils.torch)
    checkpoints.guard()
    assert (checkpoint_utils.load_checkpoint_to_cpu, checkpoint_utils.torch) == before


def test_old_torch_is_refused(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.5.1+cu121")
    with pytest.raises(UsageError, match=r"2\.5\.1.*2\.6"):
        checkpoints.guard()


@pytest.mark.parametrize(
    "path",
    [path for part in ("residual_fairseq", "scripts") for path in (ROOT / part).rglob("*.py")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_no_file_of_ours_calls_torch_load_without_weights_only(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
            assert "weights_only=True" in ast.unparse(node), f"line {node.lineno}"


@pytest.mark.slow
def test_real_checkpoints_name_nothing_beyond_the_list(toy_run):
    files = list(toy_run.save.glob("*.pt"))
    assert files
    for path in files:
        assert not get_unsafe_globals_in_checkpoint(path)
        array = checkpoints.load(path)["extra_state"]["metrics"]["valid"][1][3]["sum"]
        assert isinstance(array, np.ndarray)


@pytest.mark.slow
def test_hydra_front_end_writes_nothing_beyond_the_list(toy_run, tmp_path):
    layers = "{embed_dim: 8, ffn_embed_dim: 8, layers: 1, attention_heads: 2}"
    (tmp_path / "toy.yaml").write_text(
        f"""# @package _group_
common: {{cpu: true, log_format: simple, user_dir: {PLUGIN}}}
checkpoint: {{save_dir: {tmp_path / "save"}}}
task: {{_name: translation, data: {toy_run.data}, source_lang: de, target_lang: en,
       eval_bleu: true, eval_bleu_args: '{{"beam": 1}}'}}
dataset: {{max_tokens: 200, num_workers: 0}}
criterion: {{_name: cross_entropy}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: inverse_sqrt}}
optimization: {{lr: [0.01], max_update: 2}}
model: {{_name: residual_transformer, encoder: {layers}, decoder: {layers}}}
"""
    )
    done = fairseq(
        "hydra-train", "--config-dir", tmp_path, "--config-name", "toy", f"hydra.run.dir={tmp_path}"
    )
    path = tmp_path / "save" / "checkpoint_last.pt"
    assert path.exists(), done.stderr
    assert not get_unsafe_globals_in_checkpoint(path)
    assert checkpoints.load(path)["cfg"]["model"]["_name"] == "residual_transformer"


@pytest.mark.slow
def test_generate(toy_run):
    done = generate(toy_run, toy_run.save / "checkpoint_last.pt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\nH-") == 10


@pytest.mark.slow
def test_generate_from_an_evil_checkpoint(toy_run, tmp_path):
    state = checkpoints.load(toy_run.save / "checkpoint_last.pt")
    torch.save({**state, "extra": touching(tmp_path / "ran")}, tmp_path / "evil.pt")
    done = generate(toy_run, tmp_path / "evil.pt")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"{os.system.__module__}.system" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_from_pretrained(toy_run):
    model = ResidualTransformerModel.from_pretrained(
        str(toy_run.save), "checkpoint_last.pt", data_name_or_path=str(toy_run.data)
    )
    assert isinstance(model.translate("a b c"), str)


def copied(run, folder):
    """A save directory that holds the toy run's last checkpoint."""
    folder.mkdir()
    (folder / "checkpoint_last.pt").write_bytes((run.save / "checkpoint_last.pt").read_bytes())
    return folder


@pytest.mark.slow
def test_training_is_resumed(toy_run, tmp_path):
    save_dir = copied(toy_run, tmp_path / "save")
    done = fairseq("train", *toy_run.flags, "--save-dir", save_dir, "--max-epoch", 4)
    assert done.returncode == 0, done.stderr
    before, after = (
        checkpoints.load(path)["optimizer_history"][-1]["num_updates"]
        for path in (toy_run.save / "checkpoint_last.pt", save_dir / "checkpoint4.pt")
    )
    assert after == before * 4 // 3


@pytest.mark.slow
def test_training_is_resumed_by_two_workers(toy_run, tmp_path):
    """The first worker reads the checkpoint and sends it to the second."""
    save_dir = copied(toy_run, tmp_path / "save")
    port = free_port()

    def worker(rank):
        return fairseq(
            "train", *toy_run.flags, "--save-dir", save_dir, "--max-epoch", 4,
            "--distributed-world-size", 2, "--distributed-rank", rank,
            "--distributed-init-method", f"tcp://127.0.0.1:{port}", "--distributed-no-spawn",
            "--device-id", 0, "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp",
        )  # fmt: skip

    with ThreadPoolExecutor() as pool:
        for done in pool.map(worker, range(2)):
            assert done.returncode == 0, done.stderr
    assert (save_dir / "checkpoint4.pt").exists()
