"""Multi30k from the repository's files to plain text."""

import gzip

import pytest

from data_prep import multi30k
from data_prep.archives import Archive
from data_prep.options import Options
from data_prep.text import read_lines
from residual_fairseq.errors import UsageError

OPTIONS = Options("en", "de", tests=("test2016",))


@pytest.fixture
def raw(tmp_path):
    """The files, one side with all that line-based tools disagree about."""
    folder = tmp_path / "raw"
    folder.mkdir()
    odd = ["a\u2028b", "c\x85d", "e\rf", "g\0h", "i\tj", "k\xa0l", "m – n", "“o”"]
    for split in ("train", "val", "test_2016_flickr"):
        for lang, lines in (("en", odd), ("de", [f"Zeile {i}" for i in range(len(odd))])):
            content = "".join(f"{line}\n" for line in lines).encode()
            (folder / f"{split}.{lang}.gz").write_bytes(gzip.compress(content))
    return folder


def test_alignment_survives_every_odd_character(raw, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    counts = multi30k.extract(Archive([raw]), OPTIONS, out)
    assert counts == {split: {"lines": 8} for split in ("train", "valid", "test2016")}
    for split in ("train", "valid", "test2016", "test2016.raw"):
        for lang in ("en", "de"):
            assert len(list(read_lines(out / f"{split}.{lang}"))) == 8
    assert list(read_lines(out / "train.en"))[-2:] == ["m - n", '"o"']
    assert list(read_lines(out / "test2016.raw.en"))[-2:] == ["m – n", "“o”"]


def test_plain_files_do_as_well(raw, tmp_path):
    for path in list(raw.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    out = tmp_path / "out"
    out.mkdir()
    assert multi30k.extract(Archive([raw]), OPTIONS, out)["train"] == {"lines": 8}


def test_files_in_several_parts_are_read_to_the_end(raw, tmp_path):
    parts = (b"a\nb\n", b"", b"c\n")
    (raw / "val.de.gz").write_bytes(b"".join(gzip.compress(part, mtime=0) for part in parts))
    assert multi30k.decompress(Archive([raw]), "val.de.gz") == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("val.de.gz", None, "val.de.gz"),
        ("val.de.gz", b"\x1f\x8b but no more", "val.de.gz is damaged"),
        ("val.de.gz", gzip.compress(b"x" * 5000, mtime=0)[:-9], "val.de.gz is damaged"),
        ("val.de.gz", gzip.compress(b"gut\nnicht \xff gut\n", mtime=0), "line 2: not valid UTF-8"),
        ("val.de.gz", gzip.compress(b"gut\n", mtime=0) + b"more", "val.de.gz is damaged"),
        ("val.de.gz", gzip.compress(b"", mtime=0), "val.de.gz is empty"),
        ("val.de.gz", b"", "val.de.gz is empty"),
    ],
    ids=["missing", "header", "end", "encoding", "behind the end", "no text", "no bytes"],
)
def test_unusable_files_are_named(raw, tmp_path, name, content, message):
    (raw / name).unlink()
    if content is not None:
        (raw / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        multi30k.extract(Archive([raw]), OPTIONS, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "ja"], "Multi30k has en with de, fr or cs"),
        (["--source", "de", "--target", "fr"], "Multi30k has en with de, fr or cs"),
        (["--tests", "test2018"], "Multi30k has test2016 test2017 testcoco for en-de"),
        (["--target", "cs", "--tests", "testcoco"], "Multi30k has test2016 for en-cs"),
        (["--archive", "nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_wrong_use(tmp_path, arguments, message):
    with pytest.raises(UsageError, match=message):
        multi30k.main([*arguments, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()
