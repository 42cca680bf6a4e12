"""``residual-average``: the mean of several checkpoints of one run, as one checkpoint.

Usage::

    residual-average --inputs A.pt B.pt C.pt --output average.pt
    residual-average --inputs SAVE_DIR --last 5 --output average.pt
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from .checkpoints import load
from .errors import UsageError

NAMES = {"epochs": "checkpointEPOCH.pt", "updates": "checkpoint_EPOCH_UPDATES.pt"}
PATTERNS = {"epochs": r"checkpoint(\d+)\.pt", "updates": r"checkpoint_\d+_(\d+)\.pt"}


def last_checkpoints(folder: Path, count: int, by: str = "epochs") -> list[Path]:
    """Find the newest checkpoints of a run, the oldest of them first.

    Args:
        folder: fairseq-train's ``--save-dir``.
        count: how many.
        by: ``epochs`` takes those written at the end of an epoch, ``updates`` those written between
            (``--save-interval-updates``).

    Raises:
        UsageError: there are fewer.
    """
    numbered = []
    for path in folder.iterdir():
        match = re.fullmatch(PATTERNS[by], path.name)
        if match:
            numbered.append((int(match.group(1)), path))
    if len(numbered) < count:
        raise UsageError(
            f"--last {count}: {folder} holds {len(numbered)} files named {NAMES[by]}; lower --last"
            " or choose others with --by"
        )
    return [path for _, path in sorted(numbered)[-count:]]


class Mean:
    """The running mean of several models' parameters and buffers, one model in memory at a time.

    Sums are kept in float64. Its 53 bits hold the exact sum of up to 2^29 equal float32, float16 or
    bfloat16 numbers, and dividing that by their count is exact too: the mean of equal models is
    that model, bit for bit. In float32 three equal numbers would already be off by a rounding.

    What the first model shares (tied embeddings: several names, one tensor) is summed once and
    shared in the mean. Entries without a fraction (integers, booleans, anything that is no tensor)
    have no mean and must be the same in all models.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: Path
        self.forms: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        self.sums: dict[str, Tensor] = {}
        self.fixed: dict[str, Any] = {}

    def add(self, model: dict[str, Any], path: Path) -> None:
        """Add one model.

        Args:
            model: names to tensors, the entry ``model`` of a checkpoint.
            path: its file, for messages.

        Raises:
            UsageError: the model has other names, shapes, types or ties than the first, another
                value where there is no mean, or NaN.
        """
        if self.count == 0:
            self._start(model, path)
        else:
            self._check(model, path)
        self.count += 1
        for name, total in self.sums.items():
            if self.count > 1:
                total.add_(model[name])
            if total.isnan().any():
                raise UsageError(
                    f"{path}: {name} holds NaN (or an infinity opposite to one in an earlier file);"
                    " leave this checkpoint out"
                )

    def finish(self) -> dict[str, Any]:
        """Give the mean, each entry in its own dtype; the sums are used up."""
        means = {}
        for name in list(self.sums):
            dtype = getattr(torch, self.forms[name].split()[0])
            means[name] = self.sums.pop(name).div_(self.count).to(dtype)
        return {
            name: means[owner] if owner in means else self.fixed[owner]
            for name, owner in self.owners.items()
        }

    def _start(self, model: dict[str, Any], path: Path) -> None:
        self.first = path
        owners: dict[Any, str] = {}
        for name, value in model.items():
            self.forms[name] = _form(value)
            place = name
            if isinstance(value, Tensor) and value.numel():
                place = (value.data_ptr(), value.stride(), self.forms[name])
            self.owners[name] = owners.setdefault(place, name)
            if self.owners[name] != name:
                continue
            if isinstance(value, Tensor) and value.is_floating_point():
                self.sums[name] = value.to(torch.float64, copy=True)
            else:
                self.fixed[name] = value

    def _check(self, model: dict[str, Any], path: Path) -> None:
        for name, form in self.forms.items():
            if name not in model:
                raise UsageError(f"{path} lacks {name}, which {self.first} has")
            if _form(model[name]) != form:
                raise UsageError(
                    f"{path}: {name} is {_form(model[name])}, but {form} in {self.first}"
                )
        for name in model:
            if name not in self.forms:
                raise UsageError(f"{path} has {name}, which {self.first} lacks")
        for name, owner in self.owners.items():
            if name != owner and not _equal(model[name], model[owner]):
                raise UsageError(f"{path}: {name} and {owner} differ, but are tied in {self.first}")
        for name, value in self.fixed.items():
            if not _equal(model[name], value):
                raise UsageError(
                    f"{path}: {name} ({self.forms[name]}) differs from the one in {self.first}, and"
                    " has no mean"
                )


