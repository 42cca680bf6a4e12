"""Reading fairseq checkpoints without running anything that is in them.

A checkpoint is a pickle, and an unrestricted unpickler calls whatever functions the file names.
PyTorch's weights-only unpickler (the default since 2.6) calls only functions on a list, and that
list lacks what every fairseq checkpoint holds, so that ``fairseq-generate``, resuming and
``from_pretrained`` all fail. :func:`guard` extends the list by the few types that fairseq writes
and keeps the weights-only unpickler on; :func:`load` reads a checkpoint for our own commands.

The guard ends where unpickling ends. A few of fairseq's own models (``fconv``, ``wav2vec`` and kin)
``eval`` strings of a checkpoint's configuration when they are built, so a checkpoint of unknown
origin that names such a model can still run code through fairseq.
"""

from __future__ import annotations

import functools
import os
import pickle
import re
from argparse import Namespace
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf

from .errors import UsageError

# Version 2.6 is the first whose weights-only unpickler is not known to run code (CVE-2025-32434).
OLDEST_TORCH = (2, 6)

NUMBERS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


def _number_dtype(name: str, align: bool = False, copy: bool = False) -> np.dtype:
    """Stand in for ``numpy.dtype`` in a pickle: the dtype of a plain number, and no other.

    Args:
        name: numpy's code of the dtype, such as ``i8``.
        align, copy: what ``numpy.dtype`` takes besides, without effect on plain numbers.

    Raises:
        UnpicklingError: for every other dtype.
    """
    if name not in NUMBERS:
        raise pickle.UnpicklingError(f"GLOBAL numpy.dtype({name!r})")
    return np.dtype(name)


def _array_type(*_: Any) -> None:
    """Stand in for ``numpy.ndarray``, which a pickle has to name but never to call."""
    raise pickle.UnpicklingError("GLOBAL numpy.ndarray(...)")


def _empty_array(*_: Any) -> np.ndarray:
    """Stand in for numpy's ``_reconstruct``: an empty array, to be filled by the pickle's state."""
    return np.empty(0, "b")


# What a pickle may name, and what it gets for that name. Real checkpoints of fairseq-train and
# fairseq-hydra-train name nothing else; numpy's names come with --eval-bleu, whose n-gram counts
# are kept as arrays.
SAFE_GLOBALS: dict[str, Callable] = {
    # Takes no positional arguments and has no __setstate__: the state becomes plain attributes.
    "argparse.Namespace": Namespace,
    # numpy's own constructors must not be on this list: a pickle can have ``numpy.ndarray`` lay an
    # array of Python objects over bytes of its own, or have ``dtype.__setstate__`` declare bytes to
    # be objects, and numpy then follows forged pointers. The stand-ins know plain numbers only, and
    # the dtypes they return are numpy's constants, whose __setstate__ changes nothing.
    "numpy.dtype": _number_dtype,
    "numpy.ndarray": _array_type,
    # numpy 1 and numpy 2 write different names, and either may read the other's file.
    "numpy.core.multiarray._reconstruct": _empty_array,
    "numpy._core.multiarray._reconstruct": _empty_array,
    # Copies bytes into a number, checks their length, and gets its dtype from the stand-in.
    "numpy.core.multiarray.scalar": np.float64(0).__reduce__()[0],
    "numpy._core.multiarray.scalar": np.float64(0).__reduce__()[0],
    # An integer in a frozen dataclass: how fairseq's workers write "tensor number i" when the first
    # of them hands a checkpoint to the others.
    "fairseq.distributed.utils._TensorPlaceholder": distributed_utils._TensorPlaceholder,
}

# Types whose __setstate__ the unpickler may call, but which no pickle may construct. PyTorch keeps
# both kinds in one table, and a pickle looks names up as "module.name": a name without a dot can't
# be asked for. ndarray.__setstate__ checks the length of its bytes against shape and dtype.
BUILT_ONLY: dict[str, type] = {
    "ndarray": np.ndarray,
    **{f"dtype-{name}": type(np.dtype(name)) for name in NUMBERS},
}


