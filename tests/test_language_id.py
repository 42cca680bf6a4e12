"""Languages are told apart by script and n-grams."""

import pytest

from data_prep.embedded import generate
from residual_fairseq.errors import UsageError
from residual_fairseq.language_id import LanguageIdentifier, ngrams_of, script_of

SIX = ("en", "de", "fr", "es", "ru", "it")


@pytest.fixture(scope="module")
def corpus():
    return generate(SIX, train=500, valid=1, test=300)


@pytest.fixture(scope="module")
def identifier(corpus):
    return LanguageIdentifier(
        {language: [line[side] for line in corpus["train"]] for side, language in enumerate(SIX)}
    )


def test_unseen_lines_of_six_languages(corpus, identifier):
    found = [
        (language, identifier.identify(line[side]))
        for line in corpus["test"]
        for side, language in enumerate(SIX)
    ]
    right = sum(language == guess for language, guess in found)
    assert right / len(found) > 0.95
    assert all(guess == "ru" for language, guess in found if language == "ru")


def test_order_of_the_languages_does_not_matter(corpus, identifier):
    texts = {
        language: [line[side] for line in corpus["train"]] for side, language in enumerate(SIX)
    }
    again = LanguageIdentifier(dict(reversed(texts.items())))
    lines = [line[1] for line in corpus["test"]]
    assert list(map(again.identify, lines)) == list(map(identifier.identify, lines))


def test_off_target(identifier):
    german = "der zweite Donnerstag im Dezember"
    assert not identifier.is_off_target(german, "de")
    assert identifier.is_off_target(german, "en")
    assert identifier.is_off_target(german, "ru")
    assert identifier.is_off_target("второй четверг декабря", "de")
    # Hangul is of none of the languages.
    assert identifier.identify("안녕하세요") is None
    assert identifier.is_off_target("안녕하세요", "de")


@pytest.mark.parametrize("line", ["", "12:30 – 5 %", "€ 7.00"])
def test_line_without_letters_is_in_no_wrong_language(identifier, line):
    assert identifier.identify(line) is None
    assert not identifier.is_off_target(line, "ru")


def test_unknown_language_is_refused(identifier):
    with pytest.raises(UsageError, match="'nl'"):
        identifier.is_off_target("de tweede donderdag", "nl")


def test_text_without_letters_is_refused():
    with pytest.raises(UsageError, match="'de' has no letters"):
        LanguageIdentifier({"en": ["one"], "de": ["1", "2"]})


def test_language_with_two_scripts_and_one_with_foreign_lines():
    serbian = ["добар дан свима", "dobar dan svima"]
    russian = ["добрый день всем"] * 30 + ["good day to all"]
    identifier = LanguageIdentifier({"sr": serbian, "ru": russian, "en": ["good day to all"]})
    assert not identifier.is_off_target("dobar dan", "sr")
    assert not identifier.is_off_target("добар дан", "sr")
    assert identifier.is_off_target("good day to all", "ru")
    assert identifier.is_off_target("добрый день", "sr")


def test_part_and_whole_of_a_macrolanguage_are_no_wrong_languages():
    texts = {"no": ["xxxx"], "nb": ["jeg heter"], "nn": ["eg heiter"], "da": ["jeg hedder"]}
    identifier = LanguageIdentifier(texts)
    assert identifier.identify("eg heiter") == "nn"
    assert not identifier.is_off_target("eg heiter", "no")
    assert identifier.is_off_target("eg heiter", "nb")
    assert identifier.is_off_target("jeg hedder", "no")
    # The whole, where a part is wanted.
    assert identifier.identify("xxxx") == "no"
    assert not identifier.is_off_target("xxxx", "nb")


@pytest.mark.parametrize(
    "line, script",
    [
        ("Straße 5", "LATIN"),
        ("５ｋｍ", "LATIN"),
        ("улица", "CYRILLIC"),
        ("街道和房子", "CJK"),
        ("日本語の文章", "KANA"),
        ("iPhone を買う", "LATIN"),
        ("हिन्दी", "DEVANAGARI"),
        ("123 …", None),
        ("", None),
        ("ab вг", "LATIN"),
    ],
)
def test_script_of_most_letters(line, script):
    assert script_of(line) == script


def test_ngrams():
    assert ngrams_of("A, b1") == [
        " ",
        "a",
        " ",
        "b",
        " ",
        " a",
        "a ",
        " b",
        "b ",
        " a ",
        "a b",
        " b ",
    ]
    # A vowel sign is a part of its syllable.
    assert "हि" in ngrams_of("हिन्दी")
