"""IWSLT'14 German-English: from WIT3's archive to plain text, as fairseq's prepare-iwslt14.sh.

The training text is ``train.tags.de-en.LANG`` without the lines that have ``<url>``, ``<talkid>``
or ``<keywords>``, and without the tags, but with the text, of ``<title>`` and ``<description>``.
The test set is five sets in a row. What the script does to them is kept, odd or not, because
published tokenised BLEU is of that text:

- lines with ``<speaker>``, ``<reviewer>`` or ``<translator>`` are trained on like any other, if
  the archive has them on both sides (``keep_credits``);
- XML entities stay in the test sets, although the training text has none: of "R&amp;D" Moses makes
  four tokens (``keep_entities``);
- the typographic apostrophe becomes "'" in the test sets, but not in the training text.

Beside it there is the test set as people wrote it, ``test.raw.LANG``: entities resolved and
apostrophes as they are. That is what detokenised output is to be compared with.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep import command
from data_prep.archives import Archive, zip_lines
from data_prep.fetch import Source, obtain, origins
from data_prep.options import Options
from data_prep.pipeline import Text, describe, plan_of, prepare
from data_prep.published import Published, compare, units_with_ends
from data_prep.sgm import as_fairseq, as_reference, has_entity, pair_segments, read_segments
from data_prep.sgm import decode_entities as resolve_entities
from data_prep.text import write_pairs

LANGUAGES = ("de", "en")
#: The parts of the test set, in their order in it.
TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
DROPPED_TAGS = ("<url>", "<talkid>", "<keywords>")
_STRIPPED_TAG = re.compile("</?(title|description)>")
_CREDIT = re.compile("<(speaker|reviewer|translator)[ >]")

_MD5, _BYTES = "md5:10936dfdf616504ddbd844e91b94ef4a", 19_982_877
SOURCES = (
    Source(
        "de-en.tgz",
        (
            "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
            "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
        ),
        _MD5,
        _BYTES,
        # WIT3's successor to that: all languages, de-en.tgz is in it.
        otherwise=Source(
            "2014-01.tgz",
            (
                # Without "confirm" Google Drive answers with a page about viruses.
                "https://drive.google.com/uc?export=download&confirm=t"
                "&id=1GnBarJIbNgEIIDvUyKDtLmv35Qcxg6Ed",
            ),
            # WIT3's own; gone since December 2020.
            otherwise=Source(
                "de-en.tgz",
                ("https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz",),
                _MD5,
                _BYTES,
            ),
        ),
    ),
)

_LOGS = "public logs of fairseq's prepare-iwslt14.sh"
_GENERATE = "public logs of fairseq-generate"
_IWSLT16 = "IWSLT'16's files of the same sets"
PUBLISHED = {
    "train": Published(174_443, _LOGS),
    "dev2010": Published(887, _IWSLT16),
    "dev2012": Published(1_165, _IWSLT16),
    "tst2010": Published(1_565, _IWSLT16),
    "tst2011": Published(1_433, _IWSLT16),
    "tst2012": Published(1_700, _IWSLT16),
    "test": Published(6_750, _LOGS),
    "train cleaned": Published(167_522, _LOGS),
    "train without valid": Published(160_239, _LOGS),
    "valid": Published(7_283, _LOGS),
    "units of train.de, with ends of sentences": Published(4_035_591, _LOGS),
    "units of train.en, with ends of sentences": Published(3_949_114, _LOGS),
    "units of valid.de, with ends of sentences": Published(182_592, _LOGS),
    "units of valid.en, with ends of sentences": Published(178_622, _LOGS),
    "units of test.de, with ends of sentences": Published(161_838, _LOGS),
    "units of test.en, with ends of sentences": Published(156_928, _LOGS),
    "tokens of test.en for fairseq-generate": Published(131_156, _GENERATE),
    "tokens of test.en for fairseq-generate, separate dictionaries": Published(131_161, _GENERATE),
    "separate dictionary of de": Published(8_848, _LOGS),
    "separate dictionary of en": Published(6_632, _LOGS),
}


def train_file(lang: str) -> str:
    return f"train.tags.de-en.{lang}"


def test_file(test_set: str, lang: str) -> str:
    return f"IWSLT14.{test_set}.de-en.{lang}.xml"


def open_archive(archives: Sequence[Path]) -> Archive:
    """Open de-en.tgz, WIT3's 2014-01.tgz which holds it, or a folder with what is in them."""
    return Archive(archives, inner=["de-en.tgz"])


