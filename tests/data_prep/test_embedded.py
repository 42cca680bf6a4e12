import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from babel import Locale
from babel.dates import format_date, format_timedelta
from babel.numbers import format_currency
from num2words import num2words

from data_prep import embedded
from data_prep.embedded import Grammar, Language, generate, main, normalise, write_corpus
from residual_fairseq.errors import UsageError

ROOT = Path(embedded.__file__).resolve().parents[1]
SIZES = {"train": 1500, "valid": 100, "test": 200}
SIX = ("en", "de", "fr", "es", "ru", "it")
SPLITS = ("train", "valid", "test")
OPTIONS = ["--train", "60", "--valid", "10", "--test", "12"]


@pytest.fixture(scope="module")
def corpus():
    return generate(("en", "de"), **SIZES)


@pytest.fixture(scope="module")
def default_corpus():
    return generate(("en", "de"))


@pytest.fixture(scope="module")
def six_ways():
    return generate(SIX, train=400, valid=50, test=50)


def lines(corpus):
    return [line for split in SPLITS for line in corpus[split]]


def english_date(text):
    """The date that an English text like "March 5, 2026" or "Thursday, March 5, 2026" names."""
    return datetime.datetime.strptime(text.split("day, ")[-1], "%B %d, %Y").date()


def test_sizes_and_order_of_the_splits(corpus):
    assert {split: len(corpus[split]) for split in corpus} == SIZES
    assert tuple(corpus) == SPLITS


def test_same_arguments_same_corpus_and_other_seed_other_corpus(corpus):
    assert generate(("en", "de"), **SIZES) == corpus
    other = generate(("en", "de"), **SIZES, seed=2)
    assert not set(other["test"]) & set(corpus["test"])


@pytest.mark.slow
def test_hash_randomisation_and_process_do_not_matter(tmp_path):
    folders = [tmp_path / hash_seed for hash_seed in ("0", "4242")]
    for folder in folders:
        subprocess.run(
            [sys.executable, "-m", "data_prep.embedded", "--out", str(folder), *OPTIONS],
            env={**os.environ, "PYTHONHASHSEED": folder.name},
            cwd=ROOT,
            check=True,
        )
    assert len(list(folders[0].iterdir())) == 7
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()


def test_test_and_valid_stay_when_train_grows(corpus):
    larger = generate(("en", "de"), **{**SIZES, "train": 1600})
    assert larger["test"] == corpus["test"]
    assert larger["valid"] == corpus["valid"]
    assert larger["train"][:1500] == corpus["train"]


@pytest.mark.slow
def test_no_line_occurs_twice_on_any_side(default_corpus):
    assert [len(default_corpus[split]) for split in SPLITS] == [20000, 500, 1000]
    for side in (0, 1):
        texts = [line[side] for line in lines(default_corpus)]
        assert len(set(texts)) == len(texts) == 21500


@pytest.mark.slow
def test_every_name_of_the_test_set_is_learnable(default_corpus):
    grammar = Grammar([Language("en"), Language("de")])
    for side, language in enumerate(grammar.languages):
        text = "\n".join(line[side] for line in default_corpus["train"])
        for item in grammar.territories + grammar.tongues:
            assert text.count(language.render(item)) >= 20, item


@pytest.mark.slow
@pytest.mark.parametrize("source", [0, 1])
def test_a_part_of_a_line_has_one_translation(default_corpus, source):
    translations = {}
    pairs = 0
    for line in lines(default_corpus):
        parts = [re.split(": |; ", line[side]) for side in (source, 1 - source)]
        assert len(parts[0]) == len(parts[1])
        for part, other in zip(*parts):
            assert translations.setdefault(part, other) == other
            pairs += 1
    assert pairs > 1.5 * len(translations)


@pytest.mark.slow
def test_lengths(default_corpus):
    for side in (0, 1):
        lengths = [len(line[side].split()) for line in default_corpus["train"]]
        assert min(lengths) >= 3 and max(lengths) <= 25
        tokens = [len(re.findall(r"[\w’-]+|[^\w\s]", line[side])) for line in lines(default_corpus)]
        assert 8 <= sum(tokens) / len(tokens) <= 12


def test_no_duplicates_and_lengths_six_ways(six_ways):
    assert {split: len(six_ways[split]) for split in SPLITS} == dict(zip(SPLITS, (400, 50, 50)))
    for side in range(6):
        texts = [line[side] for line in lines(six_ways)]
        assert len(set(texts)) == len(texts)
        assert all(3 <= len(text.split()) <= 25 for text in texts)


def test_lines_are_parallel_six_ways(six_ways):
    # The marks between items, and the numbers in digits apart from grouping and the 12-hour clock,
    # are the same in all six languages.
    for line in lines(six_ways):
        assert len({(text.count(";"), text.count("("), text.count("%")) for text in line}) == 1
        if not re.search(r"\d:\d\d", line[0]):
            assert len({tuple(sorted(re.findall(r"\d", text))) for text in line}) == 1, line


