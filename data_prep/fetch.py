"""Download the archives of a corpus: from several addresses in turn, resumable, and checked."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tqdm import tqdm

from residual_fairseq.errors import UsageError
from residual_fairseq.results import read_json, sha256, write_json

#: Seconds without a byte after which an address is given up.
TIMEOUT = 30
#: Connections to one address at most, when each breaks off but brings something.
CONNECTIONS = 5
BLOCK = 1 << 16


class NotAvailable(UsageError):
    """No address gives a file."""


class Source(NamedTuple):
    """A file to download.

    Args:
        name: of the file.
        addresses: where it is, tried in turn; those known to be dead come last.
        checksum: "md5:..." or "sha256:..." in hexadecimal, where one is published.
        size: in bytes, where it is published.
        otherwise: another file with the same text, for when no address gives this one.
    """

    name: str
    addresses: tuple[str, ...]
    checksum: str | None = None
    size: int | None = None
    otherwise: Source | None = None


def facts(path: Path) -> dict:
    """What tells a file from others: its "bytes" and "sha256"."""
    return {"bytes": path.stat().st_size, "sha256": sha256(path)}


def obtain(archive: Path | None, sources: Sequence[Source], downloads: Path) -> list[Path]:
    """What to read a corpus from: a file or folder of the user's, otherwise downloads.

    A given file that has the name of a published one but is another is used all the same, with a
    warning: it may be packed anew, or cut short.

    Args:
        archive: what ``--archive`` was given, if it was.
        sources: the files to download.
        downloads: where to put them.

    Raises:
        UsageError: as ``fetch``.
    """
    if archive is None:
        return [fetch(source, downloads) for source in sources]
    for source in sources:
        path = archive / source.name if archive.is_dir() else archive
        wrong = find_fault(path, source) if path.name == source.name and path.is_file() else None
        if wrong:
            print(f"WARNING: {path} {wrong}", file=sys.stderr)
    return [archive]


def origins(inputs: Iterable[str], archive: Path | None, downloads: Path) -> dict[str, str]:
    """Where files are from, as ``corpus.json`` says it.

    Args:
        inputs: names of the files.
        archive: what ``--archive`` was given, if it was.
        downloads: where they are otherwise.

    Returns:
        by name "--archive", the address, or "found in --downloads" for what is of another's.
    """
    if archive is not None:
        return dict.fromkeys(inputs, "--archive")
    known = {name: read_json(_origin_file(downloads / name)) for name in inputs}
    return {
        name: origin["address"] if origin else "found in --downloads"
        for name, origin in known.items()
    }


def _origin_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def fetch(source: Source, folder: Path) -> Path:
    """Download a file, unless it is there; ``NAME.json`` beside it says from where.

    A download that was interrupted goes on where it stopped, in ``NAME.part``, if the server still
    has the same file. The file is checked before it gets its name.

    Args:
        source: the file, and others to take in its place.
        folder: where to put it; made if need be.

    Returns:
        the path of the file; it has the name of the ``otherwise`` that was taken, if one was.

    Raises:
        NotAvailable: no address gives the file.
        UsageError: the disk is full, or the file that is there already is not the right one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    choices = [source]
    while choices[-1].otherwise:
        choices.append(choices[-1].otherwise)
    for choice in choices:
        path = folder / choice.name
        if path.exists():
            wrong = find_fault(path, choice)
            if wrong:
                raise UsageError(
                    f"{path} {wrong}: delete it to download it again, or give the file to use "
                    "with --archive FILE"
                )
            return path
    reason = ""
    for choice in choices:
        for address in choice.addresses:
            try:
                return _Download(choice, address, folder).run()
            except _Failure as failure:
                reason = f"{address}: {failure}"
                print(f"WARNING: no {choice.name} from {reason}", file=sys.stderr)
    raise NotAvailable(
        f"{source.name} could not be downloaded; tried last was {reason}. Get it another way and "
        "give it with --archive FILE"
    )


def find_fault(path: Path, source: Source) -> str | None:
    """Say what is wrong with a file that was downloaded; None if nothing is."""
    with open(path, "rb") as file:
        if _is_web_page(file.read(BLOCK)):
            return "is a web page instead of the file"
    size = path.stat().st_size
    if source.size not in (None, size):
        return f"has {size} bytes where {source.size} are published"
    if source.checksum:
        kind, published = source.checksum.split(":")
        digest = hashlib.new(kind, usedforsecurity=False)
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(BLOCK), b""):
                digest.update(block)
        if digest.hexdigest() != published:
            return f"has {kind} {digest.hexdigest()} where {published} is published"
    return None


class _Failure(Exception):
    """An address does not give the file; the message says why."""


class _Interrupted(_Failure):
    """The connection broke off; what has come is kept."""


