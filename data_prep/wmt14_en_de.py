"""WMT'14 English-German from the corpora of statmt.org: from their archives to plain text.

The training text is Europarl v7, Common Crawl and News Commentary in this order: v9 is WMT'14's
own and that of fairseq's ``prepare-wmt14en2de.sh --icml17``, v12 that of the script by default.
As in the script, its punctuation is normalised by Moses' rules and the test set's is not, but for
the typographic apostrophe; and XML entities stay in the test set.

The validation set is newstest2013, as in Admin's and Google's preparations (fairseq's script takes
every 100th training pair), the test set all 3,003 sentences of newstest2014;
``newstest2014.raw.LANG`` is the same as it was published, entities resolved: what detokenised
output is compared with.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from data_prep import command
from data_prep.archives import Archive, zip_lines
from data_prep.fetch import Source, obtain, origins
from data_prep.options import Options
from data_prep.parallel import map_lines
from data_prep.pipeline import Text, describe, plan_of, prepare
from data_prep.published import Published, compare
from data_prep.punctuation import clean_punctuation
from data_prep.sgm import as_fairseq, as_reference, pair_segments, read_segments
from data_prep.text import write_pairs
from residual_fairseq.errors import UsageError

LANGUAGES = ("en", "de")
TEST = "newstest2014"
NEWS_COMMENTARY = ("v9", "v12")
_HUGGING_FACE = "https://huggingface.co/datasets/wmt"


def _source(
    name: str, address: str, zipped: str, zipped_sha256: str, checksum: str | None = None
) -> Source:
    """An archive of statmt.org, and the same files in a zip of the Hugging Face hub."""
    return Source(
        f"{name}.tgz",
        (f"https://{address}", f"http://{address}"),
        checksum,
        otherwise=Source(f"{name}.zip", (f"{_HUGGING_FACE}/{zipped}",), f"sha256:{zipped_sha256}"),
    )


_EUROPARL = _source(
    "training-parallel-europarl-v7",
    "www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "wmt13/resolve/main-zip/training-parallel-europarl-v7.zip",
    "5b2d8b32c2396da739b4e731871c597fcc6e75729becd74619d0712eecf7770e",
)
_COMMON_CRAWL = _source(
    "training-parallel-commoncrawl",
    "www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "wmt13/resolve/main-zip/training-parallel-commoncrawl.zip",
    "5ffe980072ea29adfd84568d099bea366d9f72772b988e670794ae851b4e5627",
)
_NEWS = {
    "v9": _source(
        "training-parallel-nc-v9",
        "www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
        "wmt14/resolve/main-zip/training-parallel-nc-v9.zip",
        "ce199f93ec56ff480137ba29f0819f9a22e70d88be6d7458f112303d67d623d5",
    ),
    "v12": _source(
        "training-parallel-nc-v12",
        "data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz",
        "wmt17/resolve/main-zip/translation-task/training-parallel-nc-v12.zip",
        "a3e922fd19485a25870e628fdecb81b7d621f545e16df21a38fae15127413122",
    ),
}
_DEV = _source(
    "dev",
    "data.statmt.org/wmt17/translation-task/dev.tgz",
    "wmt19/resolve/main-zip/translation-task/dev.zip",
    "d796e363740fdc4261aa6f5a3d2f8223e3adaee7d737b7724863325b8956dfd1",
)
_TEST = Source(
    "test-full.tgz",
    ("https://www.statmt.org/wmt14/test-full.tgz", "http://www.statmt.org/wmt14/test-full.tgz"),
    # As sacreBLEU has it for wmt14/full.
    "md5:a8cd784e006feb32ac6f3d9ec7eb389a",
)

_VALID_FILES = (
    ("dev/newstest2013-src.en.sgm", "dev/newstest2013-ref.de.sgm"),
    # The same as plain text; not every dev archive has both.
    ("dev/newstest2013.en", "dev/newstest2013.de"),
)
# Archives of development sets have files of the same name, which may be of fewer sentences.
_TEST_FILES = (
    "test-full/newstest2014-deen-src.en.sgm",
    "test-full/newstest2014-deen-ref.de.sgm",
)

_SETS = "torchtext's WMT14 data set"
PUBLISHED = {
    "v9": {"valid": Published(3_000, _SETS), TEST: Published(3_003, _SETS)},
    "v12": {
        "train": Published(
            4_590_101,
            "computed: fairseq's issue 132 has 4,544,200 left with every 100th taken out",
        ),
        "valid": Published(3_000, _SETS),
        TEST: Published(3_003, _SETS),
    },
}


def sources(news_commentary: str = "v9") -> tuple[Source, ...]:
    """The archives to download.

    Args:
        news_commentary: version of News Commentary.

    Raises:
        UsageError: there is no such version.
    """
    if news_commentary not in _NEWS:
        raise UsageError(
            f"--news-commentary {news_commentary}: has to be {' or '.join(NEWS_COMMENTARY)}"
        )
    return _EUROPARL, _COMMON_CRAWL, _NEWS[news_commentary], _DEV, _TEST


SOURCES = sources()


def train_files(news_commentary: str) -> dict[str, tuple[str, str]]:
    """The files of the training text by corpus, in their order in it."""
    corpora = ("europarl-v7", "commoncrawl", f"news-commentary-{news_commentary}")
    return {corpus: tuple(f"{corpus}.de-en.{lang}" for lang in LANGUAGES) for corpus in corpora}


def open_archive(archives: Sequence[Path], news_commentary: str) -> Archive:
    """Open the archives of ``sources``, or a folder with them or with what is in them."""
    inner = []
    for source in sources(news_commentary):
        inner += [source.name, *([source.otherwise.name] if source.otherwise else [])]
    return Archive(archives, inner)


def inputs(archives: Sequence[Path], news_commentary: str = "v9") -> dict:
    """Facts about the files that ``extract`` reads, by name: their bytes and SHA-256."""
    archive = open_archive(archives, news_commentary)

    def names() -> Iterator[str]:
        for files in train_files(news_commentary).values():
            yield from files
        yield from archive.first_of(_VALID_FILES)
        yield from _TEST_FILES

    return archive.facts(names())


def extract(
    archives: Sequence[Path],
    out: Path,
    news_commentary: str = "v9",
    normalise_punctuation: bool = True,
    workers: int = 1,
) -> dict:
    """Write ``{train,valid,newstest2014,newstest2014.raw}.LANG``, as described at the module.

    Args:
        archives: those of ``sources``, packed or unpacked, or a folder with them.
        out: existing folder for the text.
        news_commentary: version of News Commentary.
        normalise_punctuation: of the training text, as ``clean_punctuation`` does.
        workers: number of processes for that; the result does not depend on it.

    Returns:
        "pairs" by split and by corpus; ``PUBLISHED`` has some of them too.

    Raises:
        UsageError: a file is missing, damaged or not UTF-8, or its two sides differ in length.
    """
    archive = open_archive(archives, news_commentary)
    pairs: dict[str, int] = {}
    corpora = train_files(news_commentary)

    def read_train() -> Iterator[tuple[str, str]]:
        for corpus, files in corpora.items():
            sides = map(archive.text, files)
            if normalise_punctuation:
                sides = [
                    map_lines(partial(clean_punctuation, lang=lang), side, workers)
                    for lang, side in zip(LANGUAGES, sides)
                ]
            pairs[corpus] = 0
            for pair in zip_lines(*sides, archive.places(files)):
                pairs[corpus] += 1
                yield pair

    pairs["train"] = write_pairs(*_files(out, "train"), read_train())
    valid = _read_set(archive, archive.first_of(_VALID_FILES))
    test = _read_set(archive, _TEST_FILES)
    splits = {
        "valid": [tuple(map(as_fairseq, pair)) for pair in valid],
        TEST: [tuple(map(as_fairseq, pair)) for pair in test],
        f"{TEST}.raw": [tuple(map(as_reference, pair)) for pair in test],
    }
    for split, content in splits.items():
        pairs[split] = write_pairs(*_files(out, split), content)
    del pairs[f"{TEST}.raw"]
    return {"pairs": pairs}


def _files(folder: Path, split: str) -> list[Path]:
    return [folder / f"{split}.{lang}" for lang in LANGUAGES]


def _read_set(archive: Archive, files: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of a test set, in SGML or plain text."""
    places = archive.places(files)
    sides = [archive.text(file) for file in files]
    if files[0].endswith(".sgm"):
        segments = [read_segments(side, place) for side, place in zip(sides, places)]
        return pair_segments(*segments, places)
    return list(zip_lines(*sides, places))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    line = command.parser(
        "wmt14_en_de",
        "Prepares WMT'14 En-De from the corpora of statmt.org as Liu et al. 2020 (Admin; "
        "Transformer-Clinic) do: pairs of at most 80 tokens, joint BPE, newstest2013 for "
        "validation, newstest2014 for testing.",
        "data/wmt14_en_de",
        archive="folder with the archives of statmt.org",
    )
    line.add_argument("--source", default="en", choices=LANGUAGES, help="(default: %(default)s)")
    line.add_argument("--target", default="de", choices=LANGUAGES, help="(default: %(default)s)")
    line.add_argument(
        "--news-commentary",
        default="v9",
        choices=("v9", "v12"),
        help="v9 is WMT'14's, v12 WMT'17's (default: %(default)s)",
    )
    line.add_argument(
        "--bpe-merges", type=int, default=32764, metavar="N", help="(default: %(default)s)"
    )
    return line.parse_args(arguments)


def read_options(args: argparse.Namespace) -> Options:
    """What the flags ask for; the limits are those of Transformer-Clinic's wmt14en-de.sh."""
    return Options(
        args.source,
        args.target,
        tests=(TEST,),
        max_tokens=80,
        # What Moses' clean-corpus-n does if it is not told otherwise.
        max_ratio=9.0,
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
    version = args.news_commentary
    archives = obtain(args.archive, sources(version), args.downloads)
    used = inputs(archives, version)
    text = Text(
        used,
        lambda out: extract(archives, out, version, workers=args.workers),
        options={"news_commentary": version},
        benchmark="wmt14_en_de",
        sources=origins(used, args.archive, args.downloads),
    )
    record = prepare(text, options, args.out, args.workers)
    print(describe(record))
    print("\n".join(compare(record["counts"]["extract"]["pairs"], PUBLISHED[version])))


if __name__ == "__main__":
    main()
