"""The chain from plain parallel text to a data-bin."""

from __future__ import annotations

import errno
import io
import json
import os
import random
import subprocess
import sys
from collections import Counter

import pytest
from conftest import ROOT
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from full_disk import fill_disk, needs_dev_full
from hypothesis import given, settings
from hypothesis import strategies as st
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import get_vocabulary

from data_prep import pipeline, steps, text
from data_prep.bilingual import main
from data_prep.bpe import (
    Segments,
    apply_codes,
    learn_codes,
    read_codes,
    remove_codes,
    write_vocabulary,
)
from data_prep.databin import check_databin
from data_prep.options import Options
from data_prep.pipeline import prepare, read_folder
from data_prep.text import SPLITS, normalise, read_lines, write_lines
from data_prep.tokens import detokenize, tokenize
from residual_fairseq.errors import UsageError
from residual_fairseq.results import sha256
from residual_fairseq.scoring import bleu_tokenizer

ENGLISH = [
    'Tom\'s dog said: "Hello, Mr. Smith!"',
    "It costs $1,234.56, or 20% of the well-known amount (really).",
    "They don't know the students' books...",
    "12-14 people at 5 p.m. on 3 March?",
    "Two up-to-date, first-class tickets; no more.",
]
GERMAN = [
    "Er sagte: „Hallo, Herr Müller!“",
    "Das kostet [ungefähr] 1.234,56 €.",
    "Das ist z. B. ein E-Mail-Konto, bzw. ein US-Dollar-Konto.",
    "Am Montag, dem 5. März 2021, um 3 Uhr (früh).",
    '"Guten Tag", sagte der 20-jährige Größenwahnsinnige.',
]
NOUNS = {"dog": "Hund", "tree": "Baum", "cook": "Koch", "boat-house": "Boot-Haus", "day": "Tag"}
VERBS = {"sees": "sieht", "doesn't know": "kennt", "buys": "kauft", "has": "hat"}


def write_corpus(folder, train=60, valid=7, test=9):
    """A corpus of simple sentences, with some of what real files have in them."""
    folder.mkdir(exist_ok=True)
    rng = random.Random(1)
    for split, size in (("train", train), ("valid", valid), ("test", test)):
        english, german = [], []
        for number in range(size):
            subject, verb = rng.choice(list(NOUNS)), rng.choice(list(VERBS))
            english.append(f"The {subject} {verb} {number} (or more)!")
            german.append(f"Der {NOUNS[subject]} {VERBS[verb]} {number} (oder mehr)!")
        english[2], german[3] = "a bare\rcarriage return", "ein\u2028Zeilentrenner \x85"
        english[4] = ""
        if split == "test":
            german[5] += " ж"
        (folder / f"{split}.en").write_bytes("\n".join(english).encode())
        (folder / f"{split}.de").write_bytes("\r\n".join([*german, ""]).encode())
    return folder


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "text")


@pytest.fixture
def without_fairseq(monkeypatch):
    """Replace fairseq-preprocess, which takes seconds, by a copy of its input."""

    def copy_text(text, options, databin, log, workers):
        databin.mkdir()
        counts = {"dictionary": 0}
        for split in options.splits:
            counts[split] = {}
            for lang in options.languages:
                lines = list(read_lines(text / f"{split}.{lang}"))
                write_lines(databin / f"{split}.{lang}", lines)
                counts[split][lang] = {"units": 0, "unk": 0}
        return counts

    monkeypatch.setattr(pipeline, "binarise", copy_text)


def run(corpus, out, source="en", target="de", workers=1, **options):
    options = Options(source, target, **{"bpe_merges": 60, **options})
    return prepare(read_folder(corpus, options), options, out, workers)


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "preprocess.log"
    }


# Tokens


