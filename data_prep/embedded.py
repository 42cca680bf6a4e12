"""A parallel corpus that needs no download: what Babel (CLDR) and num2words know by heart.

Each line is an *item*, a nested tuple that belongs to no language, rendered in every language
asked for: dates, times of day, durations, amounts of money, measures, percentages, countries and
languages by Babel; cardinals and ordinals in words by num2words. Items are joined by CLDR's own
patterns ("A, B, and C", "A or B", date with time) and by four marks that are the same everywhere:
``": "``, ``"; "``, ``" – "`` and ``" (...)"``. No sentence is translated by hand, so any languages
that both packages know can be combined, and the lines are parallel in all of them at once.

Rules that keep a line's translation determined by the line, whichever side it is read from:

- A kind of item is left out of the whole corpus (and named in the manifest) if one of the
  languages cannot render it or renders two different items the same. num2words has no Czech
  ordinals, for example, so a corpus with Czech has none in any language.
- A country, language, currency or unit is left out if one of the languages lacks its name, or
  gives two of them the same name ("Nauru" is a country and a language).
- Dates have four-digit years and unabbreviated months. Times carry AM/PM or a 24-hour clock.
- Spelled numbers are never joined by "and", which is also a part of them ("one hundred and
  three"), and lose the commas that num2words puts in ("one thousand, two hundred").
- No line occurs twice, in any language, within a split or across splits.

Characters: text is in Unicode NFC; every white space, which includes CLDR's no-break and thin
spaces and all that could break a line, becomes one plain space; bidirectional controls are
removed. The dash of an interval stands between spaces in every language, as it does in English
("5. – 8. März"), and amounts with a currency sign are not followed by a word ("5 € und 7 £"):
Moses' detokenizer does not restore them otherwise.

    python -m data_prep.embedded --out corpus --languages en,de
"""

from __future__ import annotations

import argparse
import datetime
import functools
import hashlib
import json
import os
import random
import re
import unicodedata
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

from babel import Locale, UnknownLocaleError
from babel.core import get_global
from babel.dates import (
    format_date,
    format_interval,
    format_skeleton,
    format_time,
    format_timedelta,
    get_datetime_format,
    get_day_names,
)
from babel.languages import get_official_languages
from babel.lists import format_list
from babel.numbers import format_currency, format_percent, get_currency_precision
from babel.units import format_unit
from num2words import CONVERTER_CLASSES, num2words

from data_prep.text import SPLITS, replacing
from residual_fairseq.errors import UsageError
from residual_fairseq.results import sha256

MANIFEST = "embedded.json"
MIN_WORDS, MAX_WORDS = 3, 25

CURRENCIES = (
    "AUD BRL CAD CHF CNY CZK DKK EUR GBP HUF ILS INR JPY KRW MXN NOK NZD PLN RUB SEK THB TRY UAH "
    "USD ZAR"
).split()
UNITS = (
    "area-hectare area-square-kilometer area-square-meter digital-gigabyte digital-megabyte "
    "duration-day duration-hour duration-minute duration-month duration-second duration-week "
    "duration-year electric-volt energy-kilowatt-hour frequency-hertz length-centimeter "
    "length-kilometer length-meter length-mile length-millimeter mass-gram mass-kilogram "
    "mass-tonne power-kilowatt power-watt pressure-hectopascal speed-kilometer-per-hour "
    "speed-meter-per-second temperature-celsius volume-cubic-meter volume-liter volume-milliliter"
).split()
SECONDS = {
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86400,
    "week": 7 * 86400,
    "month": 30 * 86400,
    "year": 365 * 86400,
}
FIRST_DAY = datetime.date(1900, 1, 1).toordinal()
LAST_DAY = datetime.date(2099, 12, 31).toordinal()

BIDI_CONTROLS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
INTERVAL_DASH = re.compile("([–—])")
# A name with one of these in it could be read as two items.
SEPARATORS = re.compile(r"[0-9()\[\]:;,–—]")


def normalise(text: str) -> str:
    """``text`` in NFC, without bidirectional controls, its white space as single plain spaces."""
    # str.split() takes every Unicode white space: no-break, thin and line separators included.
    return " ".join(BIDI_CONTROLS.sub("", unicodedata.normalize("NFC", text)).split())


