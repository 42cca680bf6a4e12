"""Counts that others have published, and whether ours agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Published(NamedTuple):
    """A published count.

    Args:
        count: the number.
        source: who has published it where.
    """

    count: int
    source: str


def units_with_ends(record: Mapping[str, Any]) -> dict[str, int]:
    """Count units as the log of ``fairseq-preprocess`` does.

    Args:
        record: ``corpus.json`` of a bilingual corpus.

    Returns:
        units and ends of sentences, by split and language.
    """
    binarised = record["counts"]["binarise"]
    return {
        f"units of {split}.{lang}, with ends of sentences": facts["units"] + facts["sentences"]
        for split in ("train", "valid", *record["options"]["tests"])
        for lang, facts in binarised[split].items()
    }


def compare(counts: Mapping[str, int], published: Mapping[str, Published]) -> list[str]:
    """Put our counts beside the published ones, a line for each; those of only one are left out.

    Args:
        counts: ours, by what was counted.
        published: the same of others.

    Returns:
        lines for a person; they begin with "WARNING" where the two differ.
    """
    lines = []
    for name in counts:
        if name not in published:
            continue
        count, source = published[name]
        if counts[name] == count:
            lines.append(f"{name}: {count}, as published ({source})")
        else:
            lines.append(f"WARNING: {name}: {counts[name]} where {count} is published ({source})")
    return lines