class _GuardedTorch:
    """The ``torch`` that ``fairseq.checkpoint_utils`` sees: PyTorch's, but for ``load``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(stream: BinaryIO, map_location: Any = "cpu") -> dict[str, Any]:
        """Read a checkpoint with the weights-only unpickler.

        Args:
            stream: the open file.
            map_location: as in ``torch.load``.

        Returns:
            The checkpoint.

        Raises:
            UsageError: the file names a global that isn't on the list, is damaged, or is something
                else than a fairseq checkpoint. Nothing in it has been run.
        """
        path = stream.name
        if os.fstat(stream.fileno()).st_size == 0:
            raise UsageError(f"{path} is empty; copy or write the checkpoint again")
        try:
            state = torch.load(stream, map_location=map_location, weights_only=True)
        # A damaged file sends the reader astray, and it may fail anywhere, in any way.
        except Exception as error:
            found = re.search(r"GLOBAL (\S+)", str(error))
            if isinstance(error, pickle.UnpicklingError) and found:
                raise UsageError(
                    f"{path} was not loaded, and nothing in it was run: it asks for"
                    f" {found.group(1)}, which is none of the types that fairseq writes"
                ) from error
            raise UsageError(
                f"{path} is no PyTorch checkpoint, or is damaged or cut short; copy or write it"
                " again"
            ) from error
        if not isinstance(state, dict) or "model" not in state:
            raise UsageError(f"{path} is no fairseq checkpoint: it has no entry 'model'")
        return state


def guard() -> None:
    """Make all of fairseq's commands read checkpoints safely; calling it again changes nothing.

    fairseq reads checkpoints in ``checkpoint_utils`` alone (generate, interactive, validate,
    ``from_pretrained``, resuming, ``--finetune-from-model``, pretrained encoders), and between
    workers in ``distributed.utils``. A file that can't be read, is no checkpoint or names a global
    beyond :data:`SAFE_GLOBALS` is then answered by a :class:`UsageError` that names the file.

    Raises:
        UsageError: PyTorch is older than 2.6.
    """
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST_TORCH:
        raise UsageError(
            f"torch {torch.__version__} can't read checkpoints safely; install torch 2.6 or newer"
        )
    if isinstance(checkpoint_utils.torch, _GuardedTorch):
        return
    torch.serialization.add_safe_globals(
        [(target, name) for name, target in {**SAFE_GLOBALS, **BUILT_ONLY}.items()]
    )
    checkpoint_utils.torch = _GuardedTorch()
    checkpoint_utils.load_checkpoint_to_cpu = _unreadable_in_one_line(
        checkpoint_utils.load_checkpoint_to_cpu
    )
    distributed_utils.broadcast_object = _with_plain_config(distributed_utils.broadcast_object)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint onto the CPU, without running anything in it.

    Args:
        path: a checkpoint of fairseq, in PyTorch's present or its older format.

    Returns:
        The checkpoint as it was saved: ``model``, ``cfg`` or ``args``, ``optimizer_history``,
        ``extra_state`` and so on.

    Raises:
        UsageError: the file can't be opened, is no checkpoint, or names a global beyond
            :data:`SAFE_GLOBALS`.
    """
    guard()
    try:
        with open(path, "rb") as stream:
            return _GuardedTorch.load(stream)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error


def _unreadable_in_one_line(load_checkpoint_to_cpu: Callable) -> Callable:
    """Wrap fairseq's ``load_checkpoint_to_cpu``: a file that can't be opened is one line."""

    @functools.wraps(load_checkpoint_to_cpu)
    def wrapper(path: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return load_checkpoint_to_cpu(path, *args, **kwargs)
        except OSError as error:
            raise UsageError(f"{path} can't be read: {error.strerror}") from error

    return wrapper


def _with_plain_config(broadcast_object: Callable) -> Callable:
    """Wrap fairseq's ``broadcast_object``: a checkpoint's ``cfg`` travels as a plain dictionary.

    The first worker sends the checkpoint that it has read to the others, and these unpickle it,
    with the configuration by then turned into OmegaConf's types. Those have a ``__setstate__`` of
    their own and stay off the list; the receiver (``Trainer.load_checkpoint``) doesn't use ``cfg``.
    """

    @functools.wraps(broadcast_object)
    def wrapper(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, dict) and OmegaConf.is_config(obj.get("cfg")):
            obj = {**obj, "cfg": OmegaConf.to_container(obj["cfg"])}
        return broadcast_object(obj, *args, **kwargs)

    return wrapper
