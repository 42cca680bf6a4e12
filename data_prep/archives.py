"""Read files by name out of archives and folders; nothing is ever unpacked to disk."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

from data_prep.fetch import facts
from residual_fairseq.errors import UsageError

_COMPRESSED = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
)
_ZIP = (b"PK\3\4", b"PK\5\6")
_BLOCK = 1 << 20
# A tar file has to be read from its beginning for every file in it, so small ones are kept in
# memory when it is listed, up to a sum.
_SMALL = 2 << 20
_ROOM = 64 << 20
# What the readers raise for content that is not what it should be. RuntimeError: an encrypted zip.
_DAMAGE = (
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class Entry(NamedTuple):
    """A file in an archive: its path there and its number, as a path can occur twice."""

    path: str
    number: int


class Member(NamedTuple):
    """A file on disk, or in an archive on disk (in an archive there ...)."""

    file: Path
    inside: tuple[Entry, ...] = ()

    @property
    def path(self) -> str:
        return self.inside[-1].path if self.inside else self.file.as_posix()

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> tuple[Path, tuple[Entry, ...], str]:
        """What it has in common with the files beside it."""
        above = self.path.rpartition("/")[0]
        return (self.file, self.inside[:-1], above) if self.inside else (self.file.parent, (), "")

    def __str__(self) -> str:
        places = [str(self.file), *(entry.path for entry in self.inside)]
        return _printable(": ".join(places))


class Content(NamedTuple):
    """What an archive says of a file in it, and how it is opened."""

    entry: Entry
    size: int
    open: Callable[[], BinaryIO]


class Archive:
    """Files by name, wherever they lie in folders and archives.

    Args:
        paths: folders, searched with all that is below them, and archives: zip files (and with
            them wheels) and tar files, plain or compressed by gzip, bzip2 or xz. What a file is
            is told from its content.
        inner: names of archives to look into, where they lie in a folder or an archive, for what
            is not to be found otherwise.

    Raises:
        UsageError: a path does not exist, or is neither.
    """

    def __init__(self, paths: Sequence[Path], inner: Sequence[str] = ()) -> None:
        self.paths = [Path(path) for path in paths]
        self.inner = inner
        for path in self.paths:
            if not path.exists():
                raise UsageError(f"--archive {path}: no such file or folder")
        self._members: list[Member] | None = None
        self._inner_members: list[Member] | None = None
        self._kept: dict[Member, bytes] = {}
        self._room = _ROOM

    def find(self, name: str) -> Member:
        """Find a file.

        Args:
            name: its name. It may be preceded by folders ("dev/text.de"): they decide between
                several files of the name, but a file that lies elsewhere is found all the same.

        Raises:
            UsageError: there is no such file, or several that differ, or the archive is damaged.
        """
        found = self._search(name)
        if not found:
            raise UsageError(f"{self}: has no file {name}; {self._describe_content()}")
        digests = {self._digest(member) for member in found} if len(found) > 1 else ()
        if len(digests) > 1:
            places = " and ".join(map(str, found))
            raise UsageError(f"{name} is not the same in {places}: give --archive one of them")
        return found[0]

    def beside(self, name: str) -> Archive:
        """Only what lies in the same folder as a file, where there may be more of the same names.

        Args:
            name: of the file, as in ``find``.

        Raises:
            UsageError: as ``find``.
        """
        found = self.find(name)
        narrowed = copy(self)
        narrowed.inner = ()
        narrowed._members = [
            member
            for member in (*self._members, *(self._inner_members or ()))
            if member.folder == found.folder
        ]
        narrowed._inner_members = None
        return narrowed

    def holds(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return bool(self._search(name))

    def first_of(self, alternatives: Sequence[Sequence[str]]) -> Sequence[str]:
        """The first of several groups of files of which there are all, or else the first."""
        for names in alternatives:
            if all(map(self.holds, names)):
                return names
        return alternatives[0]

    def places(self, names: Iterable[str]) -> tuple[str, ...]:
        """Where files are, for a person.

        Raises:
            UsageError: as ``find``.
        """
        return tuple(str(self.find(name)) for name in names)

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file without their final "\n", and otherwise as they are.

        Args:
            name: as in ``find``.

        Raises:
            UsageError: as ``find``.
        """
        return self._lines(self.find(name))

    def text(self, name: str) -> Iterator[str]:
        """Yield the lines of a UTF-8 file without their final "\n", and otherwise as they are.

        Args:
            name: as in ``find``.

        Raises:
            UsageError: as ``find``, or a line is not UTF-8.
        """
        member = self.find(name)
        return _decode(self._lines(member), member)

    def content(self, name: str) -> bytes:
        """A file as it is.

        Args:
            name: as in ``find``.

        Raises:
            UsageError: as ``find``.
        """
        member = self.find(name)
        with damage_reported(member, member.name), self._opened(member) as file:
            return file.read()

    def facts(self, names: Iterable[str]) -> dict:
        """What tells the files that some text is read from, from others.

        Args:
            names: of the files with the text, as in ``find``. Without folders they are of no
                interest, and are not asked for.

        Returns:
            "bytes" and "sha256" of the archives that were given and, by their path in it, of what
            is used of the folders that were given.

        Raises:
            UsageError: as ``find``.
        """
        files = {path.name: path for path in self.paths if path.is_file()}
        folders = [path for path in self.paths if path.is_dir()]
        if folders:
            used = {self.find(name).file for name in names}
            for folder in folders:
                inside = [file for file in used if folder in file.parents]
                files.update((file.relative_to(folder).as_posix(), file) for file in inside)
        return {name: facts(files[name]) for name in sorted(files)}

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))

    def _search(self, name: str) -> list[Member]:
        """All files of a name: those outside of inner archives, or else those inside."""
        if self._members is None:
            self._members = [
                member for path in self.paths for member in self._list_path(path, name)
            ]
        found = _select(self._members, name)
        if not found and self.inner:
            if self._inner_members is None:
                self._inner_members = [
                    entry
                    for member in self._members
                    if member.name in self.inner
                    for entry in self._list_archive(member, name)
                ]
            found = _select(self._inner_members, name)
        return found

    def _list_path(self, path: Path, wanted: str) -> list[Member]:
        """All files below a folder or in an archive, in a fixed order.

        Args:
            wanted: the file that they are listed for, for errors.
        """
        if path.is_dir():
            return [member for member in _list_folder(path) if not _is_macos(member)]
        return self._list_archive(Member(path), wanted)

    def _list_archive(self, archive: Member, wanted: str) -> list[Member]:
        """All files in an archive. A tar file is read to its end, so damage shows here."""
        members = []
        with damage_reported(archive, wanted), ExitStack() as stack:
            for content in _contents(_open(archive, stack), stack):
                member = Member(archive.file, (*archive.inside, content.entry))
                if _is_macos(member):
                    continue
                members.append(member)
                if content.size <= min(_SMALL, self._room):
                    self._kept[member] = content.open().read()
                    self._room -= content.size
        return members

    def _lines(self, member: Member) -> Iterator[bytes]:
        with damage_reported(member, member.name), self._opened(member) as file:
            for line in file:
                yield line[:-1] if line.endswith(b"\n") else line

    def _digest(self, member: Member) -> str:
        digest = hashlib.sha256()
        with damage_reported(member, member.name), self._opened(member) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    @contextmanager
    def _opened(self, member: Member) -> Iterator[BinaryIO]:
        with ExitStack() as stack:
            kept = self._kept.get(member)
            yield _open(member, stack) if kept is None else io.BytesIO(kept)

    def _describe_content(self) -> str:
        members = [*self._members, *(self._inner_members or ())]
        if not members:
            return "it holds no file at all"
        names = list(dict.fromkeys(_printable(member.name) for member in members))
        others = f" and {len(names) - 4} others" if len(names) > 4 else ""
        return f"it holds {', '.join(names[:4])}{others}"