def average(paths: Sequence[Path]) -> dict[str, Any]:
    """Average checkpoints of one run.

    Args:
        paths: the files, the newest last.

    Returns:
        A checkpoint whose ``model`` is the mean and whose other entries are those of the last file,
        except that it has no optimizer state. fairseq-train refuses to continue from it ("Optimizer
        does not match; please reset the optimizer"): without that it would continue with a fresh
        optimizer at update 0 in the old epoch, and not say so. ``--finetune-from-model`` starts a
        new run from it.

    Raises:
        UsageError: a file can't be read or doesn't fit the first; see :meth:`Mean.add`.
    """
    mean = Mean()
    for path in tqdm(paths, desc="averaging", unit="checkpoint"):
        state = load(path)
        state["last_optimizer_state"] = {}
        mean.add(state["model"], path)
        if path is not paths[-1]:
            # Freed before the next one is read, not after.
            del state
    state["model"].update(mean.finish())
    if state.get("optimizer_history"):
        state["optimizer_history"][-1]["optimizer_name"] = f"none (mean of {len(paths)})"
    return state


def write(state: dict[str, Any], output: Path) -> None:
    """Save a checkpoint beside its place and rename it, so that half a file is never left there."""
    part = output.with_name(f"{output.name}.{os.getpid()}.part")
    try:
        # An open file, since given a name PyTorch would write that name into the file.
        with open(part, "wb") as stream:
            torch.save(state, stream)
        os.replace(part, output)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; ``argv`` defaults to the process's own arguments."""
    parser = argparse.ArgumentParser(
        prog="residual-average",
        description="Average the parameters of several checkpoints of one run.",
    )
    parser.add_argument(
        "--inputs",
        nargs="+",
        type=Path,
        required=True,
        metavar="FILE",
        help="the checkpoints, the newest last; or one folder, with --last",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument(
        "--last", type=int, metavar="N", help="average the N newest checkpoints of the folder"
    )
    parser.add_argument(
        "--by",
        choices=list(NAMES),
        help="with --last: newest among those written at the end of an epoch (the default), or"
        " among those written after a number of updates",
    )
    args = parser.parse_args(argv)
    paths = _inputs(args)
    _check_output(args.output, paths)
    state = average(paths)
    try:
        write(state, args.output)
    except OSError as error:
        raise UsageError(f"--output {args.output}: {error.strerror}") from error
    print(f"{args.output}: mean of {', '.join(path.name for path in paths)}")


def _inputs(args: argparse.Namespace) -> list[Path]:
    folders = [path for path in args.inputs if path.is_dir()]
    if args.last is None:
        if args.by is not None:
            raise UsageError("--by orders the files of a folder: give --last N too")
        if folders:
            raise UsageError(f"--inputs {folders[0]} is a folder: say with --last N how many of it")
        for path in args.inputs:
            if not path.is_file():
                raise UsageError(f"--inputs {path}: there is no such file")
        return args.inputs
    if args.last < 1:
        raise UsageError(f"--last {args.last}: give 1 or more")
    if len(args.inputs) != 1 or not folders:
        raise UsageError("--last N takes the newest of a folder: give one folder to --inputs")
    return last_checkpoints(folders[0], args.last, args.by or "epochs")


def _check_output(output: Path, inputs: list[Path]) -> None:
    if output.is_dir():
        raise UsageError(f"--output {output} is a folder: name a file")
    if not output.parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {output.parent}")
    if output.exists() and any(output.samefile(path) for path in inputs):
        raise UsageError(f"--output {output} is one of the inputs: name another file")


def _form(value: Any) -> str:
    """Describe an entry's type: ``float32 (8, 4)`` for a tensor, the class's name otherwise."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).split('.')[-1]} {tuple(value.shape)}"
    return type(value).__name__


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    return one == other


if __name__ == "__main__":
    main()
