"""Files by name out of folders and archives."""

from __future__ import annotations

import io
import random
import tarfile
import tracemalloc
import zipfile

import pytest
from archives_made import compress, flat, tar, unpack, zip_archive

from data_prep import archives as module
from data_prep.archives import Archive, zip_lines
from data_prep.fetch import facts
from residual_fairseq.errors import UsageError

FILES = {
    "corpus/README": b"read me\n",
    "corpus/text/train.de": "ein\r\nzwei\u2028drei\n\nvier \x85".encode(),
    "corpus/text/train.en": b"one\n",
    "corpus/._train.de": b"\0macOS",
    "__MACOSX/corpus/text/._train.de": b"\0macOS",
}
LINES = ["ein\r", "zwei\u2028drei", "", "vier \x85"]


def written(folder, content, name="corpus.tgz"):
    (folder / name).write_bytes(content)
    return folder / name


@pytest.fixture(params=[False, True], ids=["nested", "flat"])
def files(request):
    return flat(FILES) if request.param else FILES


@pytest.mark.parametrize("name", ["a.tgz", "a.tar.gz", "a.tar", "a.tar.bz2", "a.zip", "a.whl", "a"])
def test_text_is_read_from_any_archive_and_from_the_folder(tmp_path, files, name):
    if name == "a":
        path = unpack(files, tmp_path / name)
    elif name in ("a.zip", "a.whl"):
        path = written(tmp_path, zip_archive(files), name)
    else:
        compression = {"a.tgz": "gz", "a.tar.gz": "gz", "a.tar.bz2": "bz2"}.get(name, "")
        path = written(tmp_path, tar(files, compression), name)
    archive = Archive([path])
    assert list(archive.text("train.de")) == LINES
    assert list(archive.lines("train.de")) == [line.encode() for line in LINES]
    assert list(archive.text("train.en")) == ["one"]
    assert archive.holds("README")
    assert not archive.holds("._train.de")
    assert not archive.holds("train.d")


@pytest.mark.parametrize("name", ["a.zip", "a.txt", "a.tgz"])
def test_the_name_of_an_archive_does_not_matter(tmp_path, name):
    for content in (zip_archive(FILES), tar(FILES), tar(FILES, "bz2"), tar(FILES, "")):
        assert list(Archive([written(tmp_path, content, name)]).text("train.de")) == LINES


def test_both_sides_can_be_read_at_once(tmp_path):
    files = {f"train.{lang}": b"".join(b"%d\n" % n for n in range(9_999)) for lang in ("de", "en")}
    archive = Archive([written(tmp_path, tar(files))])
    assert all(a == b for a, b in zip(archive.lines("train.de"), archive.lines("train.en")))


def test_several_archives_are_one(tmp_path):
    paths = [written(tmp_path, tar({name: b"x"}), f"{name}.tgz") for name in ("a", "b")]
    archive = Archive(paths)
    assert archive.holds("a") and archive.holds("b")


# Archives in archives


@pytest.mark.parametrize("compression", ["gz", ""])
def test_an_archive_in_an_archive_is_looked_into_if_asked_for(tmp_path, compression):
    outer = {"2014-01/texts/de-en.tgz": tar(FILES, compression), "2014-01/other.tgz": b"broken"}
    path = written(tmp_path, tar(outer, "gz"))
    assert list(Archive([path], ["de-en.tgz"]).text("train.de")) == LINES
    with pytest.raises(UsageError, match="has no file train.de; it holds de-en.tgz, other.tgz"):
        Archive([path]).text("train.de")


def test_an_archive_in_a_folder_is_looked_into_if_asked_for(tmp_path):
    written(tmp_path, zip_archive(FILES), "corpus.zip")
    written(tmp_path, b"of no interest", "other.zip")
    assert list(Archive([tmp_path], ["corpus.zip"]).text("train.de")) == LINES


def test_what_is_unpacked_comes_before_the_archive(tmp_path):
    written(tmp_path, b"no archive at all")
    unpack(FILES, tmp_path)
    assert list(Archive([tmp_path], ["corpus.tgz"]).text("train.de")) == LINES


# Several files of a name


def test_equal_files_of_a_name_are_one(tmp_path):
    files = {"a/train.de": b"x\n", "b/train.de": b"x\n", "train.de": b"x\n"}
    assert list(Archive([written(tmp_path, tar(files))]).text("train.de")) == ["x"]
    assert list(Archive([unpack(files, tmp_path / "folder")]).text("train.de")) == ["x"]


def test_different_files_of_a_name_are_refused(tmp_path):
    files = {"a/train.de": b"x\n", "b/train.de": b"y\n"}
    with pytest.raises(UsageError, match=r"train.de is not the same in .*a/train.de and .*b/train"):
        Archive([written(tmp_path, tar(files))]).text("train.de")
    with pytest.raises(UsageError, match=r"train.de is not the same in .*a/train.de and .*b/train"):
        Archive([unpack(files, tmp_path / "folder")]).text("train.de")


