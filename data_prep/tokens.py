"""Moses tokens, as fairseq's own ``moses`` tokenizer splits and joins them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from sacremoses import MosesDetokenizer, MosesTokenizer

from data_prep.parallel import map_lines

TOKENIZERS = ("moses", "none")


def tokenize(
    lines: Iterable[str],
    lang: str,
    tokenizer: str = "moses",
    workers: int = 1,
    dash_splits: bool = True,
) -> Iterator[str]:
    """Split lines into tokens, separated by single spaces.

    With the defaults Moses tokens are exactly those of fairseq's ``moses`` tokenizer: aggressive
    dash splits ("a-b" becomes "a @-@ b") and escaped XML characters.

    Args:
        lines: normalised text.
        lang: language code; one that Moses has no rules for is split by the general ones.
        tokenizer: "moses", or "none" to take what stands between spaces for tokens.
        workers: number of processes.
        dash_splits: the aggressive ones.
    """
    if tokenizer == "none":
        return iter(lines)
    split = partial(
        MosesTokenizer(lang).tokenize,
        aggressive_dash_splits=dash_splits,
        return_str=True,
        escape=True,
    )
    return map_lines(split, lines, workers)


def _detokenize_line(detokenizer: MosesDetokenizer, line: str) -> str:
    return detokenizer.detokenize(line.split())


def detokenize(
    lines: Iterable[str], lang: str, tokenizer: str = "moses", workers: int = 1
) -> Iterator[str]:
    """Join tokens to text; with "moses" exactly as fairseq's ``moses`` tokenizer does.

    Moses tokens do not say where the text had spaces, so this undoes ``tokenize`` only where the
    rules of Moses say so: "1/2" comes back as "1 / 2", "3 € und" as "3 €und".

    Args:
        lines: tokens separated by spaces, without BPE.
        lang: language code.
        tokenizer: that of ``tokenize``.
        workers: number of processes.
    """
    if tokenizer == "none":
        return iter(lines)
    return map_lines(partial(_detokenize_line, MosesDetokenizer(lang)), lines, workers)
