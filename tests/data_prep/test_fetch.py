"""Downloads: what servers, disks and interruptions can do to them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import socket
from collections import namedtuple

import pytest
from web_server import Page, serve

from data_prep import fetch as module
from data_prep.fetch import Source, facts, fetch, obtain, origins
from residual_fairseq.errors import UsageError

# Many blocks, and no two parts of it alike.
BODY = b"".join(number.to_bytes(4, "big") for number in range(500_000))
SHA256 = hashlib.sha256(BODY).hexdigest()
WEB_PAGE = b"\n <!DOCTYPE html><html>Google Drive can't scan this file</html>"


@pytest.fixture
def pages():
    return {"text.tgz": Page(BODY)}


@pytest.fixture
def server(pages, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve(pages) as server:
        yield server


def names(folder):
    return sorted(os.listdir(folder))


def source(server, *paths, **facts):
    return Source("text.tgz", tuple(map(server.address, paths or ["text.tgz"])), **facts)


def test_a_file_is_downloaded_once(server, tmp_path):
    wanted = source(server, checksum=f"sha256:{SHA256}", size=len(BODY))
    path = fetch(wanted, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "text.tgz"
    assert path.read_bytes() == BODY
    assert facts(path) == {"bytes": len(BODY), "sha256": SHA256}
    assert fetch(wanted, path.parent) == path
    assert server.requests == [("text.tgz", "")]
    assert names(path.parent) == ["text.tgz", "text.tgz.json"]
    address = server.address("text.tgz")
    assert origins(["text.tgz"], None, path.parent) == {"text.tgz": address}
    (path.parent / "other.tgz").touch()
    assert origins(["other.tgz"], None, path.parent) == {"other.tgz": "found in --downloads"}
    assert origins(["text.tgz"], path.parent, path.parent) == {"text.tgz": "--archive"}


@pytest.mark.parametrize("given", ["text.tgz", "."])
def test_a_given_file_that_differs_from_the_published_is_used_with_a_warning(
    server, tmp_path, capsys, given
):
    wanted = [source(server, checksum=f"sha256:{SHA256}")]
    (tmp_path / "text.tgz").write_bytes(BODY)
    assert obtain(tmp_path / given, wanted, tmp_path) == [tmp_path / given]
    assert not capsys.readouterr().err
    (tmp_path / "text.tgz").write_bytes(BODY[1:])
    assert obtain(tmp_path / given, wanted, tmp_path) == [tmp_path / given]
    warning = rf"WARNING: .*text\.tgz has sha256 [0-9a-f]+ where {SHA256} is published\n"
    assert re.fullmatch(warning, capsys.readouterr().err)
    assert not server.requests
    assert obtain(None, wanted, tmp_path / "new") == [tmp_path / "new" / "text.tgz"]


def test_md5_is_known_too(server, tmp_path):
    digest = hashlib.md5(BODY).hexdigest()
    fetch(source(server, checksum=f"md5:{digest}"), tmp_path)
    assert names(tmp_path) == ["text.tgz", "text.tgz.json"]


def test_a_server_may_keep_the_length_for_itself(server, pages, tmp_path):
    pages["text.tgz"].length = False
    assert fetch(source(server), tmp_path).read_bytes() == BODY


@pytest.mark.parametrize("known", [{"checksum": "sha256:" + "0" * 64}, {"size": 7}])
def test_a_wrong_file_that_is_there_is_refused_and_kept(server, tmp_path, known):
    (tmp_path / "text.tgz").write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"text\.tgz has .* published: delete it .*--archive"):
        fetch(source(server, **known), tmp_path)
    assert (tmp_path / "text.tgz").read_bytes() == b"mine"
    assert not server.requests


# Several addresses


def test_the_next_address_is_tried_with_a_warning(server, pages, tmp_path, capsys):
    pages["broken"] = Page(b"", 500)
    assert fetch(source(server, "gone", "broken", "text.tgz"), tmp_path).read_bytes() == BODY
    warnings = capsys.readouterr().err.splitlines()
    assert warnings == [
        f"WARNING: no text.tgz from {server.address('gone')}: HTTP 404 Not Found",
        f"WARNING: no text.tgz from {server.address('broken')}: HTTP 500 Internal Server Error",
    ]


def test_an_unreachable_server_is_one_of_the_reasons(server, tmp_path, capsys):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}/text.tgz"
    fetch(Source("text.tgz", (dead, server.address("text.tgz"))), tmp_path)
    assert "Connection refused" in capsys.readouterr().err


def test_a_silent_server_is_given_up(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        dead = f"http://127.0.0.1:{silent.getsockname()[1]}/text.tgz"
        fetch(Source("text.tgz", (dead, server.address("text.tgz"))), tmp_path)
    assert "timed out" in capsys.readouterr().err


def test_another_file_with_the_same_text_is_taken_last(server, pages, tmp_path):
    pages["text.zip"] = Page(b"as a zip")
    other = Source("text.zip", (server.address("text.zip"),))
    wanted = source(server, "gone", otherwise=other)
    assert fetch(wanted, tmp_path).name == "text.zip"
    server.requests.clear()
    assert fetch(wanted, tmp_path).read_bytes() == b"as a zip"
    assert not server.requests


def test_without_any_address_one_line_says_what_to_do(server, tmp_path):
    with pytest.raises(UsageError) as error:
        fetch(source(server, "gone", "gone/too"), tmp_path)
    message = str(error.value)
    assert "text.tgz could not be downloaded" in message
    assert f"{server.address('gone/too')}: HTTP 404 Not Found" in message
    assert "--archive FILE" in message
    assert "\n" not in message
    assert names(tmp_path) == []


# Wrong content


def test_a_web_page_is_not_an_archive(server, pages, tmp_path, capsys):
    pages["drive"] = Page(WEB_PAGE)
    assert fetch(source(server, "drive", "text.tgz"), tmp_path).read_bytes() == BODY
    assert "answers with a web page instead of the file" in capsys.readouterr().err


def test_a_web_page_does_not_cost_what_has_come(server, pages, tmp_path):
    pages["drive"] = Page(WEB_PAGE)
    interrupted(server, pages, tmp_path)
    assert fetch(source(server, "drive", "text.tgz"), tmp_path).read_bytes() == BODY
    assert server.requests[-1] == ("text.tgz", "bytes=1000000-")


def test_a_wrong_checksum_leads_to_the_next_address(server, pages, tmp_path, capsys):
    pages["other"] = Page(BODY[:-1] + b"?")
    wanted = source(server, "other", "text.tgz", checksum=f"sha256:{SHA256}")
    assert fetch(wanted, tmp_path).read_bytes() == BODY
    assert f"where {SHA256} is published" in capsys.readouterr().err
    with pytest.raises(UsageError, match="has sha256 .* where .* is published"):
        fetch(source(server, "other", checksum=f"sha256:{SHA256}"), tmp_path / "new")
    assert names(tmp_path / "new") == []


def test_a_wrong_length_is_known_before_the_download(server, pages, tmp_path):
    pages["short"] = Page(BODY[:1_000])
    with pytest.raises(UsageError, match="has 1000 bytes where 2000000 are published"):
        fetch(source(server, "short", size=len(BODY)), tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("length", [True, False])
def test_an_empty_file_is_none(server, pages, tmp_path, length):
    pages["empty"] = Page(b"", length=length)
    with pytest.raises(UsageError, match="answers with no content"):
        fetch(source(server, "empty"), tmp_path)
    assert names(tmp_path) == []


# Interruptions


def interrupted(server, pages, folder, path="text.tgz"):
    """Leave a download behind that broke off."""
    pages[path].cuts = [1_000_000, 0]
    with pytest.raises(UsageError, match="ended after 1000000 of 2000000 bytes"):
        fetch(source(server, path), folder)
    assert names(folder) == ["text.tgz.part", "text.tgz.part.json"]
    server.requests.clear()


def test_a_broken_connection_is_taken_up_again(server, pages, tmp_path):
    pages["text.tgz"].cuts = [1_100_000, 400_000]
    assert fetch(source(server), tmp_path).read_bytes() == BODY
    ranges = [wanted for _, wanted in server.requests]
    assert ranges == ["", "bytes=1100000-", "bytes=1500000-"]
    assert names(tmp_path) == ["text.tgz", "text.tgz.json"]


def test_a_later_run_goes_on_where_it_stopped(server, pages, tmp_path):
    interrupted(server, pages, tmp_path)
    assert fetch(source(server, checksum=f"sha256:{SHA256}"), tmp_path).read_bytes() == BODY
    assert server.requests == [("text.tgz", "bytes=1000000-")]


def test_an_address_that_always_breaks_off_is_left(server, pages, tmp_path):
    pages["text.tgz"].cuts = [100_000] * 50
    with pytest.raises(UsageError, match="ended after 500000 of 2000000 bytes"):
        fetch(source(server), tmp_path)
    assert len(server.requests) == module.CONNECTIONS


def test_a_server_without_ranges_sends_all_of_it_again(server, pages, tmp_path):
    pages["text.tgz"].ranges = False
    pages["text.tgz"].cuts = [1_000_000]
    assert fetch(source(server), tmp_path).read_bytes() == BODY
    assert server.requests == [("text.tgz", ""), ("text.tgz", "bytes=1000000-")]


@pytest.mark.parametrize(
    "change",
    [
        {"version": '"2"'},
        {"body": BODY[::-1] + b"longer", "version": '"1"'},
        {"body": BODY[:999], "version": '"1"'},
        {"lies": "bytes 7-1999999/2000000"},
        {"lies": "nonsense"},
    ],
    ids=["version", "longer", "shorter", "range", "nonsense"],
)
def test_a_changed_file_is_not_put_together_with_the_old(server, pages, tmp_path, change):
    interrupted(server, pages, tmp_path)
    for name, value in change.items():
        setattr(pages["text.tgz"], name, value)
    assert fetch(source(server), tmp_path).read_bytes() == pages["text.tgz"].body
    assert server.requests[-1] == ("text.tgz", "")


def test_what_came_from_one_address_is_not_continued_at_another(server, pages, tmp_path):
    pages["mirror"] = Page(BODY[::-1])
    interrupted(server, pages, tmp_path)
    assert fetch(source(server, "mirror"), tmp_path).read_bytes() == BODY[::-1]
    assert server.requests == [("mirror", "")]


def test_a_complete_part_is_not_downloaded_again(server, pages, tmp_path):
    interrupted(server, pages, tmp_path)
    (tmp_path / "text.tgz.part").write_bytes(BODY)
    fetch(source(server, checksum=f"sha256:{SHA256}"), tmp_path)
    assert not server.requests


def test_a_spoilt_part_is_downloaded_again(server, pages, tmp_path):
    interrupted(server, pages, tmp_path)
    (tmp_path / "text.tgz.part").write_bytes(b"?" * 1_000_000)
    assert fetch(source(server, checksum=f"sha256:{SHA256}"), tmp_path).read_bytes() == BODY
    assert [wanted for _, wanted in server.requests] == ["bytes=1000000-", ""]


# Disks


def test_a_disk_that_is_too_small_is_known_before_the_download(server, tmp_path, monkeypatch):
    usage = namedtuple("usage", "free")(len(BODY) - 1)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UsageError, match="2000000 more bytes are needed for text.tgz") as error:
        fetch(source(server), tmp_path)
    assert str(tmp_path) in str(error.value)


class Filling:
    """A file on a disk that is full after 600,000 bytes."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, block):
        room = 600_000 - self.file.tell()
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(block[:room])


def test_a_disk_that_gets_full_keeps_what_has_come(server, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            module, "open", lambda *args, **kwargs: Filling(open(*args, **kwargs)), raising=False
        )
        with pytest.raises(UsageError, match="1400000 more bytes are needed for text.tgz") as error:
            fetch(source(server), tmp_path)
    assert str(tmp_path) in str(error.value)
    assert json.loads((tmp_path / "text.tgz.part.json").read_text())["length"] == len(BODY)
    assert fetch(source(server), tmp_path).read_bytes() == BODY
    assert server.requests[-1] == ("text.tgz", "bytes=600000-")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_disk_that_is_full_is_one_line(server, tmp_path):
    (tmp_path / "text.tgz.part").symlink_to("/dev/full")
    with pytest.raises(UsageError, match="no space left, 2000000 more bytes are needed"):
        fetch(source(server), tmp_path)


def test_a_folder_that_cannot_be_made_is_one_line(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file.*Not a directory|file.*File exists"):
        fetch(source(server), tmp_path / "file" / "folder")
