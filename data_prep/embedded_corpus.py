"""The corpus that Babel and num2words make, as a data-bin: of two languages, or of many.

With two languages it is prepared as any bilingual text, with more as a multilingual corpus: the
first language is paired with each other one, and the others with each other for zero-shot tests.
The lines of all languages are translations of each other, so the pairs have their text in common.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from itertools import combinations
from pathlib import Path

from data_prep import command, multilingual
from data_prep.embedded import generate
from data_prep.multilingual import Pairs
from data_prep.options import Options
from data_prep.pipeline import Text, describe, plan_of, prepare
from data_prep.text import write_lines


def extract(
    languages: list[str], pairs: Pairs | None, sizes: dict[str, int], seed: int, out: Path
) -> dict:
    """Write ``{train,valid,test}.LANG``, or for each pair ``PAIR/{train,valid,test}.LANG``.

    Args:
        pairs: None for a bilingual corpus.
        sizes: lines of train, valid and test.

    Returns:
        the number of lines of each split.
    """
    corpus = generate(languages, **sizes, seed=seed)
    folders = (
        {".": pairs_options(languages)}
        if pairs is None
        else {pair: pairs.options(pair) for pair in pairs.all}
    )
    for folder, options in folders.items():
        (out / folder).mkdir(exist_ok=True)
        for split in options.splits:
            for lang in options.languages:
                side = languages.index(lang)
                write_lines(out / folder / f"{split}.{lang}", (row[side] for row in corpus[split]))
    return {split: len(lines) for split, lines in corpus.items()}


def pairs_options(languages: list[str], bpe_merges: int = 2000) -> Options:
    return Options(*languages, bpe_merges=bpe_merges)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    line = command.parser(
        "embedded",
        "Prepares the corpus that Babel and num2words make; nothing is downloaded. Two languages "
        "make a bilingual corpus, more a multilingual one around the first.",
        "data/embedded",
    )
    line.add_argument(
        "--languages", default="en,de", metavar="LANG,LANG", help="(default: %(default)s)"
    )
    for split, size in (("train", 20000), ("valid", 500), ("test", 1000)):
        line.add_argument(
            f"--{split}", type=int, default=size, metavar="N", help="lines (default: %(default)s)"
        )
    line.add_argument("--seed", type=int, default=1, metavar="N", help="(default: %(default)s)")
    line.add_argument(
        "--bpe-merges",
        type=int,
        default=2000,
        metavar="N",
        help="of a bilingual corpus (default: %(default)s)",
    )
    line.add_argument(
        "--vocabulary-size",
        type=int,
        default=4000,
        metavar="N",
        help="units of a multilingual corpus (default: %(default)s)",
    )
    return line.parse_args(arguments)


def read_pairs(args: argparse.Namespace) -> Pairs | None:
    """The pairs of a multilingual corpus, None of a bilingual one."""
    languages = [name.strip() for name in args.languages.split(",")]
    if len(languages) <= 2:
        return None
    first, *others = languages
    return Pairs(
        tuple("-".join(sorted((first, other))) for other in others),
        zero_shot=tuple("-".join(sorted(pair)) for pair in combinations(others, 2)),
        vocabulary_size=args.vocabulary_size,
    )


def plan(arguments: list[str]) -> dict:
    """What a preparation with these flags is going to make."""
    args = parse(arguments)
    pairs = read_pairs(args)
    if pairs:
        return multilingual.plan_of(pairs)
    return plan_of(pairs_options(args.languages.split(","), args.bpe_merges))


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    args = parse(arguments)
    languages = [name.strip() for name in args.languages.split(",")]
    sizes = {"train": args.train, "valid": args.valid, "test": args.test}
    pairs = read_pairs(args)
    text = Text(
        {package: {"version": version(package)} for package in ("Babel", "num2words")},
        lambda out: extract(languages, pairs, sizes, args.seed, out),
        options={"languages": languages, **sizes, "seed": args.seed},
        benchmark="embedded",
        sources={package: "installed package" for package in ("Babel", "num2words")},
    )
    if pairs:
        print(multilingual.describe(multilingual.prepare(text, pairs, args.out, args.workers)))
    else:
        options = pairs_options(languages, args.bpe_merges)
        print(describe(prepare(text, options, args.out, args.workers)))


if __name__ == "__main__":
    main()