def test_a_path_that_occurs_twice_is_refused_too(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for content in (b"x", b"y"):
            info = tarfile.TarInfo("train.de")
            info.size = 1
            archive.addfile(info, io.BytesIO(content))
    with pytest.raises(UsageError, match="train.de is not the same in"):
        Archive([written(tmp_path, buffer.getvalue())]).text("train.de")


def test_folders_in_the_name_decide(tmp_path):
    files = {"dev/test.de": b"part\n", "test-full/test.de": b"full\n", "mytest-full/x": b""}
    archive = Archive([written(tmp_path, tar(files))])
    assert list(archive.text("test-full/test.de")) == ["full"]
    assert list(archive.text("dev/test.de")) == ["part"]
    archive = Archive([written(tmp_path, tar({"test.de": b"moved\n"}))])
    assert list(archive.text("test-full/test.de")) == ["moved"]


def test_the_first_whole_group_is_taken(tmp_path):
    archive = Archive([written(tmp_path, tar({"a.de": b"", "b.de": b"", "b.en": b""}))])
    assert archive.first_of([("a.de", "a.en"), ("b.de", "b.en")]) == ("b.de", "b.en")
    assert archive.first_of([("a.de", "a.en"), ("c.de", "c.en")]) == ("a.de", "a.en")


@pytest.mark.parametrize("form", ["tar", "folder", "inner"])
def test_files_beside_a_file_can_be_told_from_others(tmp_path, form):
    files = {"a/train.de": b"", "a/test.de": b"a\n", "b/test.de": b"b\n", "test.de": b"c\n"}
    if form == "tar":
        archive = Archive([written(tmp_path, tar(files))])
    elif form == "inner":
        written(tmp_path, tar(files))
        unpack({"test.de": b"d\n"}, tmp_path)
        archive = Archive([tmp_path], ["corpus.tgz"])
    else:
        archive = Archive([unpack(files, tmp_path)])
    assert list(archive.beside("train.de").text("test.de")) == ["a"]
    with pytest.raises(UsageError, match=r"no file test.en; it holds (\w+.de(, |$)){2}$"):
        archive.beside("train.de").text("test.en")


# Wrong and damaged archives


def test_a_missing_archive_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"--archive .*nowhere.tgz: no such file or folder"):
        Archive([tmp_path / "nowhere.tgz"])


@pytest.mark.parametrize("packed", [True, False])
def test_a_wrong_archive_is_named_with_what_it_holds(tmp_path, packed):
    files = {f"other/{name}": b"x" for name in "abcdef"}
    path = written(tmp_path, tar(files)) if packed else unpack(files, tmp_path / "folder")
    with pytest.raises(UsageError) as error:
        Archive([path]).text("train.tags.de-en.de")
    expected = f"{path}: has no file train.tags.de-en.de; it holds a, b, c, d and 2 others"
    assert str(error.value).endswith(expected)


def test_an_empty_folder_is_said_to_be_so(tmp_path):
    with pytest.raises(UsageError, match="has no file train.de; it holds no file at all"):
        Archive([tmp_path]).text("train.de")


@pytest.mark.parametrize("content", [b"", b"text\n", b"<!DOCTYPE html>", compress(b"text", "gz")])
def test_what_is_no_archive_is_refused(tmp_path, content):
    with pytest.raises(UsageError) as error:
        Archive([written(tmp_path, content)]).text("train.de")
    assert "corpus.tgz: train.de cannot be read from it (" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_encrypted_zip_is_refused(tmp_path):
    content = bytearray(zip_archive(FILES))
    for signature, offset in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        at = content.find(signature)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(signature, at + 1)
    with pytest.raises(UsageError, match="train.de cannot be read from it .*encrypted"):
        list(Archive([written(tmp_path, bytes(content))]).text("train.de"))


def noise(seed, size):
    return random.Random(seed).randbytes(size).replace(b"\n", b"!")


@pytest.mark.parametrize("kind", ["gz", "bz2", "", "zip", "inner"])
def test_a_cut_archive_is_refused_wherever_it_is_cut(tmp_path, kind):
    files = {"a": noise(1, 3_000), "train.de": noise(2, 3_000), "z": noise(3, 3_000)}
    whole = zip_archive(files) if kind == "zip" else tar(files, "gz" if kind == "inner" else kind)
    for size in range(0, 8_000, 500):
        cut = whole[:size]
        path = written(tmp_path, tar({"corpus.tgz": cut}, "") if kind == "inner" else cut)
        # Cut between two of its files, a plain tar is whole but for what is missing.
        expected = "train.de cannot be read from it|has no file train.de"
        if kind == "" and size > 7_000:
            continue
        with pytest.raises(UsageError, match=expected) as error:
            list(Archive([path], ["corpus.tgz"]).lines("train.de"))
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["gz", "bz2", "zip"])
def test_a_damaged_archive_is_never_read_as_if_it_were_whole(tmp_path, kind):
    files = {"a": noise(1, 300), "train.de": noise(2, 300), "z": noise(3, 300)}
    whole = zip_archive(files) if kind == "zip" else tar(files, kind)
    rng = random.Random(1)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        try:
            lines = list(Archive([written(tmp_path, bytes(damaged))]).lines("train.de"))
        except UsageError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert lines == [files["train.de"]]
    assert refused > 100


