"""Line-by-line work on several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing import Pool

# Each worker process keeps its function here: a BPE model is too large to send with every batch.
_function: Callable[[str], str]


def _set_function(function: Callable[[str], str]) -> None:
    global _function
    _function = function


def _call_function(line: str) -> str:
    return _function(line)


def map_lines(function: Callable[[str], str], lines: Iterable[str], workers: int) -> Iterator[str]:
    """``map`` over several processes: in order, with a bounded number of lines in memory."""
    if workers == 1:
        yield from map(function, lines)
        return
    lines = iter(lines)
    with Pool(workers, _set_function, (function,)) as pool:
        while batch := list(islice(lines, 10_000 * workers)):
            yield from pool.map(_call_function, batch, chunksize=1_000)
