"""Joint BPE by subword-nmt, filtered by the vocabulary of each language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from subword_nmt.apply_bpe import BPE, read_vocabulary
from subword_nmt.learn_bpe import learn_bpe

from data_prep.parallel import map_lines
from data_prep.text import read_lines, replacing, write_lines
from residual_fairseq.errors import UsageError
from residual_fairseq.scoring import remove_bpe


def learn_codes(words: Counter[str], codes: Path, merges: int) -> int:
    """Learn BPE and write its codes in subword-nmt's format.

    Args:
        words: tokens and their frequency, over all languages that share the codes.
        codes: the file to write.
        merges: number of merge operations.

    Returns:
        the number learned: fewer than asked for if no pair is left that occurs twice.

    Raises:
        UsageError: not even one pair of characters occurs twice.
    """
    learned = 0
    if any(len(word) > 1 for word in words):
        with replacing(codes) as file:
            learn_bpe([f"{word} {n}" for word, n in words.items()], file, merges, is_dict=True)
        learned = sum(1 for _ in read_lines(codes)) - 1
    if not learned:
        raise UsageError(
            "the training text is too small to learn BPE: no two characters in it occur together "
            "twice"
        )
    return learned


def read_codes(codes: Path, vocabulary: Path | None = None, threshold: int = 1) -> BPE:
    """Load BPE codes, and the vocabulary that filters them.

    Args:
        codes: file of ``learn_codes``.
        vocabulary: file of ``write_vocabulary`` for the language of the text. Units outside of it
            are split again, so that a language is never given units that only the other one has.
        threshold: count a unit in only with this frequency or more.

    Raises:
        UsageError: no unit is frequent enough.
    """
    units = None
    if vocabulary is not None:
        units = read_vocabulary(read_lines(vocabulary), threshold)
        if not units:
            raise UsageError(
                f"--vocabulary-threshold {threshold}: no unit in {vocabulary} is that frequent; "
                "lower it"
            )
    with open(codes, encoding="utf-8", newline="\n") as file:
        return BPE(file, vocab=units)


class Segments(dict):
    """The units of words, separated by spaces; a distinct word is split once, not at every place.

    Args:
        bpe: codes, and the vocabulary that filters them.
    """

    #: Words that are remembered at most, so that memory does not grow with the corpus.
    ROOM = 1_000_000

    def __init__(self, bpe: BPE) -> None:
        super().__init__()
        self.bpe = bpe

    def __missing__(self, word: str) -> str:
        if len(self) >= self.ROOM:
            self.clear()
        units = self[word] = " ".join(self.bpe.segment_tokens([word]))
        return units

    def split_line(self, line: str) -> str:
        """What ``BPE.process_line`` makes of a line."""
        if line != line.strip("\r\n "):
            return self.bpe.process_line(line)
        return " ".join([self[word] for word in line.split(" ") if word])


def apply_codes(lines: Iterable[str], bpe: BPE, workers: int = 1) -> Iterator[str]:
    """Split tokens into BPE units; all but the last unit of a token end in "@@"."""
    return map_lines(Segments(bpe).split_line, lines, workers)


def remove_codes(lines: Iterable[str]) -> Iterator[str]:
    """Join BPE units to tokens."""
    return map(remove_bpe, lines)


def write_vocabulary(words: Counter[str], bpe: BPE, vocabulary: Path) -> int:
    """Write the BPE units of a text and their frequency, in subword-nmt's format.

    Args:
        words: tokens of one language, and their frequency.
        bpe: codes, read without a vocabulary.
        vocabulary: the file to write: the most frequent unit first, ties in order of code points.

    Returns:
        the number of units.
    """
    units: Counter[str] = Counter()
    for word, frequency in words.items():
        for unit in bpe.segment_tokens([word]):
            units[unit] += frequency
    ordered = sorted(units.items(), key=lambda item: (-item[1], item[0]))
    return write_lines(vocabulary, (f"{unit} {frequency}" for unit, frequency in ordered))
