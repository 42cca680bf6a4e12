"""Punctuation and invisible characters, as fairseq's prepare-wmt14en2de.sh has Moses treat them.

They are for text as it was published. Moses makes a comma or a dot of a no-break space between
digits, so they come before ``data_prep.text.normalise``, which makes a space of it.
"""

from __future__ import annotations

from functools import cache
from unicodedata import category

from sacremoses import MosesPunctNormalizer


@cache
def _normalizer(lang: str) -> MosesPunctNormalizer:
    # Without perl_parity an apostrophe after a word stays one where Moses makes a quote of it.
    return MosesPunctNormalizer(lang, perl_parity=True)


def normalise_punctuation(line: str, lang: str) -> str:
    """One line after Moses' normalize-punctuation.perl, without spaces at its ends.

    Quotes, dashes, dots and spaces beside punctuation become those of ASCII.

    Args:
        line: one line, without its "\\n".
        lang: language code; quotes beside commas and spaces in numbers differ between languages.
    """
    # Moses sees the line end too: in German it puts a final '."' in the order '".'.
    return _normalizer(lang).normalize(f"{line}\n")


def replace_non_printing(line: str) -> str:
    """One line after Moses' remove-non-printing-char.perl: a space for each such character.

    These are Unicode's category "other": control and format characters (the soft hyphen and the
    zero-width space are among them), private ones, and those that are not assigned in the Unicode
    version of the running Python. sacremoses has the same as ``remove_control_chars``, but joins
    what the character stood between.
    """
    if line.isprintable():
        return line
    return "".join(" " if category(char)[0] == "C" else char for char in line)


def clean_punctuation(line: str, lang: str) -> str:
    """One line after both, in the order of prepare-wmt14en2de.sh.

    Args:
        line, lang: as in ``normalise_punctuation``.
    """
    return replace_non_printing(normalise_punctuation(line, lang))
