"""From WIT3's archive to plain text."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from archives_made import IWSLT14_TESTS, iwslt14_files, tar, unpack, wit3_files, zip_archive
from web_server import Page, serve

from data_prep import iwslt14
from data_prep.archives import Archive
from data_prep.fetch import facts, fetch
from data_prep.iwslt14 import PUBLISHED, SOURCES, counted, extract, inputs
from data_prep.published import compare
from data_prep.text import check_parallel, normalise, read_lines
from residual_fairseq.errors import UsageError
from residual_fairseq.results import sha256

SHA256 = {
    "train.de": "21df6c5f8d4df6495a7f70bcd5f71930206cfc4e6d635a8e7407b1d41b07e933",
    "train.en": "28e7a7ac2faaec5b70776ac74615541626d44a4c51f2d0a81938c04e73427fe9",
    "test.de": "048bd79fd159c7f39e8c4faa40e7d4ffe2acd5edbae523bd638cec95c76b7e56",
    "test.en": "6c50dec3362f6d445fc5bd69539385d942143d912499000da04baca157283d2a",
    "test.raw.de": "5bd419adc9e2f54441109e4b359aa418bd49b0611ba90836e335b82720af2901",
    "test.raw.en": "483e407f8b59d2a41be0e52f11631621f2721c6dc8f1a0886cade7d06a1aac6a",
}
COUNTS = {
    "pairs": {
        "train": 84,
        "dev2010": 5,
        "dev2012": 4,
        "tst2010": 6,
        "tst2011": 3,
        "tst2012": 7,
        "test": 25,
    },
    "dropped": {lang: {"<keywords>": 3, "<talkid>": 3, "<url>": 3} for lang in ("de", "en")},
    "credits": {
        lang: {"<reviewer>": 1, "<speaker>": 3, "<translator>": 1} for lang in ("de", "en")
    },
    "shifted": {},
    "entities": {"de": 5, "en": 5},
    "apostrophes": {"de": 5, "en": 5},
}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def written(folder, content, name="de-en.tgz"):
    (folder / name).write_bytes(content)
    return folder / name


def sums(folder):
    return {name: sha256(folder / name) for name in os.listdir(folder)}


FORMS = {
    "tgz": lambda folder, files: written(folder, tar(files)),
    "zip": lambda folder, files: written(folder, zip_archive(files), "iwslt.zip"),
    "wit3": lambda folder, files: written(folder, tar(wit3_files(files)), "2014-01.tgz"),
    "unpacked": lambda folder, files: unpack(files, folder / "orig"),
    "folder with tgz": lambda folder, files: written(folder, tar(files)).parent,
    "unpacked wit3": lambda folder, files: unpack(wit3_files(files), folder / "wit3"),
}


@pytest.mark.parametrize("form", FORMS)
def test_counts_and_bytes_are_the_same_from_every_form_of_the_archive(tmp_path, out, form):
    path = FORMS[form](tmp_path, iwslt14_files())
    assert extract([path], out) == COUNTS
    assert sums(out) == SHA256
    assert extract([path], out) == COUNTS
    assert sums(out) == SHA256


def test_the_archive_is_downloaded_and_read(tmp_path, out, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    pages = {"new/2014-01.tgz": Page(tar(wit3_files(iwslt14_files())), cuts=[1_000])}
    with serve(pages) as server:
        source = SOURCES[0]._replace(
            addresses=(server.address("old/de-en.tgz"),),
            otherwise=SOURCES[0].otherwise._replace(addresses=(server.address("new/2014-01.tgz"),)),
        )
        path = fetch(source, tmp_path / "download")
    assert extract([path], out) == COUNTS
    assert sums(out) == SHA256
    assert inputs([path]) == {"2014-01.tgz": facts(path)}


def test_an_address_that_is_known_to_be_dead_is_the_last():
    source, places = SOURCES[0], []
    while source:
        places += source.addresses
        source = source.otherwise
    dead = [place for place in places if "wit3.fbk.eu" in place]
    assert len(places) == 4 and places[-1:] == dead


def shell(command, path):
    """What a shell command makes of a file."""
    return subprocess.run(
        ["bash", "-c", command, "bash", path],
        check=True,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    ).stdout.decode()


def test_the_text_is_that_of_grep_and_sed(tmp_path, out):
    """fairseq's script says it in these; -a as GNU grep takes a NUL for a sign of no text."""
    folder = unpack(iwslt14_files(), tmp_path) / "de-en"
    extract([folder], out)
    for lang in ("de", "en"):
        train = shell(
            "grep -av '<url>' \"$1\" | grep -av '<talkid>' | grep -av '<keywords>' | "
            "sed -e 's/<title>//g; s/<\\/title>//g; s/<description>//g; s/<\\/description>//g'",
            folder / f"train.tags.de-en.{lang}",
        )
        assert list(read_lines(out / f"train.{lang}")) == train.split("\n")[:-1]
        test = "".join(
            shell(
                "grep -a '<seg id' \"$1\" | sed -e 's/<seg id=\"[0-9]*\">\\s*//g' "
                "-e 's/\\s*<\\/seg>\\s*//g' -e \"s/\u2019/'/g\"",
                folder / f"IWSLT14.{name}.de-en.{lang}.xml",
            )
            for name in IWSLT14_TESTS
        )
        ours = map(normalise, read_lines(out / f"test.{lang}"))
        assert list(ours) == list(map(normalise, test.split("\n")[:-1]))