@pytest.mark.parametrize(("lang", "lines"), [("en", ENGLISH), ("de", GERMAN)])
def test_text_goes_through_tokens_and_units_and_back(tmp_path, lang, lines):
    tokens = list(tokenize(lines, lang))
    words = get_vocabulary(tokens)
    learn_codes(words, tmp_path / "codes", 40)
    write_vocabulary(words, read_codes(tmp_path / "codes"), tmp_path / "vocab")
    units = list(apply_codes(tokens, read_codes(tmp_path / "codes", tmp_path / "vocab")))
    assert any("@@ " in line for line in units)
    assert not any("well-known" in line or "Mail-" in line or '"' in line for line in tokens)
    assert list(detokenize(remove_codes(units), lang)) == lines


@pytest.mark.parametrize("lang", ["en", "de"])
def test_tokens_are_those_of_fairseq(lang):
    reference = MosesTokenizer(MosesTokenizerConfig(source_lang=lang, target_lang=lang))
    lines = [*ENGLISH, *GERMAN, "R&D <b>|[x] 1/2 a@@ b @-@ &amp; Wie geht's? 3:45 http://a.b/c-d"]
    tokens = list(tokenize(lines, lang))
    assert tokens == [reference.encode(line) for line in lines]
    assert list(detokenize(tokens, lang)) == [reference.decode(line) for line in tokens]


marks = st.sampled_from(["@", "@@", "@-@", "-", "@@ ", " ", "&", "apos;", "<s>", "</w>", "'", "."])


@settings(deadline=None, max_examples=200)
@given(st.lists(st.one_of(marks, st.text(max_size=3))).map("".join).map(normalise))
def test_marks_in_the_text_are_never_taken_for_ours(line):
    (tokens,) = tokenize([line], "de")
    assert bool(tokens) == bool(line)
    assert tokens.split() == tokens.split(" ") or not tokens
    assert not {"<s>", "</s>", "<pad>", "<unk>"} & set(tokens.split())
    units = " ".join("@@ ".join(token) for token in tokens.split())
    assert list(remove_codes([units])) == [tokens]


def test_several_processes_keep_the_order():
    lines = [f"{sentence} {i}" for i in range(250) for sentence in ENGLISH]
    assert list(tokenize(lines, "en", workers=2)) == list(tokenize(lines, "en"))


def test_no_tokenizer_leaves_lines_alone():
    assert list(tokenize(GERMAN, "de", "none")) == GERMAN
    assert list(detokenize(GERMAN, "de", "none")) == GERMAN


# BPE


@settings(deadline=None)
@given(st.lists(st.text(alphabet="ab -\r\t\u2028\xa0", max_size=12), max_size=20))
def test_words_are_split_as_subword_nmt_splits_lines(lines):
    codes = io.StringIO("#version: 0.2\na b\nab a</w>\nb b</w>\n")
    plain = BPE(codes)
    few = Segments(plain)
    few.ROOM = 2
    for segments in (Segments(plain), few):
        assert list(map(segments.split_line, lines)) == list(map(plain.process_line, lines))
    assert len(few) <= 2


def test_a_language_gets_no_units_that_only_the_other_one_has(tmp_path):
    words = {"en": Counter({"abcd": 1, "ab": 3, "cd": 3}), "de": Counter({"abcd": 9})}
    learn_codes(words["en"] + words["de"], tmp_path / "codes", 10)
    plain = read_codes(tmp_path / "codes")
    del words["en"]["abcd"]
    for lang in words:
        write_vocabulary(words[lang], plain, tmp_path / lang)

    def split(lang, threshold=1):
        bpe = read_codes(tmp_path / "codes", tmp_path / lang, threshold)
        return list(apply_codes(["abcd"], bpe))

    assert list(apply_codes(["abcd"], plain)) == split("de") == split("de", 9) == ["abcd"]
    assert split("en") != ["abcd"]
    assert list(remove_codes(split("en"))) == ["abcd"]
    with pytest.raises(UsageError, match="--vocabulary-threshold 10: no unit in .*de is that"):
        split("de", 10)


def test_the_vocabulary_is_sorted_by_frequency_and_then_by_unit(tmp_path):
    learn_codes(Counter({"zz": 2}), tmp_path / "codes", 1)
    words = Counter({"b": 1, "zz": 5, "ca": 2, "a": 3})
    assert write_vocabulary(words, read_codes(tmp_path / "codes"), tmp_path / "vocab") == 4
    assert list(read_lines(tmp_path / "vocab")) == ["a 5", "zz 5", "c@@ 2", "b 1"]


