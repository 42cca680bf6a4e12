"""From a folder of plain parallel text to a data-bin for fairseq.

    python -m data_prep.bilingual --text FOLDER --source en --target de --out FOLDER

The steps are normalisation (``data_prep.text``), Moses tokenisation, joint BPE with a vocabulary
filter for each language, and ``fairseq-preprocess`` with a joined dictionary. What comes out is
described at ``data_prep.pipeline``.

Tokens are those of fairseq's own ``moses`` tokenizer and codes are subword-nmt's, so a model
trained on the data-bin translates raw text with ``from_pretrained(..., tokenizer="moses",
bpe="subword_nmt", bpe_codes=OUT/codes, source_lang=..., target_lang=...)``. Without the two
languages fairseq takes English for both; after ``--tokenizer none`` leave the tokenizer out.
fairseq's ``subword_nmt`` does not know the vocabulary filter: with a threshold of 1 it differs in
words with units never seen in that language, with more it meets units that the dictionary lacks.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from data_prep.options import Options
from data_prep.pipeline import describe, prepare, read_folder
from data_prep.tokens import TOKENIZERS


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.bilingual",
        description="Make a fairseq data-bin of a folder of plain parallel text.",
    )
    parser.add_argument(
        "--text",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of {train,valid,test}.LANG: UTF-8, one sentence a line",
    )
    parser.add_argument("--source", required=True, metavar="LANG", help="source language, e.g. en")
    parser.add_argument("--target", required=True, metavar="LANG", help="target language, e.g. de")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder to make: data-bin, BPE codes, test text and corpus.json",
    )
    parser.add_argument(
        "--bpe-merges",
        type=int,
        default=8000,
        metavar="N",
        help="BPE merge operations, both languages together (default: %(default)s)",
    )
    parser.add_argument(
        "--vocabulary-threshold",
        type=int,
        default=1,
        metavar="N",
        help="split BPE units again that the training text of their language has less than N "
        "times; with more than 1, fairseq's bpe 'subword_nmt' no longer gives the same units "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--tokenizer",
        choices=TOKENIZERS,
        default="moses",
        help="'none' if the text is tokenised, or has to come back exactly (default: %(default)s)",
    )
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="processes (default: %(default)s)"
    )
    args = parser.parse_args(arguments)
    options = Options(
        args.source,
        args.target,
        bpe_merges=args.bpe_merges,
        vocabulary_threshold=args.vocabulary_threshold,
        tokenizer=args.tokenizer,
    )
    print(describe(prepare(read_folder(args.text, options), options, args.out, args.workers)))


if __name__ == "__main__":
    main()