def test_dates_agree_with_babel(corpus):
    pattern = re.compile(r"^((?:\w+day, )?[A-Z]\w+ \d+, \d{4}): ")
    checked = 0
    for english, german in lines(corpus):
        if found := pattern.match(english):
            style = "full" if "day, " in found[1] else "long"
            expected = format_date(english_date(found[1]), style, locale="de")
            assert german.startswith(f"{expected}: ")
            checked += 1
    assert checked > 50


def test_amounts_in_words_agree_with_their_digits_and_with_num2words(corpus):
    checked = 0
    for english, german in lines(corpus):
        found = re.search(r"([\d,]+) [^()]* \(([a-z -]+)\)$", english)
        if found:
            number = int(found[1].replace(",", ""))
            assert found[2] == num2words(number, lang="en").replace(",", "")
            assert german.endswith(f" ({num2words(number, lang='de')})")
            checked += 1
    assert checked > 20


def test_every_spelled_number_agrees(corpus):
    spelled = {
        num2words(number, lang="en", to=form).replace(",", ""): (number, form)
        for form, numbers in (("cardinal", range(1, 10000)), ("ordinal", range(1, 1000)))
        for number in numbers
    }
    checked = Counter()
    for english, german in lines(corpus):
        last = re.split(r": | – |; ", english)[-1]
        if last in spelled:
            number, form = spelled[last]
            expected = num2words(number, lang="de", to=form)
            assert re.split(r": | – |; ", german)[-1] == expected
            checked[form] += 1
    assert checked["cardinal"] > 30 and checked["ordinal"] > 20


def test_durations_and_prices_agree_with_babel(corpus):
    seen = Counter()
    for english, german in lines(corpus):
        if found := re.match(r"(in )?(\d+) (hour|day|week)s?( ago)?: ", english):
            count = int(found[2]) * (1 if found[1] else -1)
            delta = datetime.timedelta(**{f"{found[3]}s": count})
            expected = format_timedelta(
                delta, granularity=found[3], threshold=1e9, add_direction=True, locale="de"
            )
            assert german.startswith(f"{expected}: ")
            seen["durations"] += 1
        if found := re.search(r" [€£₪₹]([\d,.]+)$", english):
            currency = dict(zip("€£₪₹", ("EUR", "GBP", "ILS", "INR")))[found[0][1]]
            amount = Decimal(found[1].replace(",", ""))
            expected = normalise(format_currency(amount, currency, locale="de"))
            assert german.endswith(f" {expected}")
            seen["prices"] += 1
    assert seen["durations"] > 15 and seen["prices"] > 3


def test_times_carry_the_half_of_the_day():
    english, german = Language("en"), Language("de")
    for hour in range(24):
        item = ("clock", datetime.time(hour, 5))
        half = "AM" if hour < 12 else "PM"
        assert english.render(item) == f"{(hour + 11) % 12 + 1}:05 {half}"
        assert german.render(item) == f"{hour:02}:05"
    hours = ("hours", datetime.time(9, 0), datetime.time(17, 30))
    assert english.render(hours) == "9:00 AM – 5:30 PM"
    assert german.render(hours) == "09:00 – 17:30 Uhr"


def test_composed_items():
    english, german = Language("en"), Language("de")
    place = ("brackets", ("language", "fr"), ("territory", "CH"))
    choice = ("any_of", ("ordinal", 1), ("ordinal", 21), ("ordinal", 103))
    amounts = ("all_of", ("percent", 5), ("measure", 2, "mass-gram"))
    item = ("label", place, ("then", choice, amounts))
    assert english.render(item) == (
        "French (Switzerland): first, twenty-first, or one hundred and third; 5% and 2 grams"
    )
    assert german.render(item) == (
        "Französisch (Schweiz): erste, einundzwanzigste oder einhundertdritte; 5 % und 2 Gramm"
    )


def test_spelled_numbers_have_no_comma_and_no_and_between_them(corpus):
    assert Language("en").render(("cardinal", 1234)) == "one thousand two hundred and thirty-four"
    lists = [english for english, _ in lines(corpus) if re.fullmatch("[a-z, -]+", english)]
    assert len(lists) > 20
    for english in lists:
        assert " or " in english
        assert not re.search("(?<!hundred)(?<!thousand) and ", english)


@pytest.mark.parametrize("fixture", ["corpus", "six_ways"])
def test_no_character_that_breaks_lines_or_hides(fixture, request):
    hidden = "[^\\S ]|[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f]"
    for line in lines(request.getfixturevalue(fixture)):
        for text in line:
            assert text == text.strip() and "  " not in text
            assert text.splitlines() == [text]
            assert not re.search(hidden, text)


def test_normalise():
    assert normalise("3:04\u202fPM\u2009–\u20095\xa0€\u2028\r\n\x85") == "3:04 PM – 5 €"
    assert normalise("\u200f12\u061c \u2067a\u2069") == "12 a"
    assert normalise("Co\u0302te") == "Côte"


@pytest.mark.parametrize("language", ["sv", "pl", "pt_BR", "pt-PT", "nl", "ja", "ar", "fa"])
def test_other_languages(language):
    corpus = generate(("en", language), train=200, valid=20, test=20)
    assert len({other for _, other in lines(corpus)}) == 240


