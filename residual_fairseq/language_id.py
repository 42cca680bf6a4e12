"""Tells languages apart, so that translations into a wrong one can be counted.

First by script: the one that most letters of a line belong to. Among languages that share it, by
naive Bayes over character n-grams, learnt from text of the languages at hand. Nothing is
downloaded, and the same text gives the same answers.
"""

from __future__ import annotations

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain, islice

import numpy as np

from .errors import UsageError

#: Orders of the character n-grams.
ORDERS = (1, 2, 3)

#: Added to every count. Well below 1: what a language never has is what tells it from another.
SMOOTHING = 0.1

#: Lines of each language that are learnt from at most; the accuracy hardly grows with more.
MAX_LINES = 5000

#: A script is one of a language's own if it has at least this share of its lines. Serbian has two,
#: but the odd English line in a Russian text does not make Latin one of Russian's.
MIN_SCRIPT_SHARE = 0.1

#: Part to whole, of the macrolanguages of ISO 639-3 that corpora name beside their parts: Bosnian
#: is Serbo-Croatian too, so it is not a wrong language where that is wanted.
MACROLANGUAGES = {"bs": "sh", "hr": "sh", "sr": "sh", "nb": "no", "nn": "no"}


class LanguageIdentifier:
    """Knows languages by their text.

    Args:
        texts: by language code, lines of that language; the first ``MAX_LINES`` are learnt from.

    Raises:
        UsageError: a text has no letters.
    """

    def __init__(self, texts: Mapping[str, Iterable[str]]) -> None:
        #: By language, how many lines it was learnt from.
        self.lines: dict[str, int] = {}
        counts: dict[str, dict[str, Counter[str]]] = {}
        for language, lines in texts.items():
            self.lines[language] = 0
            by_script: dict[str, list[str]] = {}
            for line in islice(lines, MAX_LINES):
                self.lines[language] += 1
                script = script_of(line)
                if script:
                    by_script.setdefault(script, []).append(line)
            written = sum(map(len, by_script.values()))
            if not written:
                raise UsageError(f"the text in {language!r} has no letters to know it by")
            for script, own in by_script.items():
                if len(own) >= MIN_SCRIPT_SHARE * written:
                    ngrams = Counter(ngram for line in own for ngram in ngrams_of(line))
                    counts.setdefault(script, {})[language] = ngrams
        self._classifiers = {script: NaiveBayes(counts[script]) for script in sorted(counts)}

    def identify(self, line: str) -> str | None:
        """The language of a line.

        Returns:
            one of the languages; None if the line has no letters, or its script or all of its
            n-grams are of none of them.
        """
        classifier = self._classifiers.get(script_of(line))
        return classifier.classify(ngrams_of(line)) if classifier else None

    def is_off_target(self, line: str, language: str) -> bool:
        """Whether a line is in another script or another language than wanted.

        A line without letters is in no language, and so in no wrong one.

        Args:
            language: the wanted one.

        Raises:
            UsageError: it is none of the languages.
        """
        if language not in self.lines:
            raise UsageError(f"no text in {language!r} was given to know it by")
        if script_of(line) is None:
            return False
        found = self.identify(line)
        return language not in (found, MACROLANGUAGES.get(found)) and (
            found is None or found != MACROLANGUAGES.get(language)
        )


class NaiveBayes:
    """Multinomial naive Bayes over n-grams, all languages being equally likely beforehand.

    Args:
        counts: by language, how often each n-gram occurs in it.
    """

    def __init__(self, counts: Mapping[str, Counter[str]]) -> None:
        self._languages = list(counts)
        self._places = {ngram: i for i, ngram in enumerate(dict.fromkeys(chain(*counts.values())))}
        matrix = np.full((len(self._places), len(counts)), SMOOTHING, dtype=np.float32)
        for column, ngrams in enumerate(counts.values()):
            for ngram, count in ngrams.items():
                matrix[self._places[ngram], column] += count
        totals = matrix.sum(axis=0, dtype=np.float64).astype(np.float32)
        self._log_probabilities = np.log(matrix / totals)

    def classify(self, ngrams: Iterable[str]) -> str | None:
        """The most likely language; n-grams that none of them has do not count.

        Returns:
            the language, None if there are no other n-grams.
        """
        places = [self._places[ngram] for ngram in ngrams if ngram in self._places]
        if not places:
            return None
        return self._languages[int(self._log_probabilities[places].sum(axis=0).argmax())]


def ngrams_of(line: str) -> list[str]:
    """The character n-grams of a line: lower-cased letters, words between spaces."""
    letters = "".join(map(_letter_or_space, unicodedata.normalize("NFKC", line).lower()))
    text = f" {' '.join(letters.split())} "
    return [text[i : i + n] for n in ORDERS for i in range(len(text) - n + 1)]


def script_of(line: str) -> str | None:
    """The script that most letters of a line belong to, by the name that Unicode gives them.

    Returns:
        "LATIN", "CYRILLIC", "CJK" ...; of two with equally many letters, the first in the line.
        "KANA" for all the letters of Japanese, in a line that has hiragana or katakana. None if
        the line has no letters.
    """
    scripts = Counter(filter(None, map(_script, unicodedata.normalize("NFKC", line))))
    kana = scripts.pop("HIRAGANA", 0) + scripts.pop("KATAKANA", 0)
    if kana:
        scripts["KANA"] = kana + scripts.pop("CJK", 0)
    return max(scripts, key=scripts.__getitem__, default=None)


@functools.cache
def _script(character: str) -> str | None:
    """The script of a letter; None for what is no letter, or one of no script of its own (Lm)."""
    if unicodedata.category(character) not in ("Lu", "Ll", "Lt", "Lo"):
        return None
    return unicodedata.name(character, "").partition(" ")[0] or None


@functools.cache
def _letter_or_space(character: str) -> str:
    # Marks (M) are the vowel signs of Indic scripts.
    return character if unicodedata.category(character)[0] in "LM" else " "