def test_the_lines_that_tools_split_stay_pairs(tmp_path, out):
    extract([written(tmp_path, tar(iwslt14_files()))], out)
    source, target = check_parallel(out / "train.de", out / "train.en")
    assert source.lines == target.lines == 84
    assert check_parallel(out / "test.raw.de", out / "test.raw.en")[0].lines == 25
    assert len((out / "test.raw.de").read_bytes().decode().splitlines()) == 25
    english = list(read_lines(out / "train.en"))
    for number, line in enumerate(read_lines(out / "train.de")):
        assert ("seltsam" in line) == ("odd" in english[number])


def test_raw_references_are_what_was_said(tmp_path, out):
    extract([written(tmp_path, tar(iwslt14_files()))], out)
    for name, lang, line in (
        ("test", "en", "R&amp;D isn't &quot;all&quot;."),
        ("test.raw", "en", 'R&D isn\u2019t "all".'),
        ("test", "de", "F&amp;E ist's &lt;nicht&gt;."),
        ("test.raw", "de", "F&E ist\u2019s <nicht>."),
    ):
        assert list(read_lines(out / f"{name}.{lang}"))[1] == line
    assert list(read_lines(out / "test.raw.de"))[20:22] == ["", "selt sam"]


def test_entities_can_be_resolved_for_the_model_too(tmp_path, out):
    counts = extract([written(tmp_path, tar(iwslt14_files()))], out, keep_entities=False)
    assert list(read_lines(out / "test.en"))[1] == 'R&D isn\'t "all".'
    assert counts == COUNTS
    assert {name for name, digest in sums(out).items() if digest != SHA256[name]} == {
        "test.de",
        "test.en",
    }


def test_credits_can_be_left_out(tmp_path, out):
    counts = extract([written(tmp_path, tar(iwslt14_files()))], out, keep_credits=False)
    assert counts["pairs"]["train"] == 84 - 5
    assert counts["credits"] == {"de": {}, "en": {}}
    assert counts["dropped"]["de"] == {
        **COUNTS["dropped"]["de"],
        **COUNTS["credits"]["de"],
    }
    assert not re.search("Speaker|Reviewer", (out / "train.en").read_text())


def test_an_english_side_that_is_longer_is_refused(tmp_path, out):
    files = iwslt14_files()
    files["de-en/train.tags.de-en.en"] += b"one more\nand another\n"
    path = written(tmp_path, tar(files))
    with pytest.raises(UsageError) as error:
        extract([path], out)
    assert f"{path}: de-en/train.tags.de-en.de has 84 lines and " in str(error.value)
    assert f"{path}: de-en/train.tags.de-en.en has 86:" in str(error.value)
    assert os.listdir(out) == []


def test_credits_on_one_side_only_are_unequal_sides(tmp_path, out):
    files = iwslt14_files()
    files["de-en/train.tags.de-en.en"] += b'<translator href="http://y">T. 2</translator>\n'
    path = written(tmp_path, tar(files))
    with pytest.raises(UsageError, match="has 84 lines and .* has 85:"):
        extract([path], out)
    assert extract([path], out, keep_credits=False)["pairs"]["train"] == 79


def test_sides_that_are_shifted_against_each_other_are_reported(tmp_path, out, capsys):
    files = iwslt14_files()
    english = files["de-en/train.tags.de-en.en"]
    files["de-en/train.tags.de-en.en"] = english.replace(b"<title>Talk 1", b"more\n<title>Talk 1")
    files["de-en/train.tags.de-en.de"] += b"one more\n"
    counts = extract([written(tmp_path, tar(files))], out)
    assert counts["pairs"]["train"] == 85
    assert counts["shifted"] == {"<description>": 4, "<title>": 4}
    assert "WARNING" in capsys.readouterr().err