def test_a_kind_that_a_language_lacks_is_left_out_for_all():
    with pytest.raises(NotImplementedError):
        num2words(3, lang="cs", to="ordinal")
    grammar = Grammar([Language(name) for name in ("en", "cs")])
    assert grammar.left_out == ["ordinal"]
    corpus = generate(("en", "cs"), train=500, valid=50, test=50)
    ordinals = re.compile(r"\b(third|fifth|\w+tieth)\b")
    assert not any(ordinals.search(english) for english, _ in lines(corpus))


def test_names_that_a_language_does_not_tell_apart_are_left_out():
    assert Locale("en").territories["NR"] == Locale("en").languages["na"] == "Nauru"
    grammar = Grammar([Language("en"), Language("de")])
    assert ("territory", "NR") not in grammar.territories
    assert ("language", "na") not in grammar.tongues
    assert ("territory", "AT") in grammar.territories


def test_too_little_in_common_is_one_line(monkeypatch):
    monkeypatch.setattr(embedded, "CURRENCIES", [])
    with pytest.raises(UsageError, match=r"--languages en,de: .* of kind money, price "):
        Grammar([Language("en"), Language("de")])


@pytest.mark.parametrize(
    "name, lacking", [("zh", "num2words"), ("xx", "Babel"), ("../de", "Babel"), ("", "Babel")]
)
def test_unknown_language_names_those_that_work(name, lacking):
    with pytest.raises(UsageError) as caught:
        generate(("en", name))
    message = str(caught.value)
    assert f"{name!r} is not a language of {lacking};" in message
    assert {"de", "fr", "pt_BR"} <= set(message.split(": ")[-1].split(", "))
    assert "\n" not in message and caught.value.code != 0


@pytest.mark.parametrize("languages", [("en",), ("en", "de", "en"), ("de", "DE")])
def test_too_few_languages_or_one_twice(languages):
    with pytest.raises(UsageError, match="at least two languages, each once"):
        generate(languages)


@pytest.mark.parametrize("split", SPLITS)
def test_empty_split_is_refused(split):
    with pytest.raises(UsageError, match=f"--{split} must be at least 1, got 0"):
        generate(("en", "de"), **{**SIZES, split: 0})


@pytest.fixture
def folder(tmp_path):
    main(["--out", str(tmp_path / "corpus"), *OPTIONS])
    return tmp_path / "corpus"


def stamps(folder):
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.iterdir()}


def test_files_and_manifest(folder):
    names = {f"{split}.{language}" for split in SPLITS for language in ("en", "de")}
    assert {path.name for path in folder.iterdir()} == names | {"embedded.json"}
    manifest = json.loads((folder / "embedded.json").read_text(encoding="utf-8"))
    expected = generate(("en", "de"), train=60, valid=10, test=12)
    for split in SPLITS:
        assert manifest["lines"][split] == len(expected[split])
        for side, language in enumerate(("en", "de")):
            data = (folder / f"{split}.{language}").read_bytes()
            assert data.decode("utf-8") == "".join(line[side] + "\n" for line in expected[split])
            assert manifest["sha256"][f"{split}.{language}"] == hashlib.sha256(data).hexdigest()
    assert manifest["options"]["languages"] == ["en", "de"] and manifest["options"]["seed"] == 1
    assert set(manifest["versions"]) == {"Babel", "num2words"}
    assert manifest["kinds_left_out"] == []


def test_second_run_does_nothing_and_says_so(folder, capsys):
    before = stamps(folder)
    main(["--out", str(folder), *OPTIONS])
    assert "already holds this corpus" in capsys.readouterr().out
    assert stamps(folder) == before


@pytest.mark.parametrize("other", [["--seed", "2"], ["--languages", "en,fr"], ["--train", "61"]])
def test_other_options_in_the_same_folder_are_refused(folder, other):
    before = stamps(folder)
    with pytest.raises(UsageError, match="holds a corpus of other options") as caught:
        main(["--out", str(folder), *OPTIONS, *other])
    assert "\n" not in str(caught.value)
    assert stamps(folder) == before


def test_interrupted_run_is_completed(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "embedded.json").unlink()
    (folder / "train.de").unlink()
    main(["--out", str(folder), *OPTIONS])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_lost_file_is_written_again_and_changed_file_is_kept(folder):
    lost = (folder / "test.en").read_bytes()
    (folder / "test.en").unlink()
    main(["--out", str(folder), *OPTIONS])
    assert (folder / "test.en").read_bytes() == lost
    (folder / "valid.de").write_text("Hallo\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"valid\.de exists and differs"):
        main(["--out", str(folder), *OPTIONS])
    assert (folder / "valid.de").read_text(encoding="utf-8") == "Hallo\n"


def test_failed_write_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError, match=r"--out .*No space left"):
        main(["--out", str(tmp_path), *OPTIONS])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"options": {}}', '{"options": {}, "sha256": 1}'])
def test_broken_manifest_is_named(folder, text):
    (folder / "embedded.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"embedded\.json is not a manifest of this command"):
        write_corpus(folder)


def test_out_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="--out .*file: "):
        main(["--out", str(tmp_path / "file"), *OPTIONS])
