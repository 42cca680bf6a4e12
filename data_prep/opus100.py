"""OPUS-100 (Zhang et al. 2020, arXiv 2004.11867): English with 99 other languages.

94 pairs have all splits, five only training text; fifteen pairs without English have a test set for
zero-shot translation. Pairs are in alphabetical order: ``de-en``, but ``en-fr``.
"""

from __future__ import annotations

import argparse
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from data_prep import command
from data_prep.archives import Archive, damage_reported
from data_prep.fetch import NotAvailable, Source, facts, fetch, obtain, origins
from data_prep.multilingual import Pairs, describe, plan_of, prepare
from data_prep.pipeline import Text
from data_prep.published import Published, compare
from data_prep.text import check_parallel
from residual_fairseq.errors import UsageError

BASE = "https://object.pouta.csc.fi/OPUS-100/v1.0/opus-100-corpus-{}-v1.0.tar.gz"
#: The same unpacked, without a checksum of its own.
UNPACKED = "http://data.statmt.org/opus-100-corpus/v1.0/{}/{}/{}"
#: The archive of all pairs.
WHOLE = "opus-100-corpus-v1.0.tar.gz"
SPLITS = {"train": "train", "valid": "dev", "test": "test"}


class Pair(NamedTuple):
    """What is known of a language pair; None where it has no such split."""

    train: int | None
    dev: int | None
    test: int | None
    archive_bytes: int
    sha256: str


def read_pairs() -> dict[str, Pair]:
    """The table beside this module."""
    pairs = {}
    for line in Path(__file__).with_name("opus100_pairs.tsv").read_text().split("\n"):
        if line and not line.startswith(("#", "pair\t")):
            name, *numbers, sha256 = line.split("\t")
            pairs[name] = Pair(*(None if n == "-" else int(n) for n in numbers), sha256)
    return pairs


PAIRS = read_pairs()
ZERO_SHOT = [name for name, pair in PAIRS.items() if pair.train is None]
TRAIN_ONLY = [name for name, pair in PAIRS.items() if pair.train and not pair.test]


def choose(text: str | None, zero_shot: bool) -> dict[str, tuple[str, ...]]:
    """The pairs that a user asks for, by what they are used for.

    Args:
        text: their names, in either order of the languages; or languages, each with English;
            None: all.
        zero_shot: test on pairs without English, if both languages are trained on.

    Raises:
        UsageError: OPUS-100 does not have a pair.
    """
    names = [name for name in PAIRS if name not in ZERO_SHOT]
    if text is not None:
        names = []
        for word in text.split():
            languages = word.split("-") if "-" in word else [word, "en"]
            name = "-".join(sorted(languages))
            if name not in PAIRS or name in ZERO_SHOT:
                raise UsageError(f"--pairs {word}: OPUS-100 has no training text for it")
            names.append(name)
    chosen = {
        "pairs": tuple(dict.fromkeys(name for name in names if name not in TRAIN_ONLY)),
        "train_only": tuple(dict.fromkeys(name for name in names if name in TRAIN_ONLY)),
        "zero_shot": (),
    }
    if zero_shot:
        languages = {lang for name in names for lang in name.split("-")}
        chosen["zero_shot"] = tuple(name for name in ZERO_SHOT if set(name.split("-")) <= languages)
    return chosen


def source_of(name: str) -> Source:
    """The archive that has a pair."""
    archive = "zeroshot" if name in ZERO_SHOT else name
    address = BASE.format(archive)
    pair = PAIRS[name]
    checksum = f"sha256:{pair.sha256}"
    return Source(address.rpartition("/")[2], (address,), checksum, pair.archive_bytes)


def files_of(pairs: Pairs, pair: str) -> dict[str, str]:
    """Where each file of a pair goes: ``opus.de-en-dev.de`` to ``de-en/valid.de``."""
    return {
        f"opus.{pair}-{SPLITS[split]}.{lang}": f"{pair}/{split}.{lang}"
        for split in pairs.options(pair).splits
        for lang in pair.split("-")
    }


def download(pairs: Pairs, folder: Path) -> list[Path]:
    """The archive of each pair, or its unpacked files where that cannot be had.

    Raises:
        UsageError: neither can be, or as ``fetch``.
    """
    archives: dict[str, Path | None] = {}
    unpacked: list[Path] = []
    for pair in pairs.all:
        source = source_of(pair)
        kind = "zero-shot" if pair in ZERO_SHOT else "supervised"
        files = [
            Source(name, (UNPACKED.format(kind, pair, name),)) for name in files_of(pairs, pair)
        ]
        if source.name not in archives:
            # What an earlier call has had to take is not looked for again.
            there = [(folder / file.name).exists() for file in (source, *files)]
            taken = all(there[1:]) and not there[0]
            archives[source.name] = None if taken else fetch_if_available(source, folder)
        if archives[source.name] is None:
            unpacked += [fetch(file, folder) for file in files]
    return [path for path in archives.values() if path] + unpacked


def fetch_if_available(source: Source, folder: Path) -> Path | None:
    try:
        return fetch(source, folder)
    except NotAvailable:
        return None