@pytest.mark.parametrize("words", [Counter({"a": 9, "b": 9}), Counter({"ab": 1})])
def test_text_without_pairs_of_characters_is_refused(tmp_path, words):
    with pytest.raises(UsageError, match="too small to learn BPE"):
        learn_codes(words, tmp_path / "codes", 5)


# Pairs and splits


def test_pairs_outside_of_limits_are_dropped():
    pairs = [
        ("a b", "a b c"),
        ("a b", "a b c d"),
        ("a b c d e", "a b c d e f"),
        ("", "a"),
        ("a", "b" * 1001),
        ("a b c d e", "a b c d e"),
    ]
    dropped = Counter()
    assert list(steps.within_limits(pairs, 5, 1.5, dropped)) == [pairs[0], pairs[5]]
    assert dropped == {
        "ratio above 1.5": 1,
        "longer than 5": 1,
        "empty": 1,
        "word of more than 1000 characters": 1,
    }
    assert list(steps.within_limits(pairs[:3], None, None, Counter())) == pairs[:3]


def test_validation_set_is_taken_out_of_train(tmp_path, corpus, without_fairseq):
    for lang in ("en", "de"):
        (corpus / f"valid.{lang}").unlink()
    record = run(corpus, tmp_path / "out", valid_every=10, tokenizer="none", max_tokens=30)
    assert record["counts"]["split"] == {"train": {"pairs": 54}, "valid": {"pairs": 5}}
    kept = [line.replace("@@ ", "") for line in read_lines(tmp_path / "out" / "bin" / "valid.en")]
    # One pair of train, the fifth, has an empty side.
    train = [normalise(line) for line in read_lines(corpus / "train.en")]
    del train[4]
    assert kept == train[9::10]


def test_lower_case_shows_in_the_signature_and_in_the_tokens(tmp_path, corpus, without_fairseq):
    record = run(corpus, tmp_path / "out", lowercase=True, dash_splits=False)
    back = record["counts"]["round-trip"]["test"]["en"]
    assert "case:lc" in back["signature"] and back["changed"] == 0
    tokens = list(read_lines(tmp_path / "out" / "text" / "test.tok.de"))
    assert "boot-haus" in " ".join(tokens) and "@@" not in " ".join(tokens)
    assert "Boot-Haus" in (tmp_path / "out" / "text" / "test.de").read_text()


def test_the_round_trip_is_scored_as_translations_into_the_language_are(
    tmp_path, corpus, without_fairseq
):
    for split in SPLITS:
        (corpus / f"{split}.de").unlink()
        lines = sum(1 for _ in read_lines(corpus / f"{split}.en"))
        write_lines(corpus / f"{split}.ja", ["カメラ デバイス：{error} カメラ"] * lines)
    back = run(corpus, tmp_path / "out", target="ja")["counts"]["round-trip"]["test"]
    assert "tok:13a" in back["en"]["signature"]
    assert f"tok:{bleu_tokenizer('ja')}" in back["ja"]["signature"]


@pytest.mark.slow
def test_several_test_sets_and_a_dictionary_for_each_language(tmp_path, corpus):
    for lang in ("en", "de"):
        (corpus / f"test.{lang}").rename(corpus / f"day1.{lang}")
        write_lines(corpus / f"day2.{lang}", ["The tree"])
    options = {"tests": ("day1", "day2"), "joined_dictionary": False, "dictionary_size": 24}
    record = run(corpus, tmp_path / "out", **options)
    assert {name: test["subset"] for name, test in record["tests"].items()} == {
        "day1": "test",
        "day2": "test1",
    }
    assert record["counts"]["binarise"]["day2"]["en"]["sentences"] == 1
    sizes = [
        len((tmp_path / "out" / "bin" / f"dict.{lang}.txt").read_text().split("\n"))
        for lang in ("en", "de")
    ]
    assert sizes == [21, 21]
    assert not (tmp_path / "out" / "bin" / "test2.en-de.en.idx").exists()


# The data-bin against its text