class Language:
    """One side of the corpus: a method for each kind of item, which renders it.

    Args:
        name: as the user wrote it and as it ends the files' names, e.g. ``de`` or ``pt-BR``.

    Raises:
        UsageError: if Babel or num2words lacks the language.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.locale = _locale(name)
        self.converter = _converter(self.locale)
        if self.locale is None or self.converter is None:
            lacking = "Babel" if self.locale is None else "num2words"
            raise UsageError(
                f"--languages: {name!r} is not a language of {lacking}; "
                f"languages that both know: {', '.join(available_languages())}"
            )
        twelve_hours = "a" in self.locale.time_formats["short"].format
        self.clock_skeleton = "hm" if twelve_hours else "Hm"
        # CLDR's pattern sets spaces around the "and" of a list where the script has spaces.
        self.has_spaces = " " in self.locale.list_patterns["standard"]["2"]
        self.render = functools.cache(self._render)

    def _render(self, item: tuple) -> str:
        """The text of ``item``, a tuple of a kind (a method's name) and its arguments."""
        kind, *values = item
        return normalise(getattr(self, kind)(*values))

    def territory(self, code):
        return self._name(self.locale.territories[code])

    def language(self, code):
        return self._name(self.locale.languages[code])

    @staticmethod
    def _name(name):
        if SEPARATORS.search(name):
            raise ValueError(f"{name!r} could be read as two items")
        return name

    def full_date(self, date):
        return format_date(date, "full", locale=self.locale)

    def long_date(self, date):
        return format_date(date, "long", locale=self.locale)

    def month(self, date):
        return self._skeleton("yMMMM", date)

    def quarter(self, date):
        return self._skeleton("yQQQQ", date)

    def _skeleton(self, skeleton, date):
        return format_skeleton(skeleton, date, fuzzy=False, locale=self.locale)

    def days(self, start, end):
        return self._interval("MMMMd", start, end)

    def hours(self, start, end):
        return self._interval(self.clock_skeleton, start, end)

    def _interval(self, skeleton, start, end):
        # Without a pattern of the locale's own Babel would write both ends in full, or in digits.
        if skeleton not in self.locale.interval_formats:
            raise KeyError(skeleton)
        text = format_interval(start, end, skeleton, fuzzy=False, locale=self.locale)
        return INTERVAL_DASH.sub(r" \1 ", text)

    def clock(self, time):
        return format_time(time, "short", locale=self.locale)

    def weekday(self, number):
        return get_day_names("wide", context="stand-alone", locale=self.locale)[number]

    def at(self, day, clock):
        pattern = get_datetime_format("long", locale=self.locale).replace("'", "")
        return pattern.replace("{1}", self.render(day)).replace("{0}", self.render(clock))

    def relative(self, count, unit):
        # A threshold never reached makes Babel write the whole duration in the unit named.
        return format_timedelta(
            datetime.timedelta(seconds=count * SECONDS[unit]),
            granularity=unit,
            threshold=float("inf"),
            add_direction=True,
            locale=self.locale,
        )

    def price(self, amount, currency):
        return format_currency(amount, currency, locale=self.locale)

    def money(self, amount, currency):
        return format_currency(
            amount,
            currency,
            locale=self.locale,
            format_type="name",
            currency_digits=False,
            decimal_quantization=False,
        )

    def measure(self, value, unit):
        return format_unit(value, unit, length="long", locale=self.locale)

    def percent(self, value):
        return format_percent(Decimal(value) / 100, locale=self.locale)

    def cardinal(self, number):
        return self._words(number, "cardinal")

    def ordinal(self, number):
        return self._words(number, "ordinal")

    def _words(self, number, form):
        words = num2words(number, lang=self.converter, to=form).replace(",", "")
        if any(character.isdigit() for character in words):
            raise NotImplementedError(f"num2words does not spell the {form} {number}")
        return words

    def all_of(self, *items):
        return self._list("standard", items)

    def any_of(self, *items):
        return self._list("or", items)

    def _list(self, style, items):
        return format_list([self.render(item) for item in items], style, locale=self.locale)

    def label(self, item, of):
        return f"{self.render(item)}: {self.render(of)}"

    def then(self, first, second):
        return f"{self.render(first)}; {self.render(second)}"

    def dash(self, first, second):
        return f"{self.render(first)} – {self.render(second)}"

    def brackets(self, item, inner):
        return f"{self.render(item)} ({self.render(inner)})"


def _locale(name: str) -> Locale | None:
    if not re.fullmatch(r"[A-Za-z]+([-_][A-Za-z0-9]+)*", name):
        return None
    try:
        return Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        return None


def _converter(locale: Locale | None) -> str | None:
    """num2words' name of the locale: with its territory where num2words has that, else without."""
    if locale is None:
        return None
    candidates = (f"{locale.language}_{locale.territory}", locale.language)
    return next((name for name in candidates if name in CONVERTER_CLASSES), None)


def available_languages() -> list[str]:
    """The languages that both Babel and num2words know, sorted."""
    return sorted(name for name in CONVERTER_CLASSES if _converter(_locale(name)) == name)


class Grammar:
    """Draws items that all of the given languages can render, by the rules of the module.

    Args:
        languages: the sides of the corpus.

    Attributes:
        kinds: the kinds of items that these languages can all render.
        left_out: the other kinds, sorted.

    Raises:
        UsageError: if one of the few kinds that most lines are made of would be left out.
    """

    PROBES = 200
    NEEDED = frozenset("territory language full_date long_date measure money price".split())

    def __init__(self, languages: list[Language]) -> None:
        self.languages = languages
        territories = sorted(
            code
            for code in get_global("territory_languages")
            if len(code) == 2 and get_official_languages(code, de_facto=True)
        )
        spoken = {
            code
            for territory in territories
            for code in get_official_languages(territory, de_facto=True)
            if "_" not in code
        }
        names = self._distinct(
            [("territory", code) for code in territories]
            + [("language", code) for code in sorted(spoken)]
        )
        self.territories = [item for item in names if item[0] == "territory"]
        self.tongues = [item for item in names if item[0] == "language"]
        named = self._distinct([("money", 5, code) for code in CURRENCIES])
        signed = self._distinct([("price", 5, code) for code in CURRENCIES])
        self.currencies = {
            "money": [code for _, _, code in named],
            "price": [code for _, _, code in signed],
        }
        self.units = [unit for _, _, unit in self._distinct([("measure", 5, u) for u in UNITS])]

        kinds = (
            "territory language place full_date long_date month quarter days hours clock weekday "
            "moment weekday_moment relative price money measure percent cardinal ordinal choice"
        ).split()
        self.kinds = [kind for kind in kinds if self._usable(kind)]
        self.left_out = sorted(set(kinds) - set(self.kinds))
        missing = sorted(self.NEEDED & set(self.left_out))
        if missing:
            raise UsageError(
                f"--languages {','.join(language.name for language in languages)}: this Babel "
                f"({version('Babel')}) cannot tell apart items of kind {', '.join(missing)} in "
                "all of them; choose other languages"
            )
        frames = [
            (self.when_what, 24, ""),
            (self.when_where, 14, ""),
            (self.where_what, 16, ""),
            (self.two_facts, 12, ""),
            (self.when_where_what, 14, ""),
            (self.enumeration, 12, ""),
            (self.opening_hours, 5, "weekday hours"),
            (self.in_words, 8, "cardinal"),
        ]
        usable = [frame for frame in frames if set(frame[2].split()) <= set(self.kinds)]
        self.frames = [frame for frame, _, _ in usable]
        self.weights = [weight for _, weight, _ in usable]

    def _rendered(self, item: tuple) -> tuple[str, ...] | None:
        try:
            return tuple(language.render(item) for language in self.languages)
        # What a package raises for a form it lacks is not specified, and varies by language.
        except Exception:
            return None

    def _distinct(self, items: list[tuple]) -> list[tuple]:
        """Those of ``items`` that every language renders, each like no other of them."""
        texts = {item: self._rendered(item) for item in items}
        counts: dict[tuple[int, str], int] = {}
        for rendered in filter(None, texts.values()):
            for side in enumerate(rendered):
                counts[side] = counts.get(side, 0) + 1
        return [
            item
            for item, rendered in texts.items()
            if rendered and all(rendered) and all(counts[s] == 1 for s in enumerate(rendered))
        ]

    def _usable(self, kind: str) -> bool:
        """Whether every language renders items of ``kind``, and different items differently."""
        rng = random.Random(0)
        try:
            probes = list(dict.fromkeys(getattr(self, kind)(rng) for _ in range(self.PROBES)))
        except IndexError:  # drawn from a pool that these languages leave empty
            return False
        return len(self._distinct(probes)) == len(probes)

    # Kinds: each method draws one item.

    def territory(self, rng):
        return rng.choice(self.territories)

    def language(self, rng):
        return rng.choice(self.tongues)

    def place(self, rng):
        return ("brackets", self.language(rng), self.territory(rng))

    def _date(self, rng):
        return datetime.date.fromordinal(rng.randrange(FIRST_DAY, LAST_DAY + 1))

    def full_date(self, rng):
        return ("full_date", self._date(rng))

    def long_date(self, rng):
        return ("long_date", self._date(rng))

    def month(self, rng):
        return ("month", datetime.date(rng.randrange(1900, 2100), rng.randrange(1, 13), 1))

    def quarter(self, rng):
        return ("quarter", datetime.date(rng.randrange(1900, 2100), rng.randrange(1, 13, 3), 1))

    def days(self, rng):
        # The year is not shown. One that is not a leap year keeps 29 February out.
        start = datetime.date(2001, 1, 1) + datetime.timedelta(days=rng.randrange(330))
        return ("days", start, start + datetime.timedelta(days=rng.randrange(1, 31)))

    def _time(self, rng, first=0, last=24 * 12):
        minutes = 5 * rng.randrange(first, last)
        return datetime.time(minutes // 60, minutes % 60)

    def clock(self, rng):
        return ("clock", self._time(rng))

    def hours(self, rng):
        middle = rng.randrange(6 * 12, 22 * 12)
        return ("hours", self._time(rng, 5 * 12, middle), self._time(rng, middle, 23 * 12))

    def weekday(self, rng):
        return ("weekday", rng.randrange(7))

    def moment(self, rng):
        return ("at", self.long_date(rng), self.clock(rng))

    def weekday_moment(self, rng):
        return ("at", self.weekday(rng), self.clock(rng))

    def relative(self, rng):
        count = rng.randrange(1, 61)
        return ("relative", rng.choice((-count, count)), rng.choice(list(SECONDS)))

    def price(self, rng):
        currency = rng.choice(self.currencies["price"])
        amount = rng.randrange(1, rng.choice((100, 1000, 10000)))
        if get_currency_precision(currency) and rng.randrange(2):
            return ("price", amount + Decimal(rng.randrange(5, 100, 5)) / 100, currency)
        return ("price", amount, currency)

    def money(self, rng):
        amount = rng.randrange(1, rng.choice((100, 1000))) * rng.choice((1, 1, 1, 1000))
        return ("money", amount, rng.choice(self.currencies["money"]))

    def measure(self, rng):
        value = rng.randrange(1, rng.choice((100, 1000)))
        if rng.randrange(4) == 0:
            value += Decimal(rng.randrange(1, 10)) / 10
        return ("measure", value, rng.choice(self.units))

    def percent(self, rng):
        return ("percent", rng.randrange(1, 101))

    def cardinal(self, rng):
        return ("cardinal", rng.randrange(1, rng.choice((100, 1000, 10000))))

    def ordinal(self, rng):
        return ("ordinal", rng.randrange(1, rng.choice((100, 1000))))

    def choice(self, rng):
        return ("any_of", *self._several(rng, "territory", 2, 3))

    # Phrases: items of one of several kinds.

    def _several(self, rng, kind, fewest, most):
        """Between ``fewest`` and ``most`` items of ``kind``, no two alike in their last value."""
        count = rng.randrange(fewest, most + 1)
        items: dict = {}
        while len(items) < count:
            item = getattr(self, kind)(rng)
            items.setdefault(item[-1], item)
        return list(items.values())

    def _one_of(self, rng, kinds):
        """An item of one of those ``kinds`` that the languages have in common."""
        kind = rng.choice([kind for kind in kinds.split() if kind in self.kinds])
        return getattr(self, kind)(rng)

    def _enumerate(self, rng, kind, fewest, most):
        """Several items of ``kind`` in a list, by "and" or by "or"."""
        styles = ["all_of"] if kind not in ("cardinal", "ordinal") else []
        if "choice" in self.kinds:
            styles.append("any_of")
        if not styles:
            return getattr(self, kind)(rng)
        return (rng.choice(styles), *self._several(rng, kind, fewest, most))

    def when(self, rng):
        return self._one_of(
            rng,
            "full_date full_date long_date moment moment month quarter days relative relative "
            "weekday_moment clock",
        )

    def where(self, rng):
        drawn = rng.randrange(6)
        if drawn == 0:
            return self.place(rng)
        if drawn == 1:
            return self._enumerate(rng, "territory", 2, 3)
        return self.territory(rng)

    def what(self, rng):
        drawn = rng.randrange(10)
        if drawn < 3:
            return self._enumerate(rng, rng.choice(("measure", "money")), 2, 2)
        if drawn < 5:
            return self._enumerate(rng, "language", 2, 3)
        return self._one_of(
            rng, "language price money measure percent cardinal cardinal cardinal ordinal ordinal"
        )

    # Frames: each method draws the item of one line.

    def when_what(self, rng):
        return ("label", self.when(rng), self.what(rng))

    def when_where(self, rng):
        return ("label", self.when(rng), self.where(rng))

    def where_what(self, rng):
        return ("label", self.where(rng), self.what(rng))

    def two_facts(self, rng):
        first, second = self._several(rng, "territory", 2, 2)
        kinds = "language price money measure percent cardinal ordinal"
        fact, other = self._one_of(rng, kinds), self._one_of(rng, kinds)
        return ("then", ("label", first, fact), ("label", second, other))

    def when_where_what(self, rng):
        return ("label", self.when(rng), ("dash", self.territory(rng), self.what(rng)))

    def enumeration(self, rng):
        names = ("territory", "language", "weekday")
        others = ("place", "month", "clock", "relative", "cardinal", "ordinal", "percent")
        kind = rng.choice([kind for kind in names + others if kind in self.kinds])
        # Barely trained models lose count in longer lists of items of several tokens each, never
        # end the line, and a few such lines in the test set then decide its BLEU.
        return self._enumerate(rng, kind, *((3, 5) if kind in names else (2, 3)))

    def opening_hours(self, rng):
        days = sorted(self._several(rng, "weekday", 1, 3))
        listed = ("all_of", *days) if len(days) > 1 else days[0]
        hours = ("label", listed, self.hours(rng))
        return ("brackets", hours, self.territory(rng)) if rng.randrange(3) else hours

    def in_words(self, rng):
        """An amount and, in brackets, the same number in words, as on a cheque."""
        number = rng.randrange(2, rng.choice((100, 1000, 10000)))
        amount = rng.choice(
            [
                ("money", number, rng.choice(self.currencies["money"])),
                ("measure", number, rng.choice(self.units)),
            ]
        )
        item = ("brackets", amount, ("cardinal", number))
        return ("label", self.territory(rng), item) if rng.randrange(2) else item

    def line(self, rng):
        """One line's item, its frame drawn by weight."""
        return rng.choices(self.frames, self.weights)[0](rng)


def generate(
    languages: list[str] | tuple[str, ...],
    *,
    train: int = 20000,
    valid: int = 500,
    test: int = 1000,
    seed: int = 1,
) -> dict[str, list[tuple[str, ...]]]:
    """The corpus, line by line.

    It depends on the arguments and on the versions of Babel and num2words, on nothing else. The
    test and the validation split are drawn first, so with the same seed they stay as they are
    when only ``train`` changes.

    Args:
        languages: names of at least two languages, e.g. ``("en", "de")``.
        train: lines of the training split. Default: 20000.
        valid: lines of the validation split. Default: 500.
        test: lines of the test split. Default: 1000.
        seed: of the generator. Default: 1.

    Returns:
        For each of ``train``, ``valid`` and ``test``, a list of lines: one string per language,
        in the order of ``languages``, each of 3 to 25 words (languages written without spaces
        are not counted).

    Raises:
        UsageError: for a language that Babel or num2words lacks, for fewer than two languages,
            for one given twice, or for a split without lines.
    """
    return _generate(_grammar(languages), {"train": train, "valid": valid, "test": test}, seed)


def _grammar(languages) -> Grammar:
    sides = [Language(name) for name in languages]
    if len({str(side.locale) for side in sides}) < max(len(sides), 2):
        raise UsageError(
            f"--languages {','.join(languages)}: give at least two languages, each once"
        )
    return Grammar(sides)


def _generate(grammar, sizes, seed):
    for split, size in sizes.items():
        if size < 1:
            raise UsageError(f"--{split} must be at least 1, got {size}")
    rng = random.Random(seed)
    counted = [index for index, side in enumerate(grammar.languages) if side.has_spaces]
    seen: list[set[str]] = [set() for _ in grammar.languages]
    corpus = {}
    for split in ("test", "valid", "train"):
        lines: list[tuple[str, ...]] = []
        while len(lines) < sizes[split]:
            item = grammar.line(rng)
            line = tuple(side.render(item) for side in grammar.languages)
            if any(text in known for text, known in zip(line, seen)):
                continue
            if any(not MIN_WORDS <= len(line[i].split()) <= MAX_WORDS for i in counted):
                continue
            for text, known in zip(line, seen):
                known.add(text)
            lines.append(line)
        corpus[split] = lines
    return {split: corpus[split] for split in SPLITS}


def write_corpus(
    out: str | os.PathLike,
    languages: list[str] | tuple[str, ...] = ("en", "de"),
    *,
    train: int = 20000,
    valid: int = 500,
    test: int = 1000,
    seed: int = 1,
) -> bool:
    """Writes ``out/{train,valid,test}.LANGUAGE`` and the manifest ``out/embedded.json``.

    The manifest holds the options, the number of lines of each split, the kinds left out, the
    SHA-256 of each file, and the versions of Babel and num2words. It is written last: a run
    that was interrupted is completed by the next one.

    Args:
        out: the folder, made if it is missing.
        languages, train, valid, test, seed: as of :func:`generate`.

    Returns:
        False if the folder already held this very corpus, True if something was written.

    Raises:
        UsageError: as :func:`generate`; also if the folder holds a corpus of other options, or
            a file of a name needed here with other contents.
    """
    out = Path(out)
    sizes = {"train": train, "valid": valid, "test": test}
    options = {"languages": list(languages), **sizes, "seed": seed}
    manifest = _read_manifest(out / MANIFEST)
    if manifest is not None:
        if manifest["options"] != options:
            raise UsageError(
                f"--out {out} holds a corpus of other options ({_described(manifest['options'])}; "
                f"asked for {_described(options)}); choose another folder or remove this one"
            )
        if all(_digest(out / name) == digest for name, digest in manifest["sha256"].items()):
            return False

    grammar = _grammar(languages)
    corpus = _generate(grammar, sizes, seed)
    files = {
        f"{split}.{language}": "".join(f"{line[side]}\n" for line in lines)
        for split, lines in corpus.items()
        for side, language in enumerate(languages)
    }
    digests = {
        name: hashlib.sha256(text.encode("utf-8")).hexdigest() for name, text in files.items()
    }
    for name, digest in digests.items():
        if _digest(out / name) not in (None, digest):
            raise UsageError(
                f"{out / name} exists and differs from what these options, Babel "
                f"{version('Babel')} and num2words {version('num2words')} give; choose another "
                "--out or remove it"
            )
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        _write(out / name, text)
    manifest = {
        "options": options,
        "lines": {split: len(lines) for split, lines in corpus.items()},
        "kinds_left_out": grammar.left_out,
        "versions": {package: version(package) for package in ("Babel", "num2words")},
        "sha256": digests,
    }
    _write(out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    return True


def _described(options) -> str:
    return " ".join(
        f"{key} {','.join(value) if isinstance(value, list) else value}"
        for key, value in options.items()
    )


def _read_manifest(path: Path) -> dict | None:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["options"], manifest["sha256"].items()
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a manifest of this command; remove it") from error
    return manifest


def _digest(path: Path) -> str | None:
    """The SHA-256 of a file, None if there is no such file."""
    try:
        return sha256(path)
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.embedded",
        description="Write a parallel corpus made by Babel and num2words; nothing is downloaded.",
    )
    parser.add_argument("--out", required=True, help="folder to write {train,valid,test}.LANG in")
    parser.add_argument(
        "--languages", default="en,de", help="two or more, by commas (default: en,de)"
    )
    parser.add_argument("--train", type=int, default=20000, help="lines (default: 20000)")
    parser.add_argument("--valid", type=int, default=500, help="lines (default: 500)")
    parser.add_argument("--test", type=int, default=1000, help="lines (default: 1000)")
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    args = parser.parse_args(arguments)
    try:
        written = write_corpus(
            args.out,
            [name.strip() for name in args.languages.split(",")],
            train=args.train,
            valid=args.valid,
            test=args.test,
            seed=args.seed,
        )
    except OSError as error:
        raise UsageError(f"--out {args.out}: {error}") from error
    if written:
        print(f"{args.out}: wrote {args.train} + {args.valid} + {args.test} lines")
    else:
        print(f"{args.out}: already holds this corpus, nothing to do")


if __name__ == "__main__":
    main()