def given_files(archive: Path, pairs: Pairs) -> list[Path]:
    """The files to read of what ``--archive`` was given.

    Args:
        archive: a file, or a folder in which there are, for each pair, its unpacked files, its
            archive or the archive of all; the first of these that there are is read.

    Raises:
        UsageError: the folder has nothing of the kind.
    """
    if not archive.is_dir():
        return [archive]
    folder = Archive([archive])
    found: list[Path] = []
    for pair in pairs.all:
        for names in (files_of(pairs, pair), [source_of(pair).name], [WHOLE]):
            if all(map(folder.holds, names)):
                found += [folder.find(name).file for name in names]
                break
    if not found:
        raise UsageError(
            f"--archive {archive}: has neither {source_of(pairs.all[0]).name} nor {WHOLE}, nor "
            "what is in them"
        )
    return list(dict.fromkeys(found))


def extract(files: Iterable[Path], pairs: Pairs, out: Path) -> dict:
    """Write ``PAIR/{train,valid,test}.LANG``.

    Args:
        files: archives of single pairs, of the whole corpus, and what is in them. Each is read
            once: the whole corpus is large.

    Returns:
        the number of lines by pair and split.

    Raises:
        UsageError: a file is missing, damaged, or not as long as its translation.
    """
    missing: dict[str, str] = {}
    for pair in pairs.all:
        (out / pair).mkdir(exist_ok=True)
        missing |= files_of(pairs, pair)
    for file in files:
        for name, blocks in contents(file, missing):
            with open(out / missing.pop(name), "wb") as written:
                written.writelines(blocks)
    if missing:
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise UsageError(f"--archive: has no file {next(iter(missing))}{others}")
    counts: dict = {}
    for pair in pairs.all:
        counts[pair] = {}
        for split in pairs.options(pair).splits:
            sides = (out / pair / f"{split}.{lang}" for lang in pair.split("-"))
            counts[pair][split] = check_parallel(*sides)[0].lines
    return counts


def contents(file: Path, wanted: Iterable[str]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the name and the content of files, as far as they are wanted.

    Args:
        file: a tar file, or itself wanted.
        wanted: names, looked at whenever a file is found.

    Raises:
        UsageError: it is neither, or damaged.
    """
    if file.name in wanted:
        yield file.name, read_blocks(file, open(file, "rb"))
        return
    with damage_reported(file, "the text"), tarfile.open(file, "r|*") as tar:
        for member in tar:
            name = member.name.rpartition("/")[2]
            if member.isfile() and name in wanted:
                yield name, read_blocks(file, tar.extractfile(member))


def read_blocks(place: Path, file: BinaryIO) -> Iterator[bytes]:
    """Yield what is in an open file, and close it."""
    with damage_reported(place, "the text"), file:
        while block := file.read(1 << 20):
            yield block


def parse(arguments: list[str] | None) -> argparse.Namespace:
    line = command.parser(
        "opus100",
        "Prepares OPUS-100: one SentencePiece model, one dictionary, one data-bin.",
        "data/opus100",
        archive="the whole corpus, or a folder of archives of pairs or of what is in them",
    )
    line.add_argument(
        "--pairs",
        metavar='"PAIR ..."',
        help='pairs like de-en, or languages: "de fr zh" (default: all 99; the five without test '
        "sets are trained on only)",
    )
    line.add_argument(
        "--no-zero-shot", action="store_true", help="leave out the pairs without English"
    )
    line.add_argument(
        "--vocabulary-size", type=int, default=64000, metavar="N", help="(default: %(default)s)"
    )
    line.add_argument(
        "--temperature",
        type=float,
        default=5.0,
        metavar="T",
        help="of the sample that units are learned on (default: %(default)s)",
    )
    line.add_argument(
        "--sample-lines",
        type=int,
        default=5_000_000,
        metavar="N",
        help="its size (default: %(default)s)",
    )
    return line.parse_args(arguments)


def read_options(args: argparse.Namespace) -> Pairs:
    return Pairs(
        **choose(args.pairs, not args.no_zero_shot),
        vocabulary_size=args.vocabulary_size,
        temperature=args.temperature,
        sample_lines=args.sample_lines,
    )


def plan(arguments: list[str]) -> dict:
    """What a preparation with these flags is going to make."""
    return plan_of(read_options(parse(arguments)))


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    args = parse(arguments)
    pairs = read_options(args)
    if args.archive and not args.archive.exists():
        raise UsageError(f"--archive {args.archive}: no such file or folder")
    folder = args.downloads / "opus100"
    if args.archive:
        sources = {source_of(pair).name: source_of(pair) for pair in pairs.all}
        obtain(args.archive, list(sources.values()), folder)
        files = given_files(args.archive, pairs)
    else:
        files = download(pairs, folder)
    used = {file.name: facts(file) for file in files}
    text = Text(
        used,
        lambda out: extract(files, pairs, out),
        benchmark="opus100",
        sources=origins(used, args.archive, folder),
    )
    record = prepare(text, pairs, args.out, args.workers)
    print(describe(record))
    counted = {
        f"{pair} {SPLITS[split]}": lines
        for pair, splits in record["counts"]["extract"].items()
        for split, lines in splits.items()
    }
    published = {
        f"{name} {split}": Published(getattr(pair, split), "opus100 in huggingface/datasets")
        for name, pair in PAIRS.items()
        for split in SPLITS.values()
        if getattr(pair, split) is not None
    }
    print("\n".join(compare(counted, published)))


if __name__ == "__main__":
    main()