def write_databin(text, databin):
    databin.mkdir()
    dictionary = Dictionary()
    for word in ("a", "b"):
        dictionary.add_symbol(word)
    for lang in ("en", "de"):
        dictionary.save(str(databin / f"dict.{lang}.txt"))
    for split in SPLITS:
        for lang in ("en", "de"):
            prefix = str(databin / f"{split}.en-de.{lang}")
            builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", len(dictionary))
            for line in read_lines(text / f"{split}.{lang}"):
                builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
            builder.finalize(f"{prefix}.idx")


def write_splits(text, lines):
    text.mkdir(exist_ok=True)
    for split in SPLITS:
        for lang in ("en", "de"):
            write_lines(text / f"{split}.{lang}", lines)


def test_a_databin_is_counted(tmp_path):
    write_splits(tmp_path / "text", ["a b c", "", "c"])
    write_databin(tmp_path / "text", tmp_path / "bin")
    counts = check_databin(tmp_path / "text", Options("en", "de"), tmp_path / "bin")
    assert counts["dictionary"] == 6
    counts["test"]["de"].pop("tokens")
    assert counts["test"]["de"] == {"sentences": 3, "units": 4, "unk": 2, "unk_rate": 0.5}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["a b", "b", "a"], r"valid\.en-de\.de\.idx has 2 sentences where .*valid\.de has 3 lines"),
        (["a b", "b a"], r"valid\.en-de\.de\.idx, sentence 2: 2 units where .*valid\.de has 3"),
    ],
)
def test_a_databin_of_other_text_is_refused(tmp_path, changed, message):
    write_splits(tmp_path / "text", ["a b", "b"])
    write_databin(tmp_path / "text", tmp_path / "bin")
    write_lines(tmp_path / "text" / "valid.de", changed)
    with pytest.raises(UsageError, match=message):
        check_databin(tmp_path / "text", Options("en", "de"), tmp_path / "bin")


def test_a_missing_part_of_a_databin_is_named(tmp_path):
    write_splits(tmp_path / "text", ["a b", "b"])
    write_databin(tmp_path / "text", tmp_path / "bin")
    (tmp_path / "bin" / "test.en-de.en.idx").unlink()
    with pytest.raises(UsageError, match=r"test\.en-de\.en\.idx: .* did not write it"):
        check_databin(tmp_path / "text", Options("en", "de"), tmp_path / "bin")


@pytest.mark.parametrize("symbol", ["<s>", "</s>", "<pad>"])
def test_symbols_of_fairseq_in_the_text_are_refused(tmp_path, symbol):
    write_splits(tmp_path / "text", ["a b", f"b {symbol} a <unk>"])
    write_databin(tmp_path / "text", tmp_path / "bin")
    with pytest.raises(UsageError, match=r"train\.en, line 2: .* for its own symbol"):
        check_databin(tmp_path / "text", Options("en", "de"), tmp_path / "bin")


# Wrong use


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "--workers 0: has to be 1 or more"),
        ({"bpe_merges": 0}, "--bpe-merges 0: has to be 1 or more"),
        ({"vocabulary_threshold": -1}, "--vocabulary-threshold -1: has to be 0 or more"),
        ({"tokenizer": "perl"}, "--tokenizer perl: has to be moses or none"),
    ],
)
def test_unusable_options_are_named(tmp_path, corpus, options, message):
    with pytest.raises(UsageError, match=message):
        run(corpus, tmp_path / "out", **options)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("en", "en", "--target en: has to differ"),
        ("en", "de-AT", "--target de-AT: fairseq needs"),
        ("../en", "de", "--source ../en: fairseq needs"),
        ("en", "fr", r"train\.fr: No such file"),
    ],
)
def test_unusable_languages_are_named(tmp_path, corpus, source, target, message):
    with pytest.raises(UsageError, match=message):
        run(corpus, tmp_path / "out", source, target)


def test_all_text_is_checked_before_anything_is_written(tmp_path, corpus):
    with open(corpus / "test.de", "ab") as file:
        file.write(b"one more\n")
    with pytest.raises(SystemExit, match=r"test\.en has 9 lines and .*test\.de has 10"):
        main(f"--text {corpus} --source en --target de --out {tmp_path / 'out'}".split())
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


