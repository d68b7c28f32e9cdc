"""Parquet files of the same columns, read a piece at a time: in their order, or from many row groups at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from socratic.errors import DataFileError
from socratic.memory import table_rows
from socratic.tables.batches import Kind, import_pyarrow, kind_of
from socratic.tables.cells import shorten
from socratic.tables.names import repeated

_PIECE_ROWS = 8192
"""Rows that are read at a time, at most."""
_BUFFER_BYTES = 1 << 16
"""What is read of a column at a time: row groups may be larger than the memory."""
_OPEN_GROUPS, _OPEN_COLUMNS = 8, 256
"""Row groups that are read side by side, and columns of all of them; each column holds a page, about a megabyte."""


class StoredFile(NamedTuple):
    """A file on some file system."""

    name: str
    """For messages."""
    open: Callable[[], Any]
    """Gives the file, opened for reading."""
    size: int
    """In bytes."""
    modified: int
    """When it was last changed, in nanoseconds."""


class Group(NamedTuple):
    """A row group."""

    file: int
    """The number of its file."""
    number: int
    """Its own number there."""
    first: int
    """Rows of the file before it."""
    start: int
    """Rows of all files before it."""


class Piece(NamedTuple):
    """Some consecutive rows."""

    batch: Any
    """The rows, a ``pyarrow.RecordBatch``."""
    file: StoredFile
    first: int
    """Rows of the file before these."""
    start: int
    """Rows of all files before these."""

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors in the content name the file."""
        try:
            yield
        except DataFileError as error:
            raise DataFileError(f"{self.file.name}: {error}") from None


class ParquetFiles:
    """The rows of Parquet files, one file after the other.

    Parameters
    ----------
    files : sequence of StoredFile
        All with the same columns, in any order.

    Attributes
    ----------
    names : list of str
        The columns.
    groups : list of Group
    n_rows : int
    """

    def __init__(self, files: Sequence[StoredFile]) -> None:
        self.files = tuple(files)
        self.groups: list[Group] = []
        self.n_rows = 0
        self._n_rows_of: list[int] = []
        self._schemas: dict[tuple[tuple[str, Any], ...], StoredFile] = {}
        for place, file in enumerate(self.files):
            with _opened(file) as opened:
                self._add_groups(place, opened.metadata)
                schema = opened.schema_arrow
            columns = tuple(zip(schema.names, schema.types, strict=True))
            self._schemas.setdefault(columns, file)
        self.names = [name for name, _ in next(iter(self._schemas))]
        for columns, file in self._schemas.items():
            self._check_names([name for name, _ in columns], file)

    def _add_groups(self, place: int, metadata: Any) -> None:
        first = 0
        for number in range(metadata.num_row_groups):
            n_rows = metadata.row_group(number).num_rows
            if n_rows:
                self.groups.append(Group(place, number, first, self.n_rows))
            first += n_rows
            self.n_rows += n_rows
        self._n_rows_of.append(first)

    def _check_names(self, names: Sequence[str], file: StoredFile) -> None:
        if (twice := repeated(names)) is not None:
            raise DataFileError(f"{file.name} has more than one column {shorten(twice)}; rename one of them")
        for name in sorted(set(names) ^ set(self.names)):
            having, lacking = (file, self.files[0]) if name in names else (self.files[0], file)
            raise DataFileError(
                f"{lacking.name} has no column {name!r}, which {having.name} has; write all files with the same columns"
            )

    def kinds(self, names: Sequence[str]) -> dict[str, Kind]:
        """What some columns hold, by their types; raises unless all files agree. Nothing but nulls agrees with all."""
        types = import_pyarrow().types
        found: dict[str, tuple[Kind, Any, StoredFile]] = {}
        for columns, file in self._schemas.items():
            by_name = dict(columns)
            for name in names:
                if types.is_null(by_name[name]):
                    continue
                try:
                    kind = kind_of(by_name[name], name)
                except DataFileError as error:
                    raise DataFileError(f"{file.name}: {error}") from None
                before = found.setdefault(name, (kind, by_name[name], file))
                if before[0] != kind:
                    raise DataFileError(
                        f"column {name!r} holds {before[1]} in {before[2].name} and {by_name[name]} in {file.name}; "
                        "write it as one type in all files"
                    )
        return {name: found[name][0] if name in found else "number" for name in names}

    def pieces(self, names: Sequence[str], groups: Sequence[Group] | None = None) -> Iterator[Piece]:
        """The rows of some row groups, of all by default, in their order."""
        size = min(_PIECE_ROWS, table_rows(len(names)))
        for group in self.groups if groups is None else groups:
            file, done = self.files[group.file], 0
            with _opened(file) as opened:
                if opened.metadata.num_rows != self._n_rows_of[group.file]:
                    raise DataFileError(f"{file.name} changed while it was read; start again when nobody writes to it")
                for batch in opened.iter_batches(
                    size, row_groups=[group.number], columns=list(names), use_threads=False
                ):
                    yield Piece(batch, file, group.first + done, group.start + done)
                    done += batch.num_rows

    def mixed(self, names: Sequence[str], rng: np.random.Generator) -> Iterator[Piece]:
        """All rows, row groups in a random order, and pieces of several of them in turn."""
        waiting = [self.groups[place] for place in rng.permutation(len(self.groups))]
        n_open = max(1, min(_OPEN_GROUPS, _OPEN_COLUMNS // max(1, len(names))))
        opened = [self.pieces(names, waiting[place::n_open]) for place in range(n_open)]
        while opened:
            for stream in [opened[place] for place in rng.permutation(len(opened))]:
                piece = next(stream, None)
                if piece is None:
                    opened.remove(stream)
                else:
                    yield piece

    def digest(self) -> bytes:
        """What tells these files from others: their names, sizes and times."""
        said = repr([(file.name, file.size, file.modified) for file in self.files])
        return hashlib.blake2b(said.encode(), digest_size=16).digest()


@contextmanager
def _opened(file: StoredFile) -> Iterator[Any]:
    """The open Parquet file."""
    pa = import_pyarrow()
    from pyarrow import parquet

    try:
        with file.open() as raw:
            yield parquet.ParquetFile(raw, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise DataFileError(f"{file.name} is damaged or no Parquet file ({error}); write it again") from None