class _Download:
    """The download of a file from one address.

    Beside ``NAME.part`` there is a ``NAME.part.json``, which says where it is from, how long the
    whole file is and what version of it the server said it has.
    """

    def __init__(self, source: Source, address: str, folder: Path) -> None:
        self.source = source
        self.address = address
        self.path = folder / source.name
        self.part = folder / f"{source.name}.part"
        self.state = folder / f"{source.name}.part.json"

    def run(self) -> Path:
        """Download, check, and rename into place.

        Returns:
            the path of the file.

        Raises:
            _Failure: the address does not give the file.
        """
        print(f"{self.source.name}: downloading from {self.address}", flush=True)
        resumed = self.receive()
        wrong = find_fault(self.part, self.source)
        if wrong and resumed:
            # What was there before may be to blame.
            self.discard()
            self.receive()
            wrong = find_fault(self.part, self.source)
        if wrong:
            self.discard()
            raise _Failure(wrong)
        write_json(_origin_file(self.path), {"address": self.address})
        os.replace(self.part, self.path)
        self.state.unlink(missing_ok=True)
        return self.path

    def discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)

    def received(self) -> int:
        """The number of bytes in ``NAME.part``."""
        return self.part.stat().st_size if self.part.exists() else 0

    def receive(self) -> bool:
        """Bring ``NAME.part`` to its full length.

        Returns:
            whether it was put together from more than one connection.
        """
        connections = 0
        while True:
            before = self.received()
            connections += 1
            try:
                return self.connect() or connections > 1
            except _Interrupted:
                if self.received() <= before or connections == CONNECTIONS:
                    raise

    def connect(self) -> bool:
        """Receive what is missing over one connection.

        Returns:
            whether something was there already.
        """
        known = read_json(self.state) or {}
        # What has come from another address may be another file.
        start = self.received() if known.get("address") == self.address else 0
        if start and start == known.get("length"):
            return True
        headers = {"User-Agent": "residual_fairseq"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            response = urlopen(Request(self.address, headers=headers), timeout=TIMEOUT)
        except HTTPError as error:
            error.close()
            if start and error.code == 416:
                return self.start_over()
            raise _Failure(f"HTTP {error.code} {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise _Failure(_describe(error)) from None
        with response:
            partial = start > 0 and response.status == 206
            first, length = _extent(response)
            version = response.headers.get("ETag") or response.headers.get("Last-Modified")
            now = {"address": self.address, "length": length, "version": version}
            if partial and (first != start or now != known):
                return self.start_over()
            if self.source.size is not None and length not in (None, self.source.size):
                raise _Failure(f"has {length} bytes where {self.source.size} are published")
            self.write(response, start if partial else 0, now)
        return partial

    def start_over(self) -> bool:
        self.discard()
        return self.connect()

    def write(self, response: HTTPResponse, start: int, now: dict) -> None:
        """Write what a connection brings from byte ``start`` on.

        Args:
            now: content for ``NAME.part.json``.
        """
        length = now["length"]
        block = self.read(response, start, length)
        if not start and not block:
            raise _Failure("answers with no content")
        if not start and _is_web_page(block):
            raise _Failure("answers with a web page instead of the file")
        if length is not None and shutil.disk_usage(self.path.parent).free < length - start:
            raise self.disk_full(length - start)
        done = start
        try:
            with (
                open(self.part, "ab" if start else "wb", buffering=0) as file,
                tqdm(
                    desc=self.source.name,
                    total=length,
                    initial=start,
                    unit="B",
                    unit_scale=True,
                    disable=None,
                ) as bar,
            ):
                write_json(self.state, now)
                while block:
                    rest = memoryview(block)
                    while rest:
                        written = file.write(rest)
                        done += written
                        rest = rest[written:]
                    bar.update(len(block))
                    block = self.read(response, done, length)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise self.disk_full(None if length is None else length - done) from None
            raise UsageError(f"{self.part}: {error.strerror}") from None
        if length is not None and done < length:
            raise _Interrupted(f"the connection ended after {done} of {length} bytes")

    def read(self, response: HTTPResponse, done: int, length: int | None) -> bytes:
        try:
            return response.read(BLOCK)
        except (OSError, HTTPException) as error:
            raise _Interrupted(
                f"the connection broke after {done} of {length or 'unknown'} bytes "
                f"({_describe(error)})"
            ) from None

    def disk_full(self, missing: int | None) -> UsageError:
        needed = "more space is" if missing is None else f"{missing} more bytes are"
        return UsageError(
            f"{self.path.parent}: no space left, {needed} needed for {self.source.name}; make "
            "room and run again, what has come is kept"
        )


def _extent(response: HTTPResponse) -> tuple[int, int | None]:
    """The first byte of an answer, and the length of the whole file if the server says so."""
    if response.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
        return (int(found[1]), int(found[2])) if found else (-1, None)
    length = response.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _is_web_page(beginning: bytes) -> bool:
    return beginning.lstrip()[:20].lower().startswith((b"<!doctype html", b"<html"))


def _describe(error: Exception) -> str:
    """An error of the network in one line."""
    reason = error.reason if isinstance(error, URLError) else error
    return " ".join(str(reason).split()) or type(reason).__name__