def test_the_end_of_an_archive_counts_too(tmp_path):
    content = tar({"train.de": b"x\n", "z": noise(1, 90_000)})
    with pytest.raises(UsageError, match="train.de cannot be read from it"):
        Archive([written(tmp_path, content[:-5])]).text("train.de")


def test_invalid_utf8_is_reported_with_its_line(tmp_path):
    path = written(tmp_path, tar({"a/train.de": b"gut\n\xe2\x80\xa8\nStra\xdfe\n"}))
    with pytest.raises(UsageError) as error:
        list(Archive([path]).text("train.de"))
    assert str(error.value).endswith(
        f"{path}: a/train.de, line 3: not valid UTF-8 (invalid continuation byte at byte 5 of the "
        "line)"
    )


# Safety


def test_nothing_is_written_whatever_an_archive_says(tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("../escaped", "/tmp/escaped", "train.de"):
            archive.addfile(tarfile.TarInfo(name))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            info = tarfile.TarInfo("train.en")
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    folder = tmp_path / "inner"
    folder.mkdir()
    archive = Archive([written(folder, buffer.getvalue())])
    assert list(archive.text("train.de")) == []
    assert list(archive.text("escaped")) == []
    assert not archive.holds("train.en")
    assert [path.name for path in tmp_path.rglob("*")] == ["inner", "corpus.tgz"]


def test_names_cannot_break_the_line(tmp_path):
    path = written(tmp_path, tar({"a\nb\x1b[31m": b"", "c\udcff": b""}))
    with pytest.raises(UsageError, match=r"it holds a\?b\?\[31m, c\?"):
        Archive([path]).text("train.de")


def test_a_large_file_is_not_held_in_memory(tmp_path):
    lines = 400_000
    content = b"".join(b"line %070d\n" % number for number in range(lines))
    archive = Archive([written(tmp_path, tar({"small": b"x" * 1_000, "train.de": content}))])
    archive.find("train.de")
    del content
    tracemalloc.start()
    assert sum(1 for _ in archive.lines("train.de")) == lines
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_what_is_kept_in_memory_is_bounded_and_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SMALL", 10)
    monkeypatch.setattr(module, "_ROOM", 15)
    files = {name: name.encode() * 8 + b"\n" for name in "abc"}
    archive = Archive([written(tmp_path, tar(files))])
    assert {name: list(archive.text(name)) for name in "abc"} == {n: [n * 8] for n in "abc"}
    opened = []
    monkeypatch.setattr(module, "open", lambda *args, **_: opened.append(args), raising=False)
    assert list(archive.text("a")) == ["a" * 8]
    assert not opened


# Facts


def test_facts_are_of_the_archives_given_or_of_the_files_used(tmp_path):
    path = written(tmp_path, tar(FILES))
    folder = unpack(FILES, tmp_path / "folder")
    assert Archive([path]).facts(["train.de"]) == {"corpus.tgz": facts(path)}
    assert Archive([folder]).facts(["train.en", "train.de"]) == {
        name: facts(folder / name) for name in ("corpus/text/train.de", "corpus/text/train.en")
    }
    outer = unpack({"down/corpus.tgz": path.read_bytes(), "other": b""}, tmp_path / "outer")
    assert Archive([outer], ["corpus.tgz"]).facts(["train.de"]) == {"down/corpus.tgz": facts(path)}
    with pytest.raises(UsageError, match="has no file train.fr"):
        Archive([folder]).facts(["train.fr"])


# Pairs


def test_lines_are_paired():
    assert list(zip_lines(["a", ""], iter(["b", "c"]), ("x", "y"))) == [("a", "b"), ("", "c")]
    assert list(zip_lines([], [], ("x", "y"))) == []


@pytest.mark.parametrize(("first", "second"), [(3, 5), (5, 3), (0, 1)])
def test_unequal_sides_are_refused_with_both_counts(first, second):
    pairs = zip_lines(["a"] * first, iter(["b"] * second), ("de.txt", "en.txt"))
    with pytest.raises(UsageError, match=f"de.txt has {first} lines and en.txt has {second}:"):
        list(pairs)


def test_a_zip_made_by_a_mac_is_read(tmp_path):
    path = tmp_path / "mac.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("corpus/", b"")
        archive.writestr("corpus/train.de", b"x\n")
        archive.writestr("__MACOSX/corpus/._train.de", b"\0")
    assert list(Archive([path]).text("train.de")) == ["x"]