def zip_lines(
    first: Iterable[str], second: Iterable[str], names: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of two texts.

    Args:
        names: of the two, for the error.

    Raises:
        UsageError: they do not have equally many lines.
    """
    first, second = iter(first), iter(second)
    count = 0
    for pair in zip_longest(first, second):
        if None in pair:
            more = 1 + sum(1 for _ in first) + sum(1 for _ in second)
            lines = [count if line is None else count + more for line in pair]
            raise UsageError(
                f"{names[0]} has {lines[0]} lines and {names[1]} has {lines[1]}: line N of one "
                "has to be the translation of line N of the other; is the archive whole?"
            )
        count += 1
        yield pair


def _select(members: Iterable[Member], name: str) -> list[Member]:
    """The members of a name; only those in its folders, where there are such."""
    found = [member for member in members if member.name == name.rpartition("/")[2]]
    return [member for member in found if f"/{member.path}".endswith(f"/{name}")] or found


def _list_folder(path: Path) -> Iterator[Member]:
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if Path(folder, name).is_file():
                yield Member(Path(folder, name))


def _is_macos(member: Member) -> bool:
    """Whether it is the "._NAME" that macOS puts beside every NAME."""
    return member.name.startswith("._")


def _decode(lines: Iterable[bytes], member: Member) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{member}, line {number}: not valid UTF-8 ({error.reason} at byte "
                f"{error.start + 1} of the line)"
            ) from None


def _open(member: Member, stack: ExitStack) -> BinaryIO:
    """Open a file for reading from its beginning to its end.

    Args:
        stack: closes what was opened.
    """
    file: BinaryIO = stack.enter_context(open(member.file, "rb", buffering=_BLOCK))
    for wanted in member.inside:
        contents = _contents(file, stack)
        file = next(content.open() for content in contents if content.entry == wanted)
    return file


def _contents(file: BinaryIO, stack: ExitStack) -> Iterator[Content]:
    """The files in an archive, each to be opened before the next is asked for, or not at all."""
    beginning = file.peek(8)
    if beginning.startswith(_ZIP):
        archive = stack.enter_context(zipfile.ZipFile(file))
        for number, info in enumerate(archive.infolist()):
            if not info.is_dir():
                entry = Entry(info.filename, number)
                yield Content(entry, info.file_size, partial(archive.open, info))
        return
    for magic, decompress in _COMPRESSED:
        if beginning.startswith(magic):
            file = stack.enter_context(decompress(file))
    archive = stack.enter_context(tarfile.open(fileobj=file, mode="r|", bufsize=_BLOCK))
    for number, info in enumerate(archive):
        if info.isfile():
            entry = Entry(info.name, number)
            yield Content(entry, info.size, partial(archive.extractfile, info))
    # The checksum of compressed data is compared at their end.
    while file.read(_BLOCK):
        pass


@contextmanager
def damage_reported(place: object, wanted: str) -> Iterator[None]:
    """Report in one line that an archive, or a file in it, cannot be read.

    Nothing may be written inside of it: a full disk is no damage.

    Args:
        place: what cannot be read, for a person.
        wanted: the file that it is read for.
    """
    try:
        yield
    except _DAMAGE as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UsageError(
            f"{place}: {wanted} cannot be read from it ({_printable(reason)}); is it the right "
            "archive, and whole?"
        ) from None


def _printable(text: str) -> str:
    """Text in one line that every terminal can show."""
    return "".join(char if char.isprintable() else "?" for char in text)