def inputs(archives: Sequence[Path]) -> dict:
    """Facts about the files that ``extract`` reads, by name: their bytes and SHA-256."""
    names = [train_file(lang) for lang in LANGUAGES]
    names += [test_file(test_set, lang) for test_set in TEST_SETS for lang in LANGUAGES]
    return open_archive(archives).facts(names)


def extract(
    archives: Sequence[Path], out: Path, keep_credits: bool = True, keep_entities: bool = True
) -> dict:
    """Write ``train.LANG``, ``test.LANG`` and ``test.raw.LANG``, as described at the module.

    Args:
        archives: the archive, packed or unpacked.
        out: existing folder for the text.
        keep_credits: train on the lines with names of speakers, reviewers and translators.
        keep_entities: leave XML entities in ``test.LANG``.

    Returns:
        "pairs" by split and test set, which ``PUBLISHED`` has too; by language, "dropped" lines of
        the training text by tag and "credits" that were kept by tag; "shifted" titles and
        descriptions of the training text; by language, "entities" and "apostrophes": the number of
        lines of the test set in which there are such.

    Raises:
        UsageError: a file is missing, damaged or not UTF-8, or its two sides differ in length.
    """
    archive = open_archive(archives)
    pairs = {}
    dropped: dict[str, Counter[str]] = {lang: Counter() for lang in LANGUAGES}
    credits: dict[str, Counter[str]] = {lang: Counter() for lang in LANGUAGES}
    shifted: Counter[str] = Counter()
    sides = [
        _read_train(archive, lang, keep_credits, dropped[lang], credits[lang]) for lang in LANGUAGES
    ]
    names = archive.places([train_file(lang) for lang in LANGUAGES])
    pairs["train"] = write_pairs(
        *(out / f"train.{lang}" for lang in LANGUAGES),
        _strip_tags(zip_lines(*sides, names), shifted),
    )
    if shifted:
        print(
            f"WARNING: {names[0]}: {sum(shifted.values())} titles and descriptions are not at the "
            "same line of the other language; are the lines between them still translations?",
            file=sys.stderr,
        )

    test: list[tuple[str, str]] = []
    for test_set in TEST_SETS:
        files = [test_file(test_set, lang) for lang in LANGUAGES]
        names = archive.places(files)
        segments = [read_segments(archive.text(file), name) for file, name in zip(files, names)]
        found = pair_segments(*segments, names)
        pairs[test_set.split(".")[1]] = len(found)
        test += found
    pairs["test"] = len(test)
    plain = [tuple(map(as_fairseq, pair)) for pair in test]
    if not keep_entities:
        plain = [tuple(map(resolve_entities, pair)) for pair in plain]
    raw = [tuple(map(as_reference, pair)) for pair in test]
    write_pairs(*(out / f"test.{lang}" for lang in LANGUAGES), plain)
    write_pairs(*(out / f"test.raw.{lang}" for lang in LANGUAGES), raw)
    return {
        "pairs": pairs,
        "dropped": {lang: dict(sorted(dropped[lang].items())) for lang in LANGUAGES},
        "credits": {lang: dict(sorted(credits[lang].items())) for lang in LANGUAGES},
        "shifted": dict(sorted(shifted.items())),
        "entities": {
            lang: sum(has_entity(pair[side]) for pair in test)
            for side, lang in enumerate(LANGUAGES)
        },
        "apostrophes": {
            lang: sum("\u2019" in pair[side] for pair in test)
            for side, lang in enumerate(LANGUAGES)
        },
    }


