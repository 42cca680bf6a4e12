"""A disk that is full, without one."""

from __future__ import annotations

import os
from types import ModuleType

import pytest

needs_dev_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def fill_disk(patch: pytest.MonkeyPatch, module: ModuleType, after: str | None = None) -> None:
    """Let all files that a module opens for writing be on a full disk.

    Args:
        after: name of a folder in which there is room yet.
    """

    def open_full(path, mode="r", **options):
        full = "w" in mode and (after is None or path.parent.name != after)
        return open("/dev/full" if full else path, mode, **options)

    patch.setattr(module, "open", open_full, raising=False)
