"""Reading, checking, normalising and writing parallel text."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from fairseq.file_chunker_utils import Chunker
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.text import (
    check_file,
    check_parallel,
    drop_empty,
    normalise,
    normalise_pairs,
    read_lines,
    replacing,
    write_lines,
    write_pairs,
)
from residual_fairseq.errors import UsageError
from residual_fairseq.results import sha256

WILD = "\r\n \t\v\f\0\x01\x1b\x1c\x1d\x1e\x1f\x7f\x85\xa0\u2007\u2009\u2028\u2029\u202f\u3000\ufeff"
wild_text = st.lists(st.one_of(st.sampled_from(WILD), st.text(max_size=4))).map("".join)


def test_a_checked_file_is_counted_by_line_feeds_only(tmp_path):
    content = "one\rtwo\u2028three\x85four\r\nfive\n\nsix".encode()
    (tmp_path / "text").write_bytes(content)
    facts = check_file(tmp_path / "text")
    assert facts.lines == 4
    assert facts.sha256 == hashlib.sha256(content).hexdigest() == sha256(tmp_path / "text")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"valid\.de: No such file"):
        check_file(tmp_path / "valid.de")


def test_a_folder_is_not_a_text(tmp_path):
    with pytest.raises(UsageError, match="Is a directory"):
        check_file(tmp_path)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "text").touch()
    with pytest.raises(UsageError, match="text: the file is empty"):
        check_file(tmp_path / "text")


@pytest.mark.parametrize("bad", [b"Stra\xdfe", b"cut \xe2\x82", b"\xed\xa0\x80"])
def test_invalid_utf8_is_reported_with_its_line(tmp_path, bad):
    (tmp_path / "text").write_bytes("fine\rfine\u2028\n".encode() + bad + b"\nfine\n")
    with pytest.raises(UsageError, match="text, line 2: not valid UTF-8"):
        check_file(tmp_path / "text")


def test_unequal_line_counts_are_reported_with_both_counts(tmp_path):
    (tmp_path / "train.en").write_text("a\nb\n")
    (tmp_path / "train.de").write_text("a\nb\nc\n")
    with pytest.raises(UsageError, match=r"train\.en has 2 lines and .*train\.de has 3"):
        check_parallel(tmp_path / "train.en", tmp_path / "train.de")


def test_a_missing_last_line_feed_does_not_change_the_count(tmp_path):
    (tmp_path / "train.en").write_text("a\nb")
    (tmp_path / "train.de").write_text("a\nb\n")
    source, target = check_parallel(tmp_path / "train.en", tmp_path / "train.de")
    assert source.lines == target.lines == 2
    assert list(read_lines(tmp_path / "train.en")) == list(read_lines(tmp_path / "train.de"))


def test_lines_are_read_as_they_are(tmp_path):
    (tmp_path / "text").write_bytes("\ufeffa\r\n\nb\u2028c \x85\n".encode())
    assert list(read_lines(tmp_path / "text")) == ["\ufeffa\r", "", "b\u2028c \x85"]


def test_written_lines_are_read_back(tmp_path):
    lines = ["", "a\rb", "c\u2028d", ""]
    assert write_lines(tmp_path / "text", lines) == 4
    assert list(read_lines(tmp_path / "text")) == lines


def test_a_failed_write_leaves_what_was_there(tmp_path):
    write_lines(tmp_path / "text", ["old"])
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "text") as file:
        file.write("new")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["text"]
    assert (tmp_path / "text").read_text() == "old\n"


@pytest.mark.parametrize(
    ("line", "expected", "reasons"),
    [
        ("Ein Satz.", "Ein Satz.", []),
        ("CRLF\r", "CRLF", ["carriage return"]),
        ("a\rb\rc", "a b c", ["carriage return"]),
        ("a\x85b\u2028c\u2029d\ve\ff\x1cg", "a b c d e f g", ["line separator"]),
        ("a\tb", "a b", ["tab"]),
        ("a\0b\x1bc\x7fd", "a b c d", ["control character"]),
        ("3\xa0%, 5\u202f€", "3 %, 5 €", ["no-break space"]),
        ("a\u2009b\u3000c", "a b c", ["other white space"]),
        ("\ufeffa", "a", ["byte order mark"]),
        ("a\xa0\ufeffb", "a b", ["byte order mark", "no-break space"]),
        ("  a   b ", "a b", ["extra spaces"]),
        ("a \t b", "a b", ["tab"]),
        (" \xa0\r", "", ["carriage return", "extra spaces", "no-break space"]),
        ("cafe\u0301 a\u200bb", "cafe\u0301 a\u200bb", []),
    ],
)
def test_normalised_lines_and_reasons(line, expected, reasons):
    counts: Counter[str] = Counter()
    assert normalise(line, counts) == expected
    assert counts == dict.fromkeys(reasons, 1)


@settings(deadline=None)
@given(wild_text)
def test_normalising_removes_nothing_but_separators(line):
    def visible(text):
        return "".join(c for c in text if c not in WILD and not c.isspace() and c >= " ")

    normal = normalise(line)
    assert visible(normal) == visible(line)
    assert normalise(normal) == normal
    assert normal.split() == [word for word in normal.split(" ") if word]


@settings(max_examples=50, deadline=None)
@given(st.lists(wild_text, min_size=1, max_size=8))
def test_all_tools_see_the_same_lines_after_normalising(lines):
    normal = [normalise(line) for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        write_lines(path, normal)
        content = path.read_bytes().decode()
        with Chunker(str(path), 0, path.stat().st_size) as chunk:
            seen_by_fairseq = [line.rstrip("\n") for line in chunk]
        assert check_file(path).lines == len(lines)
    assert content.split("\n") == [*normal, ""]
    assert content.splitlines() == normal
    assert seen_by_fairseq == normal


def test_pairs_stay_pairs_whatever_is_in_them(tmp_path):
    source = ["a\rb", "", "c\u2028", "\xa0", "d"]
    target = ["A\x85B", "E", "C", "\t", "\ufeff"]
    counts, dropped = (Counter(), Counter()), Counter()
    pairs = drop_empty(normalise_pairs(source, target, counts), dropped)
    assert write_pairs(tmp_path / "en", tmp_path / "de", pairs) == 2
    assert list(read_lines(tmp_path / "en")) == ["a b", "c"]
    assert list(read_lines(tmp_path / "de")) == ["A B", "C"]
    assert dropped == {"source empty": 1, "both empty": 1, "target empty": 1}
    assert counts[0] == {"carriage return": 1, "line separator": 1, "no-break space": 1}
    assert counts[1] == {"line separator": 1, "tab": 1, "byte order mark": 1}
