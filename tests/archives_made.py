"""Small archives in the layout of the real ones, with their file names and their quirks.

Their text is simple enough to be learned, so whole chains can be run on them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from data_prep.embedded import generate

NOUNS = (("dog", "Hund"), ("tree", "Baum"), ("cook", "Koch"), ("day", "Tag"), ("table", "Tisch"))
VERBS = (("sees", "sieht"), ("buys", "kauft"), ("has", "hat"), ("knows", "kennt"))

#: What line-based tools disagree about; each is inside of one line.
ODD_CHARACTERS = "\u2028\x85\0\t\xa0\u2029\x0b\x0c\x1c\r"


def sentences(count: int, first: int = 0) -> Iterator[tuple[str, str]]:
    """Yield English-German pairs; the same numbers give the same pairs."""
    for number in range(first, first + count):
        noun, verb = NOUNS[number % 5], VERBS[number % 4]
        thing = NOUNS[(number * 3 + 1) % 5]
        yield (
            f"The {noun[0]} {verb[0]} the {thing[0]} {number}.",
            f"Der {noun[1]} {verb[1]} den {thing[1]} {number}.",
        )


def odd_pairs() -> list[tuple[str, str]]:
    """A pair for each odd character: in the English side, in the German side, at its end."""
    pairs = [(f"odd{char}one", f"seltsam{char}") for char in ODD_CHARACTERS]
    return [*pairs, ("\ufeffBOM", "kein BOM"), ("", "nur deutsch"), ("only English", "")]


def compress(content: bytes, compression: str) -> bytes:
    if compression == "gz":
        return gzip.compress(content, mtime=0)
    return bz2.compress(content) if compression == "bz2" else content


def tar(files: Mapping[str, bytes], compression: str = "gz") -> bytes:
    """A tar archive, always with the same bytes.

    Args:
        compression: "gz", "bz2" or "".
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return compress(buffer.getvalue(), compression)


