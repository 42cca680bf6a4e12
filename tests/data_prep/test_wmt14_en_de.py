"""From the corpora of statmt.org to plain text."""

from __future__ import annotations

import os
import tarfile

import pytest
from archives_made import sentences, tar, text, unpack, wmt14_en_de_archives
from web_server import Page, serve

from data_prep.archives import Archive
from data_prep.fetch import facts, fetch
from data_prep.published import compare
from data_prep.text import check_parallel, read_lines
from data_prep.wmt14_en_de import PUBLISHED, SOURCES, extract, inputs, sources
from residual_fairseq.errors import UsageError
from residual_fairseq.results import sha256

SHA256 = {
    "train.en": "9a75352af335b56ae56c99ee26d14d4f9e09e1b614fd7828ca85d4f57eea4c19",
    "train.de": "ef9b7e094cd6751a28fb5cf1e6455712cab66540aff307451ae9b9dca3e60c83",
    "valid.en": "eff59d19a9bfee2d1581438a29b4907c6f754ac3b6805cc9ad9380228c13ca83",
    "valid.de": "7df39363dfa80ea0595d27598b18b1c2b193113d357813bbdbf026d0199954df",
    "newstest2014.en": "5e487c43d1bd82e167364353bcca5903a1ef3865ec7900d9afa78abb986161e5",
    "newstest2014.de": "2f260a83d2cc7871511d9af8924d8d9cd685bbce5c7988d26e05d326fa905fe4",
    "newstest2014.raw.en": "c6bcf48df3cd3e30ab24fcdcaa2540db9aa08a51578906ce7a303a7634f6f32a",
    "newstest2014.raw.de": "a4849d59c41985e9cd27cfee77661c2dcee9d25ea04eaa04bc48db8107dd9c87",
}
PAIRS = {
    "europarl-v7": 43,
    "commoncrawl": 30,
    "news-commentary-v9": 30,
    "train": 103,
    "valid": 5,
    "newstest2014": 5,
}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def archives(tmp_path):
    return unpack(wmt14_en_de_archives(), tmp_path / "archives")


def sums(folder):
    return {name: sha256(folder / name) for name in os.listdir(folder)}


def unpacked(archives, folder):
    """What the archives hold, each in the folder that they are unpacked to."""
    for path in archives.iterdir():
        with tarfile.open(path) as archive:
            files = {name: archive.extractfile(name).read() for name in archive.getnames()}
        unpack(files, folder)
    return folder


def test_counts_and_bytes_are_the_same_from_every_form_of_the_archives(archives, tmp_path, out):
    paths = [archives / source.name for source in SOURCES]
    for given in (paths, [archives], [unpacked(archives, tmp_path / "unpacked")]):
        for _ in range(2):
            assert extract(given, out) == {"pairs": PAIRS}
            assert sums(out) == SHA256


def test_the_archives_are_downloaded_and_read(archives, tmp_path, out, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve({path.name: Page(path.read_bytes()) for path in archives.iterdir()}) as server:
        paths = [
            fetch(
                source._replace(addresses=(server.address(source.name),), checksum=None),
                tmp_path / "download",
            )
            for source in SOURCES
        ]
    assert extract(paths, out) == {"pairs": PAIRS}
    assert sums(out) == SHA256


def test_the_number_of_processes_does_not_matter(archives, out):
    extract([archives], out, workers=2)
    assert sums(out) == SHA256


def test_the_other_version_of_news_commentary(archives, out):
    counts = extract([archives], out, news_commentary="v12")
    assert counts["pairs"] == {name.replace("v9", "v12"): count for name, count in PAIRS.items()}
    changed = {name for name, digest in sums(out).items() if digest != SHA256[name]}
    assert changed == {"train.en", "train.de"}
    assert sources("v12")[2].name == "training-parallel-nc-v12.tgz"
    with pytest.raises(UsageError, match="--news-commentary v10: has to be v9 or v12"):
        sources("v10")


def test_only_the_punctuation_of_the_training_text_is_normalised(archives, out):
    extract([archives], out)
    assert list(read_lines(out / "train.en"))[1:3] == ['It - "1.000" ...', "The soft hyphen  ."]
    assert list(read_lines(out / "train.de"))[1:3] == ['Es "1,000".', 'Er sagte: "Nein".']
    assert list(read_lines(out / "newstest2014.de"))[1] == "F&amp;E ist's \u201eso\u201c."
    assert list(read_lines(out / "newstest2014.raw.de"))[1] == "F&E ist\u2019s \u201eso\u201c."
    assert list(read_lines(out / "newstest2014.raw.en"))[1] == 'R&D isn\u2019t bare & "odd" .'
    extract([archives], out, normalise_punctuation=False)
    assert list(read_lines(out / "train.en"))[1] == "It \u2013 \u201c1\xa0000\u201d \u2026"


def test_the_lines_that_tools_split_stay_pairs(archives, out):
    extract([archives], out, normalise_punctuation=False)
    for split in ("train", "valid", "newstest2014", "newstest2014.raw"):
        check_parallel(out / f"{split}.en", out / f"{split}.de")
    german = list(read_lines(out / "train.de"))
    assert all(
        ("seltsam" in german[number]) == line.startswith("odd")
        for number, line in enumerate(read_lines(out / "train.en"))
    )


def test_the_full_test_set_is_taken_not_that_among_the_development_sets(archives, out):
    extract([archives], out)
    dev = Archive([archives / "dev.tgz"])
    assert sum("<seg" in line for line in dev.text("newstest2014-deen-ref.de.sgm")) == 3
    assert len(list(read_lines(out / "newstest2014.de"))) == 5


def test_the_validation_set_may_be_plain_text(archives, out):
    files = {
        f"dev/newstest2013.{lang}": text([pair[side] for pair in sentences(5, 20_130)])
        for side, lang in enumerate(("en", "de"))
    }
    (archives / "dev.tgz").write_bytes(tar(files))
    extract([archives], out)
    assert sums(out) == SHA256


def test_a_missing_archive_shows_in_what_is_missing(archives, out):
    (archives / "training-parallel-commoncrawl.tgz").unlink()
    with pytest.raises(UsageError, match=r"archives: has no file commoncrawl.de-en.en; it holds"):
        extract([archives], out)
    assert os.listdir(out) == []


def test_unequal_sides_are_refused(archives, out):
    files = {
        "commoncrawl.de-en.en": b"one\ntwo\n",
        "commoncrawl.de-en.de": b"eins\nzwei\ndrei\n",
    }
    (archives / "training-parallel-commoncrawl.tgz").write_bytes(tar(files))
    with pytest.raises(UsageError, match="commoncrawl.de-en.en has 2 lines and .*de has 3"):
        extract([archives], out)
    assert os.listdir(out) == []


def test_inputs_are_known_without_extracting(archives):
    paths = [archives / source.name for source in SOURCES]
    expected = {path.name: facts(path) for path in sorted(paths)}
    assert inputs(paths) == expected
    assert inputs([archives]) == expected


def test_published_counts_are_compared(archives, out):
    pairs = extract([archives], out)["pairs"]
    assert len(compare(pairs, PUBLISHED["v9"])) == 2
    assert len(compare(pairs, PUBLISHED["v12"])) == 3
    total = PUBLISHED["v12"]["train"].count
    assert total - total // 100 == 4_544_200
