"""A preparation in stages: what is done is not done again, and is what was asked for."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from residual_fairseq.errors import UsageError
from residual_fairseq.results import read_json, sha256, write_json

#: What a disk says that is full, or may not be written to.
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


@contextmanager
def disk_errors_reported(out: Path) -> Iterator[None]:
    """Report a full or read-only disk in one line.

    Args:
        out: the folder that is being made.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise UsageError(
            f"--out {out}: cannot be written ({error.strerror}); what is done so far is kept: make "
            "room and run the same command again, or choose another --out"
        ) from None


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Keep other runs from making the same folder at the same time, by a file ``OUT.lock``.

    The system gives the lock back when a run ends, however it ends, so none is ever stale.

    Raises:
        UsageError: another run is at it.
    """
    path = out.with_name(f"{out.name}.lock")
    while True:
        file = open(path, "wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise UsageError(
                f"--out {out}: another run is making it; wait for it, or choose another --out"
            ) from None
        except OSError as error:
            # Not every network disk has locks; without them all is as it would be alone.
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        # Between the two lines above another run may have ended, and removed the file.
        if path.exists() and os.path.samestat(os.stat(path), os.fstat(file.fileno())):
            break
        file.close()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def check_reusable(out: Path, record: dict, request: dict, versions: dict[str, str]) -> None:
    """Check that a finished folder is what is asked for, and whole.

    Other versions of the tools are reported, not refused: the text is the same.

    Args:
        out: the folder.
        record: its ``corpus.json``.
        request: options and inputs, as they would be in ``corpus.json``.
        versions: of the tools now.

    Raises:
        UsageError: options, inputs or outputs differ.
    """
    advice = f"choose another --out or delete {out}"
    for name, value in request["options"].items():
        made_with = record.get("options", {}).get(name)
        if made_with != value:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} {value}: {out} was made with {made_with}; {advice}")
    for name, facts in request["inputs"].items():
        made_from = record["inputs"].get(name)
        # An older folder may know less of it.
        if made_from is None or any(
            made_from.get(key, fact) != fact for key, fact in facts.items()
        ):
            raise UsageError(f"{name} is not the file that {out} was made from; {advice}")
    for name, digest in record["outputs"].items():
        if not (out / name).is_file() or sha256(out / name) != digest:
            raise UsageError(f"{out / name} is missing or was changed; delete {out} and run again")
    made_with = record.get("versions", {})
    changed = [
        f"{tool} {made_with[tool]} (now {now})"
        for tool, now in versions.items()
        if tool in made_with and without_patch(tool, made_with[tool]) != without_patch(tool, now)
    ]
    if changed:
        print(
            f"WARNING: {out} was made with {', '.join(changed)}: today its tokens may come out "
            f"otherwise; to make it anew, {advice}",
            file=sys.stderr,
        )


def without_patch(tool: str, version: str) -> str:
    """A version; of Python only as much as text can depend on."""
    return ".".join(version.split(".")[:2]) if tool == "python" else version


def open_work_folder(work: Path, request: dict) -> Path:
    """Make the folder of a run, or take up that of an interrupted one that was to do the same.

    Args:
        request: options, inputs and versions of the run.

    Returns:
        the folder in it for what is kept.

    Raises:
        UsageError: the folder is none that an interrupted run has left.
    """
    result = work / "result"
    earlier = read_json(work / "request.json")
    if earlier is None and work.exists() and not is_empty_folder(work):
        raise UsageError(f"{work}: needed for this run, but is not from an earlier one; move it")
    # Without its result it was interrupted after the result had got its name.
    if earlier not in (None, request) or (earlier and not result.exists()):
        shutil.rmtree(work)
    work.mkdir(parents=True, exist_ok=True)
    write_json(work / "request.json", request)
    result.mkdir(exist_ok=True)
    return result


def run_stage(work: Path, name: str, build: Callable[[Path], dict]) -> dict:
    """Do one stage of a run, unless an interrupted run has done it.

    Args:
        work: folder of the run.
        name: of the stage, and of its folder in ``work``.
        build: is given the folder of the stage and returns its counts.

    Returns:
        the counts.
    """
    counts = read_json(work / f"{name}.json")
    if counts is None:
        (work / name).mkdir(exist_ok=True)
        counts = build(work / name)
        write_json(work / f"{name}.json", counts)
        print(f"{name}: done", flush=True)
    else:
        print(f"{name}: reused", flush=True)
    return counts