# The chain


def test_pairs_are_dropped_from_train_only(tmp_path, corpus, without_fairseq):
    counts = run(corpus, tmp_path / "out")["counts"]["clean"]
    assert {split: counts[split]["pairs"] for split in counts} == {
        "train": 59,
        "valid": 7,
        "test": 9,
    }
    assert counts["train"]["dropped"] == {"source empty": 1}
    assert counts["valid"]["dropped"] == counts["test"]["dropped"] == {}
    assert counts["test"]["changed"]["en"] == {"carriage return": 1}
    assert counts["test"]["changed"]["de"] == {"carriage return": 9, "line separator": 1}
    binarised = list(read_lines(tmp_path / "out" / "bin" / "test.en"))
    assert len(binarised) == 9
    assert binarised[4] == ""


def test_the_test_set_is_kept_byte_for_byte(tmp_path, corpus, without_fairseq):
    record = run(corpus, tmp_path / "out")
    for name in ("test.en", "test.de"):
        kept = tmp_path / "out" / "text" / name
        assert kept.read_bytes() == (corpus / name).read_bytes()
        assert record["inputs"][name]["sha256"] == record["outputs"][f"text/{name}"]


def test_literal_marks_are_counted(tmp_path, corpus, without_fairseq, capsys):
    with open(corpus / "valid.en", "ab") as file:
        file.write(b" a@@ b\nfoo @-@ bar\n")
    with open(corpus / "valid.de", "ab") as file:
        file.write(b"a\n")
    arguments = f"--text {corpus} --source en --target de --out {tmp_path / 'out'} --workers 1"
    main(arguments.split())
    record = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert record["counts"]["tokenize"]["valid"]["en"]["lines_with_marks"] == 2
    assert record["counts"]["round-trip"]["valid"]["en"]["changed"] == 2
    assert record["counts"]["round-trip"]["valid"]["de"]["changed"] == 0
    assert "2 lines have @@ or @-@" in capsys.readouterr().out


def test_without_a_tokenizer_the_round_trip_is_exact(tmp_path, corpus, without_fairseq):
    write_lines(corpus / "test.de", ["3 € und 1/2, 12:30–14:00 Uhr (&amp;)"] * 9)
    with_moses = run(corpus, tmp_path / "moses")["counts"]["round-trip"]["test"]["de"]
    without = run(corpus, tmp_path / "none", tokenizer="none")["counts"]["round-trip"]["test"]["de"]
    assert with_moses["changed"] == 9
    assert with_moses["bleu"] < 100
    assert without["changed"] == 0
    assert without["bleu"] == 100