def test_nothing_is_said_where_all_is_well(tmp_path, out, capsys):
    extract([written(tmp_path, tar(iwslt14_files()))], out)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("lang", ["de", "en"])
def test_a_cut_test_set_is_refused(tmp_path, out, lang):
    files = iwslt14_files()
    name = f"de-en/IWSLT14.TED.tst2010.de-en.{lang}.xml"
    files[name] = files[name][: files[name].index(b'<seg id="4">')]
    with pytest.raises(UsageError, match="has [56] segments and .* has [56]; is the archive whole"):
        extract([written(tmp_path, tar(files))], out)


@pytest.mark.parametrize("name", ["train.tags.de-en.en", "IWSLT14.TEDX.dev2012.de-en.de.xml"])
def test_a_missing_file_is_named(tmp_path, out, name):
    files = iwslt14_files()
    del files[f"de-en/{name}"]
    with pytest.raises(UsageError, match=f"de-en.tgz: has no file {name}; it holds README, "):
        extract([written(tmp_path, tar(files))], out)


def test_another_language_pair_is_no_substitute(tmp_path, out):
    with pytest.raises(UsageError, match="has no file train.tags.de-en.de; it holds train.tags.fr"):
        extract([written(tmp_path, tar({"fr-en/train.tags.fr-en.en": b"x\n"}))], out)


def test_another_year_beside_it_is_refused(tmp_path, out):
    unpack(iwslt14_files(), tmp_path / "2014")
    unpack({"train.tags.de-en.de": b"other\n"}, tmp_path / "2017")
    with pytest.raises(UsageError, match="train.tags.de-en.de is not the same in .*2014.*2017"):
        extract([tmp_path], out)


def test_invalid_utf8_is_named(tmp_path, out):
    files = iwslt14_files()
    files["de-en/train.tags.de-en.de"] += b"Stra\xdfe\n"
    with pytest.raises(UsageError, match="train.tags.de-en.de, line 94: not valid UTF-8"):
        extract([written(tmp_path, tar(files))], out)
    assert os.listdir(out) == []


def test_inputs_are_known_without_extracting(tmp_path):
    path = written(tmp_path, tar(iwslt14_files()))
    assert inputs([path]) == {"de-en.tgz": facts(path)}
    folder = unpack(iwslt14_files(), tmp_path / "orig")
    assert len(inputs([folder])) == 12
    assert inputs([folder])["de-en/train.tags.de-en.de"] == facts(
        folder / "de-en/train.tags.de-en.de"
    )


def test_published_counts_agree_with_each_other():
    parts = [PUBLISHED[name.split(".")[1]].count for name in iwslt14.TEST_SETS]
    assert sum(parts) == PUBLISHED["test"].count
    cleaned = PUBLISHED["train cleaned"].count
    assert PUBLISHED["valid"].count == cleaned // 23
    assert PUBLISHED["train without valid"].count == cleaned - cleaned // 23


@pytest.mark.parametrize(("joined", "published"), [(True, 131_156), (False, 131_161)])
def test_tokens_of_the_reference_are_compared(joined, published):
    facts = {"units": 1, "sentences": 1, "tokens": 131_156}
    splits = {split: {"de": facts, "en": facts} for split in ("train", "valid", "test")}
    record = {
        "options": {"joined_dictionary": joined, "tests": ["test"]},
        "counts": {
            "extract": {"pairs": {}},
            "drop": {"train": {"pairs": 0}},
            "split": {"train": {"pairs": 0}, "valid": {"pairs": 0}},
            "binarise": {**splits, "dictionaries": {}},
        },
    }
    (line,) = [line for line in compare(counted(record), PUBLISHED) if "tokens" in line]
    assert f"{published}" in line and line.startswith("WARNING") == (not joined)


def test_a_small_archive_is_not_taken_for_the_published_one(tmp_path, out):
    lines = compare(extract([written(tmp_path, tar(iwslt14_files()))], out)["pairs"], PUBLISHED)
    assert len(lines) == 7
    assert all(line.startswith("WARNING") for line in lines)


def test_the_made_archive_has_the_traps_of_the_real_one(tmp_path):
    archive = Archive([written(tmp_path, tar(iwslt14_files()))])
    text = b"\n".join(archive.lines("train.tags.de-en.de"))
    assert b"\r\n" in text
    assert archive.holds("train.en")
    assert sum(1 for _ in archive.lines("train.en")) > 84
