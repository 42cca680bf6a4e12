"""Parallel text: check it, read it, normalise it, write it.

A line ends at "\\n" and nowhere else. Python's ``str.splitlines``, ``codecs.open`` and fairseq
each see further line ends (a bare carriage return, U+0085, U+2028 ...), and one of those inside a
sentence shifts every pair behind it; ``normalise`` takes them out, so that all tools count alike.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from residual_fairseq.errors import UsageError

SPLITS = ("train", "valid", "test")

# In the order in which they are applied; the last one catches whatever fairseq's own splitting
# on white space would take for a word boundary and subword-nmt's would not.
_REPLACEMENTS = (
    ("byte order mark", re.compile("\ufeff"), ""),
    ("carriage return", re.compile("\r"), " "),
    ("line separator", re.compile("[\n\v\f\x1c-\x1e\x85\u2028\u2029]"), " "),
    ("tab", re.compile("\t"), " "),
    ("control character", re.compile("[\x00-\x1f\x7f]"), " "),
    ("no-break space", re.compile("[\xa0\u2007\u202f]"), " "),
    ("other white space", re.compile(r"[^\S ]"), " "),
)
_UNUSUAL = re.compile(r"[^\S ]|[\x00-\x1f\x7f\ufeff]")
_EXTRA_SPACES = re.compile("^ +| +$|(?<= ) +")


class FileFacts(NamedTuple):
    """What a check of a text file found: its number of lines and the SHA-256 of its bytes."""

    lines: int
    sha256: str


def check_file(path: Path) -> FileFacts:
    """Read a whole file as UTF-8.

    Bytes behind the last "\\n" count as a line.

    Raises:
        UsageError: the file is missing, unreadable or empty, or a line of it is not UTF-8.
    """
    digest = hashlib.sha256()
    number = 0
    try:
        with open(path, "rb") as file:
            for line in file:
                number += 1
                digest.update(line)
                line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}, line {number}: not valid UTF-8 ({error.reason} at byte {error.start + 1} "
            "of the line): convert the file to UTF-8"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not number:
        raise UsageError(f"{path}: the file is empty")
    return FileFacts(number, digest.hexdigest())


def check_parallel(source: Path, target: Path) -> tuple[FileFacts, FileFacts]:
    """Check both sides of a parallel text, and that they have equally many lines.

    Raises:
        UsageError: as ``check_file``, or the line counts differ.
    """
    facts = check_file(source), check_file(target)
    if facts[0].lines != facts[1].lines:
        raise UsageError(
            f"{source} has {facts[0].lines} lines and {target} has {facts[1].lines}: "
            "line N of one has to be the translation of line N of the other"
        )
    return facts


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their final "\\n", and otherwise as they are."""
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line[:-1] if line.endswith("\n") else line


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a text file beside ``path`` that takes its place only if the block succeeds."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines, each closed by one "\\n"; return how many."""
    count = 0
    with replacing(path) as file:
        for line in lines:
            file.write(f"{line}\n")
            count += 1
    return count


def write_pairs(source: Path, target: Path, pairs: Iterable[tuple[str, str]]) -> int:
    """Write the two sides of sentence pairs to two files; return the number of pairs."""
    count = 0
    with replacing(source) as source_file, replacing(target) as target_file:
        for source_line, target_line in pairs:
            source_file.write(f"{source_line}\n")
            target_file.write(f"{target_line}\n")
            count += 1
    return count


def normalise(line: str, counts: Counter[str] | None = None) -> str:
    """Replace what line-based tools disagree about; everything else stays as it is.

    Line ends of any kind, tabs, control characters (C0 and DEL) and all white space of Unicode,
    no-break spaces among them, become a space. Byte order marks go, wherever concatenated files
    have left them. Runs of spaces become one, and none stays at either end.

    Unicode normalisation (NFC) is not applied: references are scored as they were published, and
    a model has to learn to write characters as they are written there.

    Args:
        line: one line, without its "\\n".
        counts: incremented once for every kind of change that the line needed.
    """
    reasons = ["extra spaces"] if _EXTRA_SPACES.search(line) else []
    if _UNUSUAL.search(line):
        for reason, pattern, replacement in _REPLACEMENTS:
            line, found = pattern.subn(replacement, line)
            if found:
                reasons.append(reason)
    if counts is not None:
        counts.update(reasons)
    return _EXTRA_SPACES.sub("", line)


def normalise_pairs(
    source: Iterable[str], target: Iterable[str], counts: tuple[Counter[str], Counter[str]]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of two equally long texts, both sides normalised.

    Args:
        counts: for source and target, incremented as in ``normalise``.
    """
    for source_line, target_line in zip(source, target):
        yield normalise(source_line, counts[0]), normalise(target_line, counts[1])


def drop_empty(
    pairs: Iterable[tuple[str, str]], dropped: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs that have text on both sides.

    Args:
        dropped: incremented at "source empty", "target empty" or "both empty" for the others.
    """
    for source, target in pairs:
        if source and target:
            yield source, target
        elif source or target:
            dropped["target empty" if source else "source empty"] += 1
        else:
            dropped["both empty"] += 1
