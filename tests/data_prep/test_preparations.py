"""Every preparation from end to end: downloaded from a server, and from disk.

Golden are the extracted text and the numbers of sentences, which only depend on us. Tokens and
units depend on the versions of libraries: of them it is checked that they come out alike again,
from the other source and with another number of processes.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType

import pytest
from archives_made import (
    home_assistant_wheel,
    iwslt14_files,
    multi30k_files,
    opus100_archives,
    tar,
    unpack,
    wmt14_en_de_archives,
    wmt_en_de_files,
)
from web_server import Page, Server, serve

from data_prep import home_assistant, iwslt14, multi30k, opus100, wmt14_en_de, wmt_en_de
from residual_fairseq.results import sha256


@dataclass
class Case:
    """A preparation, and what comes out of it.

    Args:
        module: with its ``main``.
        files: what it downloads, by name.
        redirect: lets it download from a server of ours.
        flags: for its command line.
        pages: what the server has besides ``files``.
    """

    module: ModuleType
    files: Mapping[str, bytes]
    redirect: Callable[[pytest.MonkeyPatch, Server, Mapping[str, bytes]], None]
    flags: str
    pages: Mapping[str, Page] = field(default_factory=dict)


def digest_of(content):
    return hashlib.sha256(content).hexdigest()


def redirect_sources(module):
    """Of a module whose ``SOURCES`` say what it downloads."""

    def redirect(patch, server, files):
        sources = tuple(
            source._replace(
                addresses=(server.address("gone"), server.address(source.name)),
                checksum=f"sha256:{digest_of(files[source.name])}",
                size=None,
                otherwise=None,
            )
            for source in module.SOURCES
        )
        patch.setattr(module, "SOURCES", sources)
        if hasattr(module, "sources"):
            patch.setattr(module, "sources", lambda *_: sources)

    return redirect


def redirect_multi30k(patch, server, files):
    patch.setattr(multi30k, "ADDRESSES", (server.address("gone"), server.root))
    patch.setattr(multi30k, "CHECKSUMS", {name: digest_of(body) for name, body in files.items()})


def redirect_opus100(patch, server, files):
    pairs = dict(opus100.PAIRS)
    for name, pair in pairs.items():
        body = files.get(opus100.source_of(name).name, b"")
        pairs[name] = pair._replace(archive_bytes=len(body), sha256=digest_of(body))
    patch.setattr(opus100, "PAIRS", pairs)
    patch.setattr(opus100, "BASE", server.address("opus-100-corpus-{}-v1.0.tar.gz"))


def redirect_pip(patch, server, files):
    patch.setenv("PIP_INDEX_URL", server.address("simple/"))
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")
    patch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    patch.setattr(home_assistant, "SHA256", digest_of(files[home_assistant.WHEEL]))


CASES = {
    "multi30k": Case(
        multi30k,
        multi30k_files(),
        redirect_multi30k,
        "--bpe-merges 60",
    ),
    "iwslt14": Case(
        iwslt14,
        {"de-en.tgz": tar(iwslt14_files())},
        redirect_sources(iwslt14),
        "--bpe-merges 60",
    ),
    "wmt_en_de": Case(
        wmt_en_de,
        {"wmt16_en_de.tar.gz": tar(wmt_en_de_files())},
        redirect_sources(wmt_en_de),
        "",
    ),
    "wmt14_en_de": Case(
        wmt14_en_de,
        {
            name: body
            for name, body in wmt14_en_de_archives().items()
            if name != "training-parallel-nc-v12.tgz"
        },
        redirect_sources(wmt14_en_de),
        "--bpe-merges 60",
    ),
    "opus100": Case(
        opus100,
        opus100_archives(lines=40),
        redirect_opus100,
        "--pairs 'an de fr' --vocabulary-size 300",
    ),
    "home_assistant": Case(
        home_assistant,
        {home_assistant.WHEEL: home_assistant_wheel()},
        redirect_pip,
        "--bpe-merges 60",
        {
            "simple/homeassistant/": Page(
                f'<a href="../../{home_assistant.WHEEL}">{home_assistant.WHEEL}</a>'.encode(),
                type="text/html",
            )
        },
    ),
}


def sentences_of(record):
    """How many sentences each split of a ``corpus.json`` has."""
    counts = record["counts"]["binarise"]
    corpora = counts if "task" in record else {"": counts}
    return {
        f"{pair} {split}".strip(): next(iter(facts.values()))["sentences"]
        for pair, splits in corpora.items()
        for split, facts in splits.items()
        if isinstance(facts, dict) and not split.startswith("dictionar")
    }


class Extracted(Exception):
    """Ends a preparation before its slow stages."""


@pytest.mark.parametrize("name", [name for name in CASES if name != "opus100"])
def test_the_extracted_text_is_golden(name, tmp_path, monkeypatch):
    """The text of OPUS-100 here depends on Babel; its own test compares it with its archives."""
    case = CASES[name]
    folder, out = unpack(case.files, tmp_path / "archives"), tmp_path / "out"
    out.mkdir()

    def extract_only(text, *_):
        text.extract(out)
        raise Extracted

    monkeypatch.setattr(case.module, "prepare", extract_only)
    with pytest.raises(Extracted):
        case.module.main([*case.flags.split(), "--archive", str(folder), "--out", str(out)])
    sums = {path.name: sha256(path) for path in sorted(out.iterdir())}
    assert digest_of(json.dumps(sums).encode()) == EXTRACTED[name], sums


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_from_a_server_and_from_disk_the_same_comes_out(name, tmp_path, monkeypatch, capsys):
    case = CASES[name]
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder = unpack(case.files, tmp_path / "archives")
    flags = shlex.split(case.flags)
    pages = {name: Page(body) for name, body in case.files.items()}
    with serve({**pages, **case.pages}) as server:
        case.redirect(monkeypatch, server, case.files)
        served = [*flags, "--downloads", str(tmp_path / "downloads"), "--workers", "1"]
        case.module.main([*served, "--out", str(tmp_path / "served")])
    disk = [*flags, "--archive", str(folder), "--workers", "2"]
    case.module.main([*disk, "--out", str(tmp_path / "disk")])
    records = [
        json.loads((tmp_path / out / "corpus.json").read_text()) for out in ("served", "disk")
    ]
    origins = [record.pop("sources") for record in records]
    assert records[0] == records[1]
    for output in records[0]["outputs"]:
        content = (tmp_path / "served" / output).read_bytes()
        assert content == (tmp_path / "disk" / output).read_bytes()
    assert set(origins[0]) == set(case.files) == set(records[0]["inputs"])
    assert all(
        origin.startswith((server.root, "pip download homeassistant==2026"))
        for origin in origins[0].values()
    )
    assert set(origins[1].values()) == {"--archive"}
    assert sentences_of(records[0]) == SENTENCES[name]
    if name == "wmt_en_de":
        codes = (tmp_path / "served" / "codes").read_bytes()
        assert codes == wmt_en_de_files()["bpe.32000"]
        said = capsys.readouterr().out
        assert "WARNING: units of newstest2014.en, with ends of sentences: " in said
        assert "WARNING: symbols of the dictionary: " in said


SENTENCES = {
    "multi30k": {"train": 41, "valid": 4, "test2016": 4, "test2017": 4, "testcoco": 4},
    "iwslt14": {"train": 68, "valid": 3, "test": 25},
    "wmt_en_de": {"train": 60, "valid": 4, **dict.fromkeys(wmt_en_de.TESTS, 4)},
    "wmt14_en_de": {"train": 101, "valid": 5, "newstest2014": 5},
    "opus100": {
        **{f"{pair} train": 40 for pair in ("de-en", "en-fr", "an-en")},
        **{f"{pair} valid": 8 for pair in ("de-en", "en-fr")},
        **{f"{pair} test": 12 for pair in ("de-en", "en-fr", "de-fr")},
    },
    "home_assistant": {"train": 205, "valid": 12, "test": 24},
}

#: SHA-256 of a list of the SHA-256 of all files.
EXTRACTED = {
    "multi30k": "c0519a62d2b09f2ce530f35f6284c8e1d86dcd0e171a9dcead9cf8e102fc2073",
    "iwslt14": "502886c1a1cd2b91d4119bbd2afadf2ca4e6865842e4542a1f61deec3a6af039",
    "wmt_en_de": "446664a86599d8aced244e087f11c553b1596aaa61d590d73444ecc9c31feb9a",
    "wmt14_en_de": "5ff33008ecb8ca8c2b7017c16a69442dba8406e69a8292abe066165287a3128e",
    "home_assistant": "04281659d40b63fb7e50b5f7f5340ea79e107b25f1842db1c2ab667a816ef1ef",
}