def test_a_finished_folder_is_reused(tmp_path, corpus, without_fairseq, capsys):
    first = run(corpus, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    capsys.readouterr()
    assert run(corpus, tmp_path / "out", workers=2) == first
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: reused\n"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "text"]


def test_a_finished_folder_is_not_overwritten(tmp_path, corpus, without_fairseq):
    out = tmp_path / "out"
    run(corpus, out)
    before = contents(out)
    with pytest.raises(UsageError, match="--bpe-merges 50: .*out was made with 60; choose"):
        run(corpus, out, bpe_merges=50)
    with pytest.raises(UsageError, match="--tokenizer none: .*out was made with moses; choose"):
        run(corpus, out, tokenizer="none")
    with open(corpus / "valid.de", "ab") as file:
        file.write(b" \n")
    with open(corpus / "valid.en", "ab") as file:
        file.write(b"\n\n")
    with pytest.raises(UsageError, match=r"valid\.en is not the file that .*out was made from"):
        run(corpus, out)
    assert contents(out) == before


def test_a_damaged_folder_is_not_reused(tmp_path, corpus, without_fairseq):
    run(corpus, tmp_path / "out")
    (tmp_path / "out" / "codes").write_text("#version: 0.2\n")
    with pytest.raises(UsageError, match="out/codes is missing or was changed"):
        run(corpus, tmp_path / "out")


@pytest.mark.parametrize("name", ["out", "out.partial"])
def test_folders_of_others_are_left_alone(tmp_path, corpus, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.tex").touch()
    with pytest.raises(UsageError, match=name):
        run(corpus, tmp_path / "out")
    assert [path.name for path in (tmp_path / name).iterdir()] == ["thesis.tex"]


def test_a_failure_of_preprocess_is_reported_with_its_log(tmp_path, corpus, monkeypatch):
    fails = tmp_path / "fails"
    fails.write_text("#!/bin/sh\necho no memory\nexit 3\n")
    fails.chmod(0o700)
    monkeypatch.setattr("data_prep.databin.sys.executable", str(fails))
    with pytest.raises(UsageError, match="fairseq-preprocess failed with exit status 3: see ") as e:
        run(corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert open(str(e.value).split("see ")[1]).read() == "no memory\n"


def test_an_interrupted_run_goes_on_where_it_was(
    tmp_path, corpus, without_fairseq, monkeypatch, capsys
):
    whole = run(corpus, tmp_path / "whole")
    with monkeypatch.context() as patch:

        def interrupt(*arguments):
            raise KeyboardInterrupt

        patch.setattr(steps, "learn_codes", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    capsys.readouterr()
    assert run(corpus, tmp_path / "out") == whole
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert capsys.readouterr().out.split("\n")[:3] == [
        "clean: reused",
        "tokenize: reused",
        "learn-bpe: done",
    ]


def test_an_interrupted_run_of_other_text_is_started_anew(
    tmp_path, corpus, without_fairseq, monkeypatch, capsys
):
    with monkeypatch.context() as patch:
        patch.setattr(steps, "learn_codes", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(corpus, tmp_path / "out")
    write_corpus(corpus, train=50)
    capsys.readouterr()
    assert run(corpus, tmp_path / "out")["counts"]["clean"]["train"]["pairs"] == 49
    assert "reused" not in capsys.readouterr().out


def test_other_versions_of_tools_are_reported(
    tmp_path, corpus, without_fairseq, monkeypatch, capsys
):
    versions = {**pipeline.tool_versions(), "python": "3.11.4"}
    monkeypatch.setattr(pipeline, "tool_versions", lambda: versions)
    run(corpus, tmp_path / "out")
    capsys.readouterr()
    versions |= {"python": "3.11.9"}
    run(corpus, tmp_path / "out")
    assert capsys.readouterr().err == ""
    versions |= {"sacremoses": "9.9", "python": "3.12.1"}
    run(corpus, tmp_path / "out")
    warning = capsys.readouterr().err
    assert warning.startswith(
        f"WARNING: {tmp_path / 'out'} was made with python 3.11.4 (now 3.12.1)"
    )
    assert "(now 9.9)" in warning and warning.count("\n") == 1


def test_two_runs_do_not_make_the_same_folder(tmp_path, corpus, without_fairseq, monkeypatch):
    learn = steps.learn_codes

    def run_again(*arguments):
        with pytest.raises(UsageError, match="--out .*out: another run is making it; wait"):
            run(corpus, tmp_path / "out")
        return learn(*arguments)

    monkeypatch.setattr(steps, "learn_codes", run_again)
    run(corpus, tmp_path / "out")
    assert (tmp_path / "out" / "codes").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "text"]


def test_the_lock_of_a_run_that_was_killed_is_no_lock(tmp_path, corpus, without_fairseq):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "out")], cwd=ROOT, capture_output=True
    )
    assert killed.returncode == -9 and (tmp_path / "out.lock").exists()
    run(corpus, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "text"]


KILLED = """
import os, signal, sys
from pathlib import Path
from data_prep.stages import locked
with locked(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_left_of_a_run_that_was_killed_at_its_end_is_not_reused(
    tmp_path, corpus, without_fairseq, monkeypatch, capsys
):
    with monkeypatch.context() as patch:

        def interrupt(_):
            raise KeyboardInterrupt

        patch.setattr(pipeline.shutil, "rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(corpus, tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "first")
    capsys.readouterr()
    run(corpus, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "first")
    assert "reused" not in capsys.readouterr().out
    assert not (tmp_path / "out.partial").exists()


@needs_dev_full
def test_a_full_disk_is_one_line_and_the_run_goes_on_later(
    tmp_path, corpus, without_fairseq, monkeypatch, capsys
):
    with monkeypatch.context() as patch:
        fill_disk(patch, text, after="clean")
        with pytest.raises(UsageError) as error:
            run(corpus, tmp_path / "out")
    assert f"--out {tmp_path / 'out'}: cannot be written (No space left" in str(error.value)
    assert not (tmp_path / "out").exists()
    capsys.readouterr()
    run(corpus, tmp_path / "out")
    assert capsys.readouterr().out.startswith("clean: reused\ntokenize: done\n")


@pytest.mark.parametrize("reason", ["EDQUOT", "EROFS", "EACCES"])
def test_a_disk_that_may_not_be_written_to_is_one_line(tmp_path, corpus, monkeypatch, reason):
    def refuse(*_):
        raise OSError(getattr(errno, reason), os.strerror(getattr(errno, reason)))

    monkeypatch.setattr(steps, "write_pairs", refuse)
    with pytest.raises(UsageError, match="out: cannot be written .*or choose another --out"):
        run(corpus, tmp_path / "out")


@pytest.fixture(scope="module")
def databin(tmp_path_factory):
    """The corpus, and the whole chain over it with one worker."""
    folder = tmp_path_factory.mktemp("databin")
    corpus = write_corpus(folder / "text")
    return corpus, folder / "out", run(corpus, folder / "out")


@pytest.mark.slow
def test_the_databin_loads_in_fairseq(databin):
    _, out, record = databin
    config = TranslationConfig(data=str(out / "bin"), source_lang="en", target_lang="de")
    # fairseq-train fills these in from its other groups of options.
    config.dataset_impl, config.required_seq_len_multiple = "mmap", 1
    task = TranslationTask.setup_task(config)
    assert task.source_dictionary == task.target_dictionary
    for split, size in (("train", 59), ("valid", 7), ("test", 9)):
        task.load_dataset(split)
        assert len(task.dataset(split)) == size == record["counts"]["clean"][split]["pairs"]
    sample = task.dataset("test")[5]
    text = task.target_dictionary.string(sample["target"], bpe_symbol="subword_nmt")
    assert text.endswith("5 ( oder mehr ) ! <unk>")
    unk = {
        (split, lang): record["counts"]["binarise"][split][lang]["unk"]
        for split in SPLITS
        for lang in ("en", "de")
    }
    reference = [
        task.target_dictionary.string(
            task.dataset("test")[i]["target"], bpe_symbol="subword_nmt", escape_unk=True
        ).split()
        for i in range(9)
    ]
    facts = record["counts"]["binarise"]["test"]["de"]
    assert facts["tokens"] == sum(map(len, reference)) < facts["units"]
    assert {key for key, n in unk.items() if n} == {("test", "de")}
    assert unk["test", "de"] == 1


@pytest.mark.slow
def test_fairseq_encodes_raw_text_as_the_databin_has_it(databin):
    corpus, out, _ = databin
    dictionary = Dictionary.load(str(out / "bin" / "dict.en.txt"))
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang="en", target_lang="de"))
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(out / "codes")))
    dataset = indexed_dataset.make_dataset(str(out / "bin" / "test.en-de.en"), "mmap")
    for line, sentence in zip(read_lines(corpus / "test.en"), dataset):
        encoded = dictionary.encode_line(bpe.encode(tokenizer.encode(line)), add_if_not_exist=False)
        assert encoded.tolist() == sentence.tolist()


@pytest.mark.slow
def test_the_same_bytes_with_any_number_of_workers(databin, tmp_path):
    corpus, out, record = databin
    assert run(corpus, tmp_path / "again", workers=3) == record
    assert contents(tmp_path / "again") == contents(out)
    assert set(record["outputs"]) == set(contents(out)) - {"corpus.json"}
    assert all(sha256(out / name) == digest for name, digest in record["outputs"].items())
