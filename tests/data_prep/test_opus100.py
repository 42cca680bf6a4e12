"""OPUS-100: which pairs there are, and how they get out of their archives."""

import hashlib

import pytest
from archives_made import opus100_archives, tar, unpack
from full_disk import fill_disk, needs_dev_full
from web_server import Page, serve

from data_prep import opus100
from data_prep.multilingual import Pairs, directions, shares
from data_prep.opus100 import (
    PAIRS,
    TRAIN_ONLY,
    WHOLE,
    ZERO_SHOT,
    choose,
    download,
    extract,
    files_of,
    given_files,
    source_of,
)
from residual_fairseq.errors import UsageError

CHOSEN = Pairs(("de-en", "en-fr"), ("an-en",), ("de-fr",))


def test_the_table_of_pairs():
    trained = [pair for pair in PAIRS.values() if pair.train]
    assert len(trained) == 99 and sum(pair.train for pair in trained) == 54_656_433
    assert TRAIN_ONLY == ["an-en", "dz-en", "en-hy", "en-mn", "en-yo"]
    assert len(ZERO_SHOT) == 15
    assert all("-".join(sorted(name.split("-"))) == name for name in PAIRS)


def test_choice_of_pairs():
    everything = choose(None, zero_shot=True)
    assert [len(names) for names in everything.values()] == [94, 5, 15]
    assert choose("de fr en-an", True) == {
        "pairs": ("de-en", "en-fr"),
        "train_only": ("an-en",),
        "zero_shot": ("de-fr",),
    }
    assert choose("fr-en", True)["pairs"] == ("en-fr",)
    assert choose("de fr", False)["zero_shot"] == ()
    for unknown in ("xx", "de-fr", "de-en-fr"):
        with pytest.raises(UsageError, match=f"--pairs {unknown}"):
            choose(unknown, True)


def make_archive(form, folder):
    """What ``--archive`` can be given."""
    made = opus100_archives(lines=20)
    files = {name: body for archive in made.values() for name, body in untar(archive).items()}
    if form == "archives":
        return unpack({**made, "opus-100-corpus-af-en-v1.0.tar.gz": b"not asked for"}, folder)
    if form == "unpacked":
        return unpack(files, folder)
    if form == "renamed":
        return unpack({"whole.tar": tar(files, "")}, folder) / "whole.tar"
    if form == "some unpacked":
        some = {name: body for name, body in files.items() if "de-en" in name}
        return unpack({**some, WHOLE: tar(files)}, folder)
    return unpack({WHOLE: tar(files), "other.tar.gz": b"not ours"}, folder)


FORMS = {"archives": 4, "unpacked": 6 + 6 + 2 + 2, "renamed": 1, "some unpacked": 7, "whole": 1}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_archive_gives_the_same_text(tmp_path, form):
    files = given_files(make_archive(form, tmp_path / "in"), CHOSEN)
    assert len(files) == FORMS[form]
    out = tmp_path / "out"
    out.mkdir()
    counts = extract(files, CHOSEN, out)
    assert counts["de-en"] == {"train": 20, "valid": 8, "test": 12}
    assert counts["an-en"] == {"train": 20} and counts["de-fr"] == {"test": 12}
    published = {
        name.rpartition("/")[2]: body
        for archive in opus100_archives(lines=20).values()
        for name, body in untar(archive).items()
    }
    for pair in CHOSEN.all:
        for name, ours in files_of(CHOSEN, pair).items():
            assert (out / ours).read_bytes() == published[name]


def untar(content):
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {
            member.name: archive.extractfile(member).read() for member in archive if member.isfile()
        }


def test_unusable_archives_are_named(tmp_path):
    made = opus100_archives(lines=20)
    del made["opus-100-corpus-en-fr-v1.0.tar.gz"]
    unpack(made, tmp_path / "in")
    archives = sorted((tmp_path / "in").iterdir())
    with pytest.raises(UsageError, match="has no file opus.en-fr-train.en and 5 others"):
        extract(archives, CHOSEN, tmp_path)
    archives[0].write_bytes(archives[0].read_bytes()[:200])
    with pytest.raises(UsageError, match=f"{archives[0].name}: the text cannot be read .*whole"):
        extract(archives, CHOSEN, tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=f"empty: has neither .*en-v1.0.tar.gz nor {WHOLE}"):
        opus100.main(["--archive", str(tmp_path / "empty"), "--out", str(tmp_path / "o")])
    with pytest.raises(UsageError, match="nowhere: no such file"):
        opus100.main(["--archive", str(tmp_path / "nowhere"), "--out", str(tmp_path / "o")])


@pytest.mark.parametrize("gone", ["opus-100-corpus-de-en", "opus-100-corpus-zeroshot"])
def test_unpacked_files_take_the_place_of_an_archive(tmp_path, monkeypatch, gone):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = opus100_archives(lines=20)
    pages = {name: Page(body) for name, body in made.items() if not name.startswith(gone)}
    for archive in made.values():
        pages |= {
            name.removeprefix("opus-100-corpus/v1.0/"): Page(body)
            for name, body in untar(archive).items()
        }
    facts = {
        name: pair._replace(
            archive_bytes=len(made[source_of(name).name]),
            sha256=hashlib.sha256(made[source_of(name).name]).hexdigest(),
        )
        for name, pair in PAIRS.items()
        if name in CHOSEN.all
    }
    monkeypatch.setattr(opus100, "PAIRS", facts)
    folder = tmp_path / "downloads"
    with serve(pages) as server:
        monkeypatch.setattr(opus100, "BASE", server.address("opus-100-corpus-{}-v1.0.tar.gz"))
        monkeypatch.setattr(opus100, "UNPACKED", server.address("{}/{}/{}"))
        files = download(CHOSEN, folder)
        (tmp_path / "out").mkdir()
        assert extract(files, CHOSEN, tmp_path / "out")["de-fr"] == {"test": 12}
        asked = len(server.requests)
        assert download(CHOSEN, folder) == files and len(server.requests) == asked
        (folder / files[-1].name).unlink()
        del pages[next(path for path in pages if path.endswith(files[-1].name))]
        with pytest.raises(UsageError, match=f"{files[-1].name} could not be downloaded"):
            download(CHOSEN, folder)
    assert len(files) == (3 + 6 if gone.endswith("de-en") else 3 + 2)


@needs_dev_full
def test_a_full_disk_is_not_taken_for_a_damaged_archive(tmp_path, monkeypatch):
    archive = make_archive("whole", tmp_path / "in")
    fill_disk(monkeypatch, opus100)
    arguments = ["--pairs", "de", "--archive", str(archive), "--out", str(tmp_path / "out")]
    with pytest.raises(UsageError, match="--out .*out: cannot be written .No space left"):
        opus100.main(arguments)


def test_small_pairs_have_more_than_their_share_of_the_sample():
    sizes = {"de-en": 1_000_000, "an-en": 1000}
    drawn = shares(sizes, 5.0, 20_000)
    assert drawn["an-en"] == 1000 and 7000 < drawn["de-en"] < 9000
    drawn = shares(sizes, 1.0, 20_000)
    assert drawn["an-en"] == 9 and drawn["de-en"] == 9990
    assert directions("de-en") == "de-en,en-de"
