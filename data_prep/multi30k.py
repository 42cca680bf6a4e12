"""Multi30k task 1: captions of photographs and their translations, without the photographs.

The text is that of the repository multi30k/dataset, ``data/task1/raw``. It becomes what Wu et al.
2021 (arXiv 2105.14462, repository Revisit-MMT) trained on: punctuation normalised, lower-cased,
Moses tokens, 10,000 joint BPE merges, one dictionary.
"""

from __future__ import annotations

import argparse
import gzip
import zlib
from pathlib import Path

from data_prep import command
from data_prep.archives import Archive
from data_prep.fetch import Source, obtain, origins
from data_prep.options import Options
from data_prep.pipeline import Text, describe, plan_of, prepare
from data_prep.published import Published, compare
from data_prep.punctuation import normalise_punctuation
from data_prep.text import write_lines
from residual_fairseq.errors import UsageError

ADDRESSES = (
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
    "https://github.com/multi30k/dataset/raw/master/data/task1/raw",
)

#: By our names, the files of the splits.
FILES = {
    "train": "train",
    "valid": "val",
    "test2016": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "testcoco": "test_2017_mscoco",
}

#: SHA-256 of files as the repository served them in 2026.
CHECKSUMS = {
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}

_REPOSITORY = "multi30k/dataset"
#: Counts of the repository, and a count of the tokens that Wu et al. 2021 publish: with dashes
#: unsplit Moses gives nearly theirs, with Moses' aggressive splits 12,242.
PUBLISHED = {
    "pairs of train": Published(29000, _REPOSITORY),
    "pairs of valid": Published(1014, _REPOSITORY),
    "pairs of test2016": Published(1000, _REPOSITORY),
    "pairs of test2017": Published(1000, _REPOSITORY),
    "pairs of testcoco": Published(461, _REPOSITORY),
    "tokens of test2016.de": Published(12103, "Revisit-MMT"),
}


def source_of(file: str) -> Source:
    """A file of the repository."""
    checksum = f"sha256:{CHECKSUMS[file]}" if file in CHECKSUMS else None
    return Source(file, tuple(f"{base}/{file}" for base in ADDRESSES), checksum)


def extract(archive: Archive, options: Options, out: Path) -> dict:
    """Write ``{train,valid,TEST}.LANG``, with Moses' punctuation, and ``TEST.raw.LANG`` as it is.

    Args:
        archive: has them, compressed as they are in the repository, or not.

    Returns:
        the number of lines of each split.

    Raises:
        UsageError: a file is missing or damaged.
    """
    counts = {}
    for split in options.given:
        for lang in options.languages:
            name = f"{FILES[split]}.{lang}"
            if archive.holds(name):
                lines = list(archive.text(name))
            else:
                lines = decompress(archive, f"{name}.gz")
            if split in options.tests:
                write_lines(out / f"{split}.raw.{lang}", lines)
            lines = [normalise_punctuation(line, lang) for line in lines]
            counts[split] = {"lines": write_lines(out / f"{split}.{lang}", lines)}
    return counts


def decompress(archive: Archive, name: str) -> list[str]:
    """The lines of a text compressed by gzip.

    Raises:
        UsageError: the file is missing, damaged or empty, or not UTF-8.
    """
    try:
        content = gzip.decompress(archive.content(name))
        text = content.decode("utf-8")
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{archive}: {name} is damaged ({error})") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{archive}: {name}, line {line}: not valid UTF-8") from None
    if not text:
        raise UsageError(f"{archive}: {name} is empty")
    return text.removesuffix("\n").split("\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    line = command.parser(
        "multi30k",
        "Prepares Multi30k, text only, for research that is not commercial (terms of Flickr).",
        "data/multi30k",
        archive="the files {train,val,test_...}.LANG.gz",
    )
    line.add_argument("--source", default="en", metavar="LANG", help="(default: %(default)s)")
    line.add_argument(
        "--target", default="de", metavar="LANG", help="one of the two is en (default: %(default)s)"
    )
    line.add_argument(
        "--tests",
        metavar='"NAME ..."',
        help=f"of {' '.join(list(FILES)[2:])} (default: all, with Czech test2016)",
    )
    line.add_argument("--cased", action="store_true", help="do not lower-case the text")
    line.add_argument(
        "--bpe-merges", type=int, default=10000, metavar="N", help="(default: %(default)s)"
    )
    return line.parse_args(arguments)


def read_options(args: argparse.Namespace) -> Options:
    """What the flags ask for.

    Raises:
        UsageError: Multi30k does not have it.
    """
    languages = args.source, args.target
    if "en" not in languages or not set(languages) <= {"en", "de", "fr", "cs"}:
        raise UsageError(
            f"--source {args.source} --target {args.target}: Multi30k has en with de, fr or cs"
        )
    tests = list(FILES)[2:3] if "cs" in languages else list(FILES)[2:]
    if args.tests is not None:
        unknown = [test for test in args.tests.split() if test not in tests]
        if unknown or not args.tests.split():
            raise UsageError(
                f"--tests {args.tests!r}: Multi30k has {' '.join(tests)} for {'-'.join(languages)}"
            )
        tests = args.tests.split()
    return Options(
        *languages,
        tests=tuple(tests),
        dash_splits=False,
        lowercase=not args.cased,
        bpe_merges=args.bpe_merges,
        vocabulary_threshold=0,
    )


def plan(arguments: list[str]) -> dict:
    """What a preparation with these flags is going to make."""
    return plan_of(read_options(parse(arguments)))


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    args = parse(arguments)
    options = read_options(args)
    names = [f"{FILES[split]}.{lang}" for split in options.given for lang in options.languages]
    folder = args.downloads / "multi30k"
    obtain(args.archive, [source_of(f"{name}.gz") for name in names], folder)
    archive = Archive([args.archive or folder])
    names = [name if args.archive and archive.holds(name) else f"{name}.gz" for name in names]
    used = archive.facts(names)
    text = Text(
        used,
        lambda out: extract(archive, options, out),
        benchmark="multi30k",
        sources=origins(used, args.archive, folder),
    )
    record = prepare(text, options, args.out, args.workers)
    print(describe(record))
    counts = {f"pairs of {name}": n["pairs"] for name, n in record["counts"]["clean"].items()}
    for name, sides in record["counts"]["tokenize"].items():
        counts |= {f"tokens of {name}.{lang}": n["tokens"] for lang, n in sides.items()}
    print("\n".join(compare(counts, PUBLISHED)))


if __name__ == "__main__":
    main()