def _read_train(
    archive: Archive,
    lang: str,
    keep_credits: bool,
    dropped: Counter[str],
    credits: Counter[str],
) -> Iterator[str]:
    """Yield the lines of one side that are trained on, with their tags."""
    for line in archive.text(train_file(lang)):
        tag = next((tag for tag in DROPPED_TAGS if tag in line), None)
        credit = _CREDIT.search(line)
        if tag:
            dropped[tag] += 1
        elif credit and not keep_credits:
            dropped[f"<{credit[1]}>"] += 1
        else:
            if credit:
                credits[f"<{credit[1]}>"] += 1
            yield line


def _strip_tags(
    pairs: Iterator[tuple[str, str]], shifted: Counter[str]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs without tags.

    Args:
        shifted: incremented at a tag for every pair in which only one side has it.
    """
    for pair in pairs:
        source, target = (set(_STRIPPED_TAG.findall(line)) for line in pair)
        shifted.update(f"<{tag}>" for tag in source ^ target)
        yield tuple(_STRIPPED_TAG.sub("", line) for line in pair)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    line = command.parser(
        "iwslt14",
        "Prepares IWSLT'14 German-English as fairseq's prepare-iwslt14.sh does: Moses tokens, "
        "pairs of at most 175 tokens and a ratio of at most 1.5, lower case, every 23rd pair for "
        "validation, joint BPE.",
        "data/iwslt14",
        archive="de-en.tgz, WIT3's 2014-01.tgz, or a folder with what is in it",
    )
    line.add_argument("--source", default="de", choices=LANGUAGES, help="(default: %(default)s)")
    line.add_argument("--target", default="en", choices=LANGUAGES, help="(default: %(default)s)")
    line.add_argument("--cased", action="store_true", help="do not lower-case the text")
    line.add_argument(
        "--separate-dictionaries",
        action="store_true",
        help="a dictionary for each language, as in fairseq's example",
    )
    line.add_argument(
        "--bpe-merges", type=int, default=10000, metavar="N", help="(default: %(default)s)"
    )
    line.add_argument(
        "--no-credits",
        action="store_true",
        help="do not train on lines with names of speakers, reviewers and translators",
    )
    line.add_argument(
        "--no-entities", action="store_true", help="resolve XML entities in the test set"
    )
    return line.parse_args(arguments)


def read_options(args: argparse.Namespace) -> Options:
    """What the flags ask for; the limits are those of prepare-iwslt14.sh."""
    return Options(
        args.source,
        args.target,
        dash_splits=False,
        lowercase=not args.cased,
        max_tokens=175,
        max_ratio=1.5,
        valid_every=23,
        bpe_merges=args.bpe_merges,
        vocabulary_threshold=0,
        joined_dictionary=not args.separate_dictionaries,
    )


def plan(arguments: list[str]) -> dict:
    """What a preparation with these flags is going to make."""
    return plan_of(read_options(parse(arguments)))


def counted(record: Mapping[str, Any]) -> dict[str, int]:
    """The counts of ``corpus.json`` that ``PUBLISHED`` has too."""
    counts = record["counts"]
    found = {
        **counts["extract"]["pairs"],
        "train cleaned": counts["drop"]["train"]["pairs"],
        "train without valid": counts["split"]["train"]["pairs"],
        "valid": counts["split"]["valid"]["pairs"],
        **units_with_ends(record),
    }
    tokens = "tokens of test.en for fairseq-generate"
    if not record["options"]["joined_dictionary"]:
        tokens += ", separate dictionaries"
        for lang, size in counts["binarise"]["dictionaries"].items():
            found[f"separate dictionary of {lang}"] = size
    found[tokens] = counts["binarise"]["test"]["en"]["tokens"]
    return found


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    args = parse(arguments)
    options = read_options(args)
    archives = obtain(args.archive, SOURCES, args.downloads)
    extraction = {"keep_credits": not args.no_credits, "keep_entities": not args.no_entities}
    used = inputs(archives)
    text = Text(
        used,
        lambda out: extract(archives, out, **extraction),
        options=extraction,
        benchmark="iwslt14",
        sources=origins(used, args.archive, args.downloads),
    )
    record = prepare(text, options, args.out, args.workers)
    print(describe(record))
    print("\n".join(compare(counted(record), PUBLISHED)))


if __name__ == "__main__":
    main()
