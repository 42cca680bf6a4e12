"""Test sets as WMT (SGML) and IWSLT (XML) publish them: one ``<seg id="N">text</seg>`` a line."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from data_prep.text import normalise
from residual_fairseq.errors import UsageError

_SEGMENT = re.compile(r'\s*<seg id="?(\d+)"?\s*>(.*)</seg>\s*')
_DOCUMENT = re.compile(r"<doc\b", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|#\d+|#[xX][0-9A-Fa-f]+);")


class Segment(NamedTuple):
    """A sentence of a test set.

    Args:
        line: number of its line in the file.
        document: number of its document, from one.
        id: its number in the document, as the file says.
        text: as it stands in the file.
    """

    line: int
    document: int
    id: int
    text: str


def read_segments(lines: Iterable[str], name: str) -> Iterator[Segment]:
    """Yield the segments of a file.

    Args:
        lines: of the file.
        name: of the file, for errors.

    Raises:
        UsageError: a segment is not whole on its line, or does not come after those before it.
    """
    document, last = 0, 0
    for number, line in enumerate(lines, 1):
        if _DOCUMENT.search(line):
            document, last = document + 1, 0
        if "<seg" not in line:
            continue
        found = _SEGMENT.fullmatch(line)
        if not found or "<seg" in found[2]:
            raise UsageError(
                f'{name}, line {number}: not one whole <seg id="N">text</seg>; is the file cut?'
            )
        if int(found[1]) <= last:
            raise UsageError(
                f"{name}, line {number}: segment {found[1]} comes after segment {last}"
            )
        last = int(found[1])
        yield Segment(number, document, last, found[2])


def pair_segments(
    sources: Iterable[Segment], targets: Iterable[Segment], names: tuple[str, str]
) -> list[tuple[str, str]]:
    """Pair the texts of the segments of two files.

    Args:
        names: of the files, for errors.

    Raises:
        UsageError: the files do not have the same segments in the same order, or none at all.
    """
    sources, targets = list(sources), list(targets)
    for source, target in zip(sources, targets):
        if (source.document, source.id) != (target.document, target.id):
            raise UsageError(
                f"{names[0]}, line {source.line}: document {source.document} has a segment "
                f"{source.id} where line {target.line} of {names[1]} has segment {target.id} of "
                f"document {target.document}"
            )
    if len(sources) != len(targets) or not sources:
        raise UsageError(
            f"{names[0]} has {len(sources)} segments and {names[1]} has {len(targets)}; is the "
            "archive whole?"
        )
    return [(source.text, target.text) for source, target in zip(sources, targets)]


def as_fairseq(text: str) -> str:
    """A segment as fairseq's prepare-iwslt14.sh and prepare-wmt14en2de.sh give it to Moses.

    The typographic apostrophe becomes the plain one. Entities stay: Moses escapes their "&" once
    more, so that "R&amp;D" comes to the model as "R & amp ; D", and published numbers are of that
    text.
    """
    return text.strip().replace("\u2019", "'")


def has_entity(text: str) -> bool:
    """Whether ``decode_entities`` changes a text."""
    return bool(_ENTITY.search(text))


def decode_entities(text: str) -> str:
    """Resolve the entities of XML, once: "R&amp;amp;D" becomes "R&amp;D".

    The many names of HTML are left alone, and so is an "&" that begins none: SGML files of WMT
    have both "&amp;" and bare "&".
    """
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text)


def as_reference(text: str) -> str:
    """A segment as what detokenised output is compared with: with nothing but spaces changed.

    sacreBLEU's own test sets come with the entities in, but its tokenizer 13a resolves them on
    both sides, so that BLEU is the same; chrF and TER are only right on resolved ones.
    """
    return normalise(decode_entities(text))