def zip_archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def unpack(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def flat(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same files without folders."""
    return {name.rpartition("/")[2]: content for name, content in files.items()}


def text(lines: list[str], end: str = "\n") -> bytes:
    return "".join(line + end for line in lines).encode()


# IWSLT'14

IWSLT14_TESTS = {
    "TED.dev2010": 5,
    "TEDX.dev2012": 4,
    "TED.tst2010": 6,
    "TED.tst2011": 3,
    "TED.tst2012": 7,
}


def iwslt14_files(talks: int = 3, lines: int = 20) -> dict[str, bytes]:
    """What is in WIT3's de-en.tgz.

    Args:
        talks: number of talks in the training text.
        lines: number of lines in each; the first talk has the odd ones besides.
    """
    sides: list[list[str]] = [[], []]
    for talk in range(talks):
        pairs = list(sentences(lines, talk * lines)) + (odd_pairs() if talk == 0 else [])
        for side, lang in enumerate(("en", "de")):
            sides[side] += [
                f"<url>http://www.ted.com/talks/lang/{lang}/talk_{talk}.html</url>",
                "<keywords>talks, TEDx, culture</keywords>",
                f"<speaker>Speaker {talk}</speaker>",
                f"<talkid>{talk}</talkid>",
                f"<title>{('Talk', 'Vortrag')[side]} {talk}</title>",
                f"<description>{('About', 'Über')[side]} R&D {talk}.</description>",
                *(f" {pair[side]} " for pair in pairs),
                *([f'<reviewer href="http://x">Reviewer {lang}</reviewer>'] if talk == 1 else []),
                *([f'<translator href="http://x">T. {lang}</translator>'] if talk == 1 else []),
            ]
    files = {
        "de-en/README": b"WIT3, release 2014-01\n",
        # Monolingual, and longer than the parallel text.
        "de-en/train.en": text([en for en, _ in sentences(3 * talks * lines)]),
        "de-en/._train.tags.de-en.de": b"\0\5\26\7 what macOS leaves",
        "de-en/train.tags.de-en.en": text(sides[0]),
        # As if saved on Windows.
        "de-en/train.tags.de-en.de": text(sides[1], "\r\n"),
    }
    for number, (name, count) in enumerate(IWSLT14_TESTS.items()):
        pairs = list(sentences(count, 10_000 + 100 * number))
        pairs[1] = "R&amp;D isn\u2019t &quot;all&quot;.", "F&amp;E ist\u2019s &lt;nicht&gt;."
        if name == "TED.tst2012":
            pairs[2] = "", ""
            pairs[3] = "odd\u2028\x85\xa0one", "selt\tsam\r"
        for side, lang in enumerate(("en", "de")):
            segments = [pair[side] for pair in pairs]
            files[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = iwslt14_xml(segments, name, lang)
    return files


def iwslt14_xml(segments: list[str], name: str, lang: str) -> bytes:
    """A test set of two talks."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<mteval>"]
    lines.append(f'<srcset setid="IWSLT14.{name}" srclang="{lang}">')
    for talk, part in enumerate((segments[:2], segments[2:])):
        lines += [
            f'<doc docid="{talk + 700}" genre="lectures">',
            f"<url>http://www.ted.com/talks/{talk}.html</url>",
            "<keywords>talks</keywords>",
            f"<speaker>Speaker {talk}</speaker>",
            f"<talkid>{talk + 700}</talkid>",
            f"<title>Title {talk}</title>",
            f"<description>Description {talk}</description>",
            *(f'<seg id="{number}"> {part} </seg>' for number, part in enumerate(part, 1)),
            "</doc>",
        ]
    return text([*lines, "</srcset>", "</mteval>"])


def wit3_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """What is in WIT3's 2014-01.tgz: archives by language pair."""
    other = {"fr-en/train.tags.fr-en.en": b"other\n", "fr-en/train.en": b"other\n"}
    return {
        "2014-01/texts/fr/en/fr-en.tgz": tar(other),
        "2014-01/texts/de/en/de-en.tgz": tar(files),
        "2014-01/texts/de/en/._de-en.tgz": b"\0\5\26\7",
    }


# WMT'16 in units


def in_units(line: str) -> str:
    """A tokenised sentence with long words split in two, as BPE would."""
    words = line.replace(".", " .").split(" ")
    return " ".join(f"{word[:3]}@@ {word[3:]}" if len(word) > 3 else word for word in words)


def wmt_en_de_files(pairs: int = 60, test_pairs: int = 4) -> dict[str, bytes]:
    """What is in Google's wmt16_en_de.tar.gz.

    Args:
        pairs: number of training pairs.
        test_pairs: number of pairs in each test set.
    """
    files = {
        "bpe.32000": b"#version: 0.2\nH u\nHu n\nd o\nt h\n",
        "vocab.bpe.32000": b"the\nder\n",
    }
    for side, lang in enumerate(("en", "de")):
        train = [in_units(pair[side]) for pair in sentences(pairs)]
        train[1] += " odd\u2028\x85\x1cunit"
        files[f"train.tok.clean.bpe.32000.{lang}"] = text(train)
        for year in range(2009, 2017):
            raw = [pair[side] for pair in sentences(test_pairs, year * 100)]
            raw[0] = raw[0].replace(".", "\xa0&quot;\u2028.")
            files[f"newstest{year}.{lang}"] = text(raw)
            files[f"newstest{year}.tok.{lang}"] = text([line.replace(".", " .") for line in raw])
            files[f"newstest{year}.tok.bpe.32000.{lang}"] = text(list(map(in_units, raw)))
    return files


# WMT'14 from its corpora


def sgm(segments: list[str], role: str, lang: str, prefix: str = "newstest") -> bytes:
    """A test set of two documents.

    Args:
        role: "src" or "ref".
    """
    lines = [f'<{role}set setid="{prefix}" srclang="any" trglang="{lang}">']
    for document, part in enumerate((segments[:2], segments[2:])):
        lines += [
            f'<doc docid="paper.{document}" genre="news" origlang="{lang}">',
            "<hl>",
            f'<seg id="1">{part[0]}</seg>',
            "</hl>",
            "<p>",
            *(f'<seg id="{number}">{line}</seg>' for number, line in enumerate(part[1:], 2)),
            "</p>",
            "</doc>",
        ]
    return text([*lines, f"</{role}set>"])


def wmt14_en_de_archives(pairs: int = 30, test_pairs: int = 5) -> dict[str, bytes]:
    """The archives of statmt.org by name.

    Args:
        pairs: number of training pairs in each corpus.
        test_pairs: number of pairs in newstest2013 and newstest2014.
    """
    corpora = {}
    for number, (folder, corpus) in enumerate(
        (
            ("training/", "europarl-v7"),
            ("", "commoncrawl"),
            ("training/", "news-commentary-v9"),
            ("training/", "news-commentary-v12"),
        )
    ):
        content = list(sentences(pairs, number * 1_000))
        content[1] = "It \u2013 \u201c1\xa0000\u201d \u2026", "Es \u201e1\xa0000.\u201c"
        content[2] = "The soft\xadhyphen \u200b.", 'Er sagte: "Nein."'
        if corpus == "europarl-v7":
            content += odd_pairs()
        corpora[corpus] = {
            f"{folder}{corpus}.de-en.de": text([de for _, de in content]),
            f"{folder}{corpus}.de-en.en": text([en for en, _ in content]),
            f"{folder}{corpus}.fr-en.en": b"of another pair\n",
        }
    corpora["commoncrawl"]["commoncrawl.de-en.annotation"] = b"http://x\n"
    valid, test = (list(sentences(test_pairs, year)) for year in (20_130, 20_140))
    test[1] = (
        "R&amp;D isn\u2019t bare & \xa0&quot;odd&quot;\u2028.",
        "F&amp;E ist\u2019s \u201eso\u201c.",
    )
    dev = {}
    for side, lang in enumerate(("en", "de")):
        dev[f"dev/newstest2013.{lang}"] = text([pair[side] for pair in valid])
        role = ("src", "ref")[side]
        dev[f"dev/newstest2013-{role}.{lang}.sgm"] = sgm([p[side] for p in valid], role, lang)
        # A part of what is in test-full.tgz under the same name.
        dev[f"dev/newstest2014-deen-{role}.{lang}.sgm"] = sgm(
            [pair[side] for pair in test[:3]], role, lang
        )
    full = {
        "test-full/newstest2014-deen-src.en.sgm": sgm([en for en, _ in test], "src", "en"),
        "test-full/newstest2014-deen-ref.de.sgm": sgm([de for _, de in test], "ref", "de"),
        "test-full/newstest2014-deen-src.de.sgm": sgm([de for _, de in test], "src", "de"),
        "test-full/newstest2014-deen-ref.en.sgm": sgm([en for en, _ in test], "ref", "en"),
    }
    return {
        "training-parallel-europarl-v7.tgz": tar(corpora["europarl-v7"]),
        "training-parallel-commoncrawl.tgz": tar(corpora["commoncrawl"]),
        "training-parallel-nc-v9.tgz": tar(corpora["news-commentary-v9"]),
        "training-parallel-nc-v12.tgz": tar(corpora["news-commentary-v12"]),
        "dev.tgz": tar(dev),
        "test-full.tgz": tar(full),
    }


# OPUS-100


def opus100_archives(lines: int = 150) -> dict[str, bytes]:
    """Archives of a pair of either order, of one without test set, and of the zero-shot sets.

    The text is what Babel and num2words make, in the languages of the pairs; they have nothing
    for Aragonese, which gets Spanish.
    """
    languages = {"an": "es", "de": "de", "en": "en", "fr": "fr"}
    corpus = generate(tuple(languages.values()), train=lines, valid=8, test=12, seed=5)
    sides = {
        lang: {split: [row[i] for row in rows] for split, rows in corpus.items()}
        for i, lang in enumerate(languages)
    }
    folder = "opus-100-corpus/v1.0"
    archives = {}
    for pair in ("de-en", "en-fr", "an-en"):
        files = {}
        for lang in pair.split("-"):
            for ours, split in (("train", "train"), ("valid", "dev"), ("test", "test")):
                if split == "train" or pair != "an-en":
                    name = f"{folder}/supervised/{pair}/opus.{pair}-{split}.{lang}"
                    files[name] = text(sides[lang][ours])
        archives[f"opus-100-corpus-{pair}-v1.0.tar.gz"] = tar(files)
    files = {
        f"{folder}/zero-shot/de-fr/opus.de-fr-test.{lang}": text(sides[lang]["test"])
        for lang in ("de", "fr")
    }
    archives["opus-100-corpus-zeroshot-v1.0.tar.gz"] = tar(files)
    return archives


# Multi30k


def multi30k_files(lines: int = 30) -> dict[str, bytes]:
    """The files of task 1, raw, German and English, with odd characters in the training text."""
    files = {}
    for number, split in enumerate(
        ("train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
    ):
        pairs = list(sentences(lines if split == "train" else 4, number * 1_000))
        pairs[1] = "It \u2013 \u201c1\xa0000\u201d \u2026", "Es \u201e1\xa0000.\u201c"
        if split == "train":
            pairs += odd_pairs()
        for side, lang in enumerate(("en", "de")):
            files[f"{split}.{lang}.gz"] = compress(text([pair[side] for pair in pairs]), "gz")
    return files


# Home Assistant


def home_assistant_wheel(components: int = 60) -> bytes:
    """A wheel that pip accepts, of components with a few texts each; some are in all of them."""
    files = {"homeassistant/const.py": b""}
    for number in range(components):
        pairs = list(sentences(3, number * 10))
        for side, lang in enumerate(("en", "de")):
            texts = {
                "title": ("Made", "Gemacht")[side],
                "error": ("It does not work here", "Es geht hier nicht")[side],
                "more": {f"key{i}": pair[side] for i, pair in enumerate(pairs)},
                "lines": f"{('One', 'Eine')[side]} line {number}\nand\u2028two {number}\r\n",
            }
            name = f"homeassistant/components/made{number}/translations/{lang}.json"
            files[name] = json.dumps(texts).encode()
    folder = "homeassistant-2026.11.0.dist-info"
    files[f"{folder}/METADATA"] = (
        b"Metadata-Version: 2.1\nName: homeassistant\nVersion: 2026.11.0\nRequires-Python: >=3.99\n"
    )
    files[f"{folder}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{folder}/RECORD"] = b""
    return zip_archive(files)
