"""The steps from parallel text to BPE units, each from one folder of splits to another.

Every step returns its counts: what there is after it, what was dropped and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from sacrebleu.metrics import BLEU
from subword_nmt.learn_bpe import get_vocabulary

from data_prep.bpe import apply_codes, learn_codes, read_codes, remove_codes, write_vocabulary
from data_prep.options import Options
from data_prep.text import (
    drop_empty,
    normalise,
    normalise_pairs,
    read_lines,
    replacing,
    write_lines,
    write_pairs,
)
from data_prep.tokens import detokenize, tokenize
from residual_fairseq.errors import UsageError
from residual_fairseq.scoring import bleu_tokenizer

#: Moses' clean-corpus-n drops pairs with longer words: they are no words.
MAX_WORD_LENGTH = 1000


def clean(options: Options, text: Path, cleaned: Path) -> dict:
    """Normalise all splits and drop the training pairs that have an empty side.

    Args:
        text: folder of the given text.
        cleaned: existing folder for what becomes of it, under the same names.

    Returns:
        for each split the number of pairs, of dropped pairs by reason, and of changed lines by
        language and reason.

    Raises:
        UsageError: no training pair is left.
    """
    counts = {}
    for split in options.given:
        names = [f"{split}.{lang}" for lang in options.languages]
        changed: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        dropped: Counter[str] = Counter()
        pairs = normalise_pairs(*(read_lines(text / name) for name in names), changed)
        if split == "train":
            pairs = drop_empty(pairs, dropped)
        kept = write_pairs(*(cleaned / name for name in names), pairs)
        if not kept:
            raise UsageError(f"{text / names[0]}: no pair of the training text has two sides")
        counts[split] = {
            "pairs": kept,
            "dropped": dict(sorted(dropped.items())),
            "changed": {
                lang: dict(sorted(reasons.items()))
                for lang, reasons in zip(options.languages, changed)
            },
        }
    return counts


def tokenize_splits(options: Options, cleaned: Path, tokens: Path, workers: int) -> dict:
    """Tokenise all splits.

    Returns:
        for each split and language the number of lines, of tokens, and of lines that contain "@@"
        or "@-@". Moses separates these signs ("a@@ b" becomes "a @ @ b"), so they cannot be taken
        for the marks of BPE and of dash splits, but do not come back as they were either. Without
        it a word that ends in "@@" can come back joined to the next.
    """
    counts: dict = {split: {} for split in options.given}
    for split in options.given:
        for lang in options.languages:
            given, written = cleaned / f"{split}.{lang}", tokens / f"{split}.{lang}"
            tokenizer = "none" if options.in_units else options.tokenizer
            lines = tokenize(read_lines(given), lang, tokenizer, workers, options.dash_splits)
            if options.lowercase:
                lines = map(str.lower, lines)
            counts[split][lang] = {
                "lines": write_lines(written, lines),
                "tokens": sum(len(line.split()) for line in read_lines(written)),
                "lines_with_marks": sum(
                    "@@" in line or "@-@" in line for line in read_lines(given)
                ),
            }
    return counts


def drop_long(options: Options, text: Path, kept: Path, splits: Iterable[str]) -> dict:
    """Drop pairs that are too long or too unequal, as Moses' clean-corpus-n does.

    Args:
        splits: those to drop from; the others are taken over.

    Returns:
        for each split the number of pairs, and of dropped ones by reason.

    Raises:
        UsageError: nothing is left of a split.
    """
    counts = {}
    for split in options.splits:
        names = [f"{split}.{lang}" for lang in options.languages]
        if not (text / names[0]).exists():
            continue
        dropped: Counter[str] = Counter()
        pairs = zip(*(read_lines(text / name) for name in names))
        if split in splits:
            pairs = within_limits(pairs, options.max_tokens, options.max_ratio, dropped)
        left = write_pairs(*(kept / name for name in names), pairs)
        if not left:
            raise UsageError(f"{text / names[0]}: all pairs are too long or too unequal in length")
        counts[split] = {"pairs": left, "dropped": dict(sorted(dropped.items()))}
    return counts


def within_limits(
    pairs: Iterable[tuple[str, str]],
    longest: int | None,
    ratio: float | None,
    dropped: Counter[str],
) -> Iterator[tuple[str, str]]:
    """Yield the pairs within limits.

    Args:
        pairs: text with spaces between what is counted.
        longest, ratio: as ``max_tokens`` and ``max_ratio`` of ``Options``.
        dropped: incremented at the reason for the others.
    """
    for pair in pairs:
        sides = [line.split(" ") if line else [] for line in pair]
        shorter, longer = sorted(map(len, sides))
        if not shorter:
            dropped["empty"] += 1
        elif longest is not None and longer > longest:
            dropped[f"longer than {longest}"] += 1
        elif ratio is not None and longer > ratio * shorter:
            dropped[f"ratio above {ratio}"] += 1
        elif max(len(word) for side in sides for word in side) > MAX_WORD_LENGTH:
            dropped[f"word of more than {MAX_WORD_LENGTH} characters"] += 1
        else:
            yield pair


def split_valid(options: Options, text: Path, result: Path) -> dict:
    """Take every ``valid_every``-th pair, counted from one, out of train into valid.

    Returns:
        the number of pairs of both.

    Raises:
        UsageError: the text is too small for a validation set.
    """
    every = options.valid_every
    for lang in options.languages:
        pairs = Counter({"train": 0, "valid": 0})
        with (
            replacing(result / f"train.{lang}") as train,
            replacing(result / f"valid.{lang}") as valid,
        ):
            for number, line in enumerate(read_lines(text / f"train.{lang}"), 1):
                split, file = ("train", train) if number % every else ("valid", valid)
                file.write(f"{line}\n")
                pairs[split] += 1
        if not pairs["valid"]:
            raise UsageError(
                f"{text / f'train.{lang}'}: {pairs['train']} pairs are left, too few to take every "
                f"{every}th for validation"
            )
        for test in options.tests:
            write_lines(result / f"{test}.{lang}", read_lines(text / f"{test}.{lang}"))
    return {split: {"pairs": n} for split, n in pairs.items()}


def learn_joint_codes(options: Options, tokens: Path, result: Path) -> dict:
    """Learn BPE on both sides of the training text together.

    Args:
        tokens: folder of the tokenised splits.
        result: folder for ``codes`` and ``vocab.LANG``.

    Returns:
        the number of merge operations, and of units for each language.
    """
    words = {
        lang: get_vocabulary(read_lines(tokens / f"train.{lang}")) for lang in options.languages
    }
    learned = learn_codes(sum(words.values(), Counter()), result / "codes", options.bpe_merges)
    bpe = read_codes(result / "codes")
    units = {
        lang: write_vocabulary(words[lang], bpe, result / f"vocab.{lang}")
        for lang in options.languages
    }
    return {"merges": learned, "units": units}


def apply_joint_codes(
    options: Options, tokens: Path, units: Path, result: Path, workers: int
) -> dict:
    """Split the tokens of all splits into BPE units.

    Args:
        tokens: folder of the tokenised splits.
        units: existing folder for what becomes of them.
        result: folder of ``codes`` and ``vocab.LANG``.

    Returns:
        for each split and language the number of lines and of units.
    """
    counts: dict = {split: {} for split in options.splits}
    for lang in options.languages:
        threshold = options.vocabulary_threshold
        vocabulary = result / f"vocab.{lang}" if threshold else None
        bpe = read_codes(result / "codes", vocabulary, threshold)
        for split in options.splits:
            written = units / f"{split}.{lang}"
            lines = apply_codes(read_lines(tokens / written.name), bpe, workers)
            counts[split][lang] = {
                "lines": write_lines(written, lines),
                "units": sum(len(line.split()) for line in read_lines(written)),
            }
    return counts


def compare_round_trip(options: Options, text: Path, units: Path, workers: int) -> dict:
    """Turn the units of valid and the test sets back into text, as is done with a translation.

    Args:
        text: folder of the given text, and of raw references where these are other files.
        units: the same in BPE units.

    Returns:
        for each split and language that there is raw text of the number of lines, how many of them
        are not what they were but for spaces, and the BLEU of all: what a model would reach that
        translates everything right.
    """
    counts: dict = {}
    for split in options.given:
        if split == "train":
            continue
        counts[split] = {}
        for lang in options.languages:
            raw = raw_text(text, split, lang)
            if raw is None and options.in_units:
                continue
            references = list(read_lines(raw or text / f"{split}.{lang}"))
            joined = remove_codes(read_lines(units / f"{split}.{lang}"))
            back = list(detokenize(joined, lang, options.tokenizer, workers))
            before = map(normalise, references)
            if options.lowercase:
                before = map(str.lower, before)
            bleu = BLEU(lowercase=options.lowercase, tokenize=bleu_tokenizer(lang))
            score = bleu.corpus_score(back, [references])
            counts[split][lang] = {
                "lines": len(back),
                "changed": sum(a != b for a, b in zip(back, before)),
                "bleu": round(score.score, 2),
                "signature": str(bleu.get_signature()),
            }
    return counts


def raw_text(text: Path, split: str, lang: str) -> Path | None:
    """The text of a split as it was published, if it is another file than what is trained on."""
    path = text / f"{split}.raw.{lang}"
    return path if path.exists() else None
