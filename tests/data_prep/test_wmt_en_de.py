"""From Google's archive in BPE units to text."""

from __future__ import annotations

import os

import pytest
from archives_made import flat, tar, unpack, wmt_en_de_files, zip_archive
from web_server import Page, serve

from data_prep.fetch import facts, fetch
from data_prep.published import compare
from data_prep.text import check_parallel, read_lines
from data_prep.wmt_en_de import PUBLISHED, SOURCES, TESTS, extract, inputs
from residual_fairseq.errors import UsageError
from residual_fairseq.results import sha256

SHA256 = {
    "train.en": "9fd3e25e7a2a98ed81630ca7a62290b6967ce7a4c553e7f1a33b8874459fcfaa",
    "train.de": "d1eed711b43688ea9c002c2f1308fe39010e550610e9c63864fcfb757aa74f49",
    "valid.en": "9e401ead2c997631d5169c35cf785393de4076ec2bd77bcb249d2ad60e202efb",
    "valid.de": "ffaff042579225e2e4f4b7813d0286c1956fc2144bf2e565b92e0d220c464b24",
    "newstest2014.en": "415a3f1c7f264556c01f3323250685ccf7251f0044996483fbbd953e631c31ef",
    "newstest2014.de": "baa987117c2aa377ba8f1bcc954fd5ca460b0a333c172101d620865664bd36fb",
    "newstest2014.raw.de": "20c13c7e2d4284d0fb36d3746beab0cd90ef203ecccbe2cbbd8182dc760eee01",
    "newstest2016.raw.de": "33fcf99d43300c1b58180419236448398d7e0eab3fcfd9fc824f52d78e3ae5f5",
    "codes": "9509a378e572b54be8161fedb83396eae803155a33485dc41223a7014ed5eba7",
    "vocab": "a884c6c48783638c6747bbc63e7a58026c13acfbc4b87a5969991e60079dcfd1",
}
PAIRS = {"train": 60, "valid": 4, **dict.fromkeys(TESTS, 4)}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def written(folder, content, name="wmt16_en_de.tar.gz"):
    (folder / name).write_bytes(content)
    return folder / name


def sums(folder):
    return {name: sha256(folder / name) for name in SHA256}


FORMS = {
    "tar.gz": lambda folder, files: written(folder, tar(files)),
    "nested": lambda folder, files: written(
        folder, tar({f"./wmt16_en_de/{name}": content for name, content in files.items()})
    ),
    "zip": lambda folder, files: written(folder, zip_archive(files), "wmt.zip"),
    "unpacked": lambda folder, files: unpack(flat(files), folder / "wmt16_en_de_bpe32k"),
    "folder with tar.gz": lambda folder, files: written(folder, tar(files)).parent,
}


@pytest.mark.parametrize("form", FORMS)
def test_counts_and_bytes_are_the_same_from_every_form_of_the_archive(tmp_path, out, form):
    path = FORMS[form](tmp_path, wmt_en_de_files())
    for _ in range(2):
        assert extract([path], out) == {"pairs": PAIRS}
        assert sums(out) == SHA256
        assert len(os.listdir(out)) == 2 * (2 + 2 * len(TESTS)) + 2


def test_the_archive_is_downloaded_and_read(tmp_path, out, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    pages = {
        "drive": Page(b"<!DOCTYPE html><html>Google Drive - Virus scan warning</html>"),
        "mirror": Page(tar(wmt_en_de_files())),
    }
    with serve(pages) as server:
        addresses = server.address("drive"), server.address("mirror")
        path = fetch(SOURCES[0]._replace(addresses=addresses, checksum=None), tmp_path)
    assert extract([path], out) == {"pairs": PAIRS}
    assert sums(out) == SHA256


def test_units_are_left_alone_and_references_are_text(tmp_path, out):
    extract([written(tmp_path, tar(wmt_en_de_files()))], out)
    assert next(read_lines(out / "train.en")) == "The dog see@@ s the tre@@ e 0 ."
    assert list(read_lines(out / "train.en"))[1].endswith(" odd\u2028\x85\x1cunit")
    assert next(read_lines(out / "newstest2014.raw.de")) == 'Der Hund sieht den Baum 201400 " .'
    assert (out / "valid.de").read_bytes() == (out / "newstest2013.de").read_bytes()
    for split in ("train", "valid", *TESTS, *(f"{test}.raw" for test in TESTS)):
        check_parallel(out / f"{split}.en", out / f"{split}.de")


def test_an_archive_without_codes_is_enough(tmp_path, out):
    files = wmt_en_de_files()
    del files["bpe.32000"]
    assert extract([written(tmp_path, tar(files))], out) == {"pairs": PAIRS}
    assert not (out / "codes").exists()


def test_unequal_sides_are_refused(tmp_path, out):
    files = wmt_en_de_files()
    files["train.tok.clean.bpe.32000.en"] += b"one more\n"
    with pytest.raises(UsageError, match="train.*.en has 61 lines and .*train.*.de has 60"):
        extract([written(tmp_path, tar(files))], out)
    assert os.listdir(out) == []


def test_references_have_to_be_of_the_same_sentences(tmp_path, out):
    files = wmt_en_de_files()
    for lang in ("en", "de"):
        files[f"newstest2012.{lang}"] += b"one more\n"
    with pytest.raises(UsageError, match="newstest2012.en has 5 lines and .*bpe.32000.en has 4"):
        extract([written(tmp_path, tar(files))], out)


@pytest.mark.parametrize("name", ["newstest2013.tok.bpe.32000.de", "newstest2016.de"])
def test_a_missing_file_is_named(tmp_path, out, name):
    files = wmt_en_de_files()
    del files[name]
    with pytest.raises(UsageError, match=f"has no file {name}; it holds bpe.32000, vocab.bpe"):
        extract([written(tmp_path, tar(files))], out)


def test_inputs_are_known_without_extracting(tmp_path):
    path = written(tmp_path, tar(wmt_en_de_files()))
    assert inputs([path]) == {"wmt16_en_de.tar.gz": facts(path)}
    folder = unpack(wmt_en_de_files(), tmp_path / "unpacked")
    found = inputs([folder])
    assert len(found) == 2 + 4 * len(TESTS) + 2
    assert found["bpe.32000"] == facts(folder / "bpe.32000")


def test_published_counts_are_compared(tmp_path, out):
    pairs = extract([written(tmp_path, tar(wmt_en_de_files()))], out)["pairs"]
    assert len(compare(pairs, PUBLISHED)) == 8
    assert compare({"train": 4_500_966}, PUBLISHED)[0].startswith("train: 4500966, as published")
