"""WMT'16 English-German in BPE units, as Google has published it: from its archive to text.

This is the training text of "Attention is all you need", B2T and ResiDual, tokenised and split
into 32,000 joint BPE units by Google; nothing is left to do but to binarise it. Beside the units
of the test sets, the archive has their text as it was, ``newstestYEAR.raw.LANG`` here, with XML
entities resolved: the references that detokenised output is compared with.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep import command
from data_prep.archives import Archive, zip_lines
from data_prep.fetch import Source, obtain, origins
from data_prep.options import Options
from data_prep.pipeline import Text, describe, plan_of, prepare
from data_prep.published import Published, compare, units_with_ends
from data_prep.sgm import as_reference
from data_prep.text import write_lines, write_pairs
from residual_fairseq.errors import UsageError

LANGUAGES = ("en", "de")
VALID = "newstest2013"
#: B2T and ResiDual report all of them, although the choice of a checkpoint has seen 2013.
TESTS = tuple(f"newstest{year}" for year in range(2010, 2017))
#: Files that the units were made with, by the names that they get; not every copy has them.
EXTRAS = {"codes": "bpe.32000", "vocab": "vocab.bpe.32000"}

SOURCES = (
    Source(
        "wmt16_en_de.tar.gz",
        # Dead for most since December 2021, and there is no other.
        ("https://drive.google.com/uc?export=download&confirm=t&id=0B_bZck-ksdkpM25jRUN2X2UxMm8",),
        "md5:874ab6bbfe9c21ec987ed1b9347f95ec",
    ),
)

_TORCHTEXT = "torchtext's WMT14 data set"
_LOGS = "a published log of fairseq-preprocess"
PUBLISHED = {
    "train": Published(4_500_966, _TORCHTEXT),
    "newstest2010": Published(2_489, _TORCHTEXT),
    "newstest2011": Published(3_003, _TORCHTEXT),
    "newstest2012": Published(3_003, _TORCHTEXT),
    "newstest2013": Published(3_000, _TORCHTEXT),
    "newstest2014": Published(3_003, _TORCHTEXT),
    "newstest2015": Published(2_169, _TORCHTEXT),
    "newstest2016": Published(2_999, _TORCHTEXT),
    "symbols of the dictionary": Published(32_768, _LOGS),
    "units of train.en, with ends of sentences": Published(132_886_171, _LOGS),
    "units of train.de, with ends of sentences": Published(137_628_246, _LOGS),
    "units of valid.en, with ends of sentences": Published(78_126, _LOGS),
    "units of valid.de, with ends of sentences": Published(83_913, _LOGS),
    "units of newstest2014.en, with ends of sentences": Published(82_800, _LOGS),
    "units of newstest2014.de, with ends of sentences": Published(87_313, _LOGS),
}


def units_file(split: str, lang: str) -> str:
    part = "tok.clean.bpe" if split == "train" else "tok.bpe"
    return f"{split}.{part}.32000.{lang}"


def open_archive(archives: Sequence[Path]) -> Archive:
    """Open wmt16_en_de.tar.gz, or a folder with it or with what is in it."""
    # Test sets have names that later stages of a preparation use too.
    return Archive(archives, inner=[SOURCES[0].name]).beside(units_file("train", "en"))


def inputs(archives: Sequence[Path]) -> dict:
    """Facts about the files that ``extract`` reads, by name: their bytes and SHA-256."""
    archive = open_archive(archives)

    def names() -> Iterator[str]:
        for lang in LANGUAGES:
            for split in ("train", *TESTS):
                yield units_file(split, lang)
            for test in TESTS:
                yield f"{test}.{lang}"
        yield from filter(archive.holds, EXTRAS.values())

    return archive.facts(names())


def extract(archives: Sequence[Path], out: Path) -> dict:
    """Write ``train.LANG``, ``valid.LANG`` and ``newstestYEAR.LANG`` in units, and the raw texts.

    The BPE codes and their vocabulary come along as ``codes`` and ``vocab``, if the archive has
    them.

    Args:
        archives: wmt16_en_de.tar.gz, packed or unpacked.
        out: existing folder for the text.

    Returns:
        "pairs" by split; ``PUBLISHED`` has them too.

    Raises:
        UsageError: a file is missing, damaged or not UTF-8, or files that belong together differ
            in length.
    """
    archive = open_archive(archives)
    pairs = {}
    for split in ("train", *TESTS):
        names = [units_file(split, lang) for lang in LANGUAGES]
        pairs[split] = write_pairs(
            *(out / f"{split}.{lang}" for lang in LANGUAGES), _read_pairs(archive, names)
        )
    for test in TESTS:
        names = [f"{test}.{lang}" for lang in LANGUAGES]
        raw = (tuple(map(as_reference, pair)) for pair in _read_pairs(archive, names))
        count = write_pairs(*(out / f"{test}.raw.{lang}" for lang in LANGUAGES), raw)
        if count != pairs[test]:
            raise UsageError(
                f"{archive.find(names[0])} has {count} lines and "
                f"{archive.find(units_file(test, LANGUAGES[0]))} has {pairs[test]}: they have to "
                "be the same sentences"
            )
    pairs["valid"] = write_pairs(
        *(out / f"valid.{lang}" for lang in LANGUAGES),
        _read_pairs(archive, [units_file(VALID, lang) for lang in LANGUAGES]),
    )
    for name, file in EXTRAS.items():
        if archive.holds(file):
            write_lines(out / name, archive.text(file))
    return {"pairs": pairs}


def _read_pairs(archive: Archive, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip_lines(*map(archive.text, names), archive.places(names))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    line = command.parser(
        "wmt_en_de",
        "Prepares WMT'16 En-De as Google preprocessed it: 4.5 million pairs in 32,000 joint BPE "
        "units. Its address is dead for many; wmt14_en_de.sh starts from the corpora themselves.",
        "data/wmt_en_de",
        archive="wmt16_en_de.tar.gz, or a folder with what is in it",
    )
    line.add_argument("--source", default="en", choices=LANGUAGES, help="(default: %(default)s)")
    line.add_argument("--target", default="de", choices=LANGUAGES, help="(default: %(default)s)")
    return line.parse_args(arguments)


def read_options(args: argparse.Namespace) -> Options:
    """What the flags ask for; fairseq's scaling_nmt example cuts the dictionary at 32,768."""
    return Options(
        args.source,
        args.target,
        tests=TESTS,
        bpe_merges=None,
        vocabulary_threshold=0,
        dictionary_size=32768,
    )


def plan(arguments: list[str]) -> dict:
    """What a preparation with these flags is going to make."""
    return plan_of(read_options(parse(arguments)))


def counted(record: Mapping[str, Any]) -> dict[str, int]:
    """The counts of ``corpus.json`` that ``PUBLISHED`` has too."""
    counts = record["counts"]
    return {
        **counts["extract"]["pairs"],
        "symbols of the dictionary": counts["binarise"]["dictionary"],
        **units_with_ends(record),
    }


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    args = parse(arguments)
    options = read_options(args)
    archives = obtain(args.archive, SOURCES, args.downloads)
    used = inputs(archives)
    text = Text(
        used,
        lambda out: extract(archives, out),
        benchmark="wmt_en_de",
        sources=origins(used, args.archive, args.downloads),
    )
    record = prepare(text, options, args.out, args.workers)
    print(describe(record))
    print("\n".join(compare(counted(record), PUBLISHED)))


if __name__ == "__main__":
    main()
