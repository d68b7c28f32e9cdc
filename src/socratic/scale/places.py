"""Files on any file system that pyarrow knows: local ones, object stores, and those a program brings itself."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from socratic.errors import DataFileError
from socratic.files import replacing
from socratic.tables.batches import import_pyarrow

_APPEAR_WHOLE = ("s3", "gcs", "abfs")
"""Object stores: what is written to them is there when all of it is, and renaming would copy it."""


class Facts(NamedTuple):
    """What is known of a file without reading it; of what is no file, that it is none."""

    is_file: bool
    size: int = 0
    """In bytes."""
    modified: int = 0
    """When it was last changed, in nanoseconds."""

    @classmethod
    def of(cls, info: Any) -> Facts:
        """What a ``pyarrow.fs.FileInfo`` says."""
        return cls(True, int(info.size or 0), int(info.mtime_ns or 0)) if info.is_file else cls(False)

    @classmethod
    def of_local(cls, path: Path) -> Facts:
        """What the machine's own file system says; a link stands for what it leads to."""
        try:
            found = path.stat()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return cls(False)
            raise
        return cls(True, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else cls(False)


@dataclass(frozen=True)
class Place:
    """A file or folder on a file system; it can be pickled.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
    path : str
        As the file system writes it, with ``/``.
    """

    filesystem: Any
    path: str

    @classmethod
    def of(cls, given: PlaceLike) -> Place:
        """The place that a path or a URI, such as ``s3://bucket/folder``, stands for."""
        if isinstance(given, Place):
            return given
        pa = import_pyarrow()
        from pyarrow import fs

        text = os.fspath(given)
        if "://" not in text:
            return cls(fs.LocalFileSystem(), Path(text).resolve().as_posix())
        try:
            return cls(*fs.FileSystem.from_uri(text))
        except (pa.ArrowException, OSError) as error:
            raise DataFileError(f"{text} leads nowhere ({error}); write it as s3://bucket/folder or a path") from None

    def __truediv__(self, name: str) -> Place:
        return Place(self.filesystem, self._start + name)

    def __str__(self) -> str:
        return self.path if self.local is not None else f"{self.filesystem.type_name}://{self.path}"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Place:
        """The folder it lies in."""
        return Place(self.filesystem, self.path.rstrip("/").rpartition("/")[0])

    @property
    def local(self) -> Path | None:
        """The path on this machine's own file system, if it is there."""
        return Path(self.path) if self.filesystem.type_name == "local" else None

    @property
    def _start(self) -> str:
        """What the paths of files in this folder start with."""
        return f"{self.path.rstrip('/')}/" if self.path else ""  # "" is the top of some file systems

    def facts(self) -> Facts:
        """What is known of the file that may be here."""
        return Facts.of(self.filesystem.get_file_info(self.path)) if self.local is None else Facts.of_local(self.local)

    def files(self) -> dict[str, Facts]:
        """All files in the folder, at any depth, by path from here, sorted; on this machine each of them once.

        There a link leads to files once: not if they are in the folder under a name of their own, or under that of a
        link before it, and never back to the folder or one around it.
        """
        if self.local is not None:
            found = {path: Facts.of_local(self.local / path) for path in _local_files(self.local)}
        else:
            from pyarrow import fs

            selector = fs.FileSelector(self.path, allow_not_found=True, recursive=True)
            listed = self.filesystem.get_file_info(selector)
            found = {info.path.removeprefix(self._start): Facts.of(info) for info in listed}
        return {path: facts for path, facts in sorted(found.items()) if facts.is_file}

    def holds(self, other: Place) -> bool:
        """Whether the other place is this one or lies in it."""
        return bool(self.filesystem.equals(other.filesystem)) and other._start.startswith(self._start)

    def opened(self) -> Any:
        """The file, opened for reading by pyarrow."""
        if self.local is not None:
            return import_pyarrow().OSFile(os.fsencode(self.local))  # of names as text it takes those in UTF-8 alone
        return self.filesystem.open_input_file(self.path)

    def read(self) -> bytes:
        """The content of the file."""
        if self.local is not None:
            return self.local.read_bytes()
        with self.filesystem.open_input_stream(self.path) as file:
            return bytes(file.read())

    def write(self, content: bytes) -> None:
        """Make a file of this content appear, completely or not at all."""
        with self.for_writing() as path, replacing(path) as draft:
            draft.write_bytes(content)

    def remove(self) -> None:
        """Delete the file."""
        if self.local is not None:
            self.local.unlink()
            return
        self.filesystem.delete_file(self.path)

    @contextmanager
    def for_reading(self) -> Iterator[Path]:
        """A file on this machine with the content: the file itself, or a copy for the time being."""
        if self.local is not None:
            yield self.local
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / self.name
            self._transfer(self.path, copy, to_here=False)
            yield copy

    @contextmanager
    def for_writing(self) -> Iterator[Path]:
        """A path on this machine; the file written there appears at this place at the end, unless there is an error."""
        if self.local is not None:
            self.local.parent.mkdir(parents=True, exist_ok=True)
            yield self.local
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / self.name
            yield copy
            if self.filesystem.type_name in _APPEAR_WHOLE:
                self._transfer(self.path, copy, to_here=True)
                return
            if self.parent.path:
                self.filesystem.create_dir(self.parent.path, recursive=True)
            draft = (self.parent / f".{self.name}.{secrets.token_hex(4)}.partial").path
            self._transfer(draft, copy, to_here=True)
            self.filesystem.move(draft, self.path)

    def _transfer(self, path: str, copy: Path, *, to_here: bool) -> None:
        """Copy a file of this file system to one of the machine, or the other way round."""
        from pyarrow import fs

        ends = [(str(copy), fs.LocalFileSystem()), (path, self.filesystem)]
        (source, from_), (target, to) = ends if to_here else reversed(ends)
        fs.copy_files(source, target, source_filesystem=from_, destination_filesystem=to)


def _local_files(folder: Path) -> list[str]:
    """The paths of all files below a folder, from there: those that are in it, then what links lead to."""
    top = os.path.realpath(folder)
    links: list[str] = []
    seen: set[str] = set()

    def walk(place: str, real: str) -> Iterator[str]:
        with os.scandir(place) as entries:
            for entry in entries:
                where = os.path.join(real, entry.name)
                if entry.is_symlink():
                    links.append(entry.path)
                elif where not in seen:
                    seen.add(where)
                    yield from walk(entry.path, where) if entry.is_dir() else [entry.path]

    def follow(link: str) -> Iterator[str]:
        real = os.path.realpath(link)
        if real in seen or real == top or top.startswith(os.path.join(real, "")):
            return
        seen.add(real)
        yield from walk(link, real) if os.path.isdir(real) else [link]

    found = list(walk(top, top)) if os.path.isdir(top) else []
    while links:
        links.sort()
        found.extend(follow(links.pop(0)))
    return [Path(path).relative_to(top).as_posix() for path in found]


PlaceLike: TypeAlias = str | os.PathLike[str] | Place
"""A path, a URI, or a place."""
