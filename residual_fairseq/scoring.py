"""From the output of fairseq-generate to a sacreBLEU score against the raw reference."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Iterable, NamedTuple

from sacrebleu.metrics import BLEU
from sacremoses import MosesDetokenizer

from .errors import UsageError

_HYPOTHESIS = re.compile(r"H-(\d+)\t[^\t]*\t(.*)")


class Score(NamedTuple):
    """A BLEU score, 0 to 100, and the signature that says how it was computed."""

    bleu: float
    signature: str


def read_hypotheses(path: str | os.PathLike, sentences: int) -> list[str]:
    """The translations in the output of ``fairseq-generate``, in the order of the test set.

    fairseq writes sentences in the order of their length. Of several hypotheses for a sentence
    (``--nbest``) the first is taken, which is the best. A sentence without any, left out by
    ``--skip-invalid-size-inputs-valid-test`` for instance, counts as translated by nothing, and
    stderr says so.

    Args:
        path: of the output.
        sentences: size of the test set.

    Returns:
        The lines of type H as they are: units, before BPE is removed.

    Raises:
        UsageError: there is no such file, or no translation in it, or one of a sentence that the
            test set does not have.
    """
    found: dict[int, str] = {}
    for line in read_lines(path):
        match = _HYPOTHESIS.fullmatch(line)
        if match:
            found.setdefault(int(match[1]), match[2])
    if not found:
        raise UsageError(f"{path}: no translation (line H-...) in it; is it of fairseq-generate?")
    if max(found) >= sentences:
        raise UsageError(
            f"{path}: has a translation of sentence {max(found)} (counted from 0), "
            f"but the reference has {sentences} lines"
        )
    missing = [sentence for sentence in range(sentences) if sentence not in found]
    if missing:
        print(
            f"WARNING: {path}: {len(missing)} of {sentences} sentences have no translation and "
            f"count as empty, the first of them is sentence {missing[0]} (counted from 0)",
            file=sys.stderr,
        )
    return [found.get(sentence, "") for sentence in range(sentences)]


def remove_bpe(line: str) -> str:
    """Join units of subword-nmt to tokens, as fairseq's ``--post-process subword_nmt`` does."""
    return f"{line} ".replace("@@ ", "").rstrip(" ")


def detokenize(lines: Iterable[str], lang: str) -> list[str]:
    """Join Moses tokens to text, as fairseq's ``moses`` tokenizer does.

    Args:
        lines: tokens separated by spaces, without BPE.
        lang: language code.
    """
    detokenizer = MosesDetokenizer(lang)
    return [detokenizer.detokenize(line.split()) for line in lines]


def bleu(hypotheses: list[str], reference: str | os.PathLike, lang: str) -> Score:
    """sacreBLEU, cased, of detokenised translations.

    Args:
        hypotheses: plain text.
        reference: file of the raw reference, one line for each hypothesis.
        lang: language of both; sacreBLEU chooses its tokeniser by it ("13a" for most).

    Raises:
        UsageError: there is no such file, or their numbers differ.
    """
    references = read_lines(reference)
    if len(references) != len(hypotheses):
        raise UsageError(
            f"{reference} has {len(references)} lines for {len(hypotheses)} translations"
        )
    metric = BLEU(trg_lang=lang)
    return Score(metric.corpus_score(hypotheses, [references]).score, str(metric.get_signature()))


def score_output(
    output: str | os.PathLike, reference: str | os.PathLike, lang: str
) -> tuple[Score, list[str]]:
    """Score an output of ``fairseq-generate`` in Moses tokens and units of subword-nmt.

    Args:
        output: what fairseq-generate wrote.
        reference: file of the raw reference.
        lang: the target language.

    Returns:
        The score, and the translations as plain text in the order of the test set.

    Raises:
        UsageError: as :func:`read_hypotheses`.
    """
    units = read_hypotheses(output, len(read_lines(reference)))
    hypotheses = detokenize(map(remove_bpe, units), lang)
    return bleu(hypotheses, reference, lang), hypotheses


def read_lines(path: str | os.PathLike) -> list[str]:
    """The lines of a text file. A line ends at a newline character and nowhere else."""
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid UTF-8: {error}") from error
    return text.removesuffix("\n").split("\n") if text else []
