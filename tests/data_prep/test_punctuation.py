"""Moses' punctuation and non-printing characters."""

from __future__ import annotations

import pytest

from data_prep.punctuation import clean_punctuation, normalise_punctuation, replace_non_printing

# What Moses' normalize-punctuation.perl gives, but for spaces at the ends.
AS_MOSES = [
    ("de", "„Gut“, sagte er …", '"Gut", sagte er ...'),
    ("de", "Er sagte: „Ja.“", 'Er sagte: "Ja".'),
    ("de", 'Er sagte: "Ja." Und', 'Er sagte: "Ja". Und'),
    ("de", '"Ja," sagte er', '"Ja", sagte er'),
    ("de", "1\xa0000 und 5\xa0% : ( a ) ;", "1,000 und 5%: (a);"),
    ("de", "‚so‘ – er — sie", "'so' - er - sie"),
    ("de", "«\xa0Gut\xa0» oder »gut«", '"Gut" oder "gut"'),
    ("en", "“Yes”, she said… it’s the boys’ `own´", "\"Yes,\" she said... it's the boys\" 'own'"),
    ("en", "1\xa0000 at 5\xa0ºC, nº\xa05,\xa0ok", "1.000 at 5 ºC, nº 5, ok"),
    ("en", "''quoted'' a(b)c , ( d ) .", '" quoted " a (b) c , (d).'),
    ("en", "a  b\r", "a b"),
]


@pytest.mark.parametrize(("lang", "line", "expected"), AS_MOSES)
def test_punctuation_is_that_of_moses(lang, line, expected):
    assert normalise_punctuation(line, lang) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plain Text, ä € \u4e2d", "plain Text, ä € \u4e2d"),
        ("soft\xadhyphen zero\u200bwidth", "soft hyphen zero width"),
        ("a\tb\0c\x85d\x7fe", "a b c d e"),
        ("\ufeffa\ue000b\U000fffffc\u0378d", " a b c d"),
        ("a\xa0b\u2028c\u3000d", "a\xa0b\u2028c\u3000d"),
    ],
)
def test_each_non_printing_character_becomes_a_space(line, expected):
    assert replace_non_printing(line) == expected


def test_both_are_done():
    assert clean_punctuation("„1\xa0000\xad!“", "de") == '"1,000 !"'
