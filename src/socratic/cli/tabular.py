"""Tables in files: CSV (also compressed) and Parquet, read in pieces and written completely or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from socratic.cli.failures import UserError
from socratic.cli.values import Kind, Tally, check_finite, parse_numbers, parse_texts, plain_text
from socratic.errors import import_extra

CHUNK_ROWS = 5_000
SUFFIXES = (".csv", ".csv.gz", ".parquet")


class Chunk(ABC):
    """Some consecutive rows of a table.

    Attributes
    ----------
    names : list of str
    start : int
        Rows before these.
    n_rows : int
    position : int
        How much of the file has been read, in the units of :attr:`Source.size`.
    """

    names: list[str]
    start: int
    n_rows: int
    position: int

    @abstractmethod
    def numbers(self, name: str) -> np.ndarray:
        """A column as numbers (N,), NaN where missing."""

    @abstractmethod
    def texts(self, name: str) -> np.ndarray:
        """A column as text (N,), None where missing."""

    @abstractmethod
    def cells(self, name: str) -> Sequence[str]:
        """A column as it is written to CSV: (N,)."""

    @abstractmethod
    def to_batch(self, numeric: frozenset[str]) -> Any:
        """The rows as a batch of Arrow; of untyped columns the ``numeric`` ones become numbers."""


class Source(ABC):
    """A table in a file.

    Attributes
    ----------
    path : Path
    names : list of str
        The columns.
    size : int
        Length of the file, in bytes or rows.
    """

    path: Path
    names: list[str]
    size: int

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """The rows from the first to the last, some at a time; at least one."""

    @abstractmethod
    def kinds(self, names: Sequence[str]) -> dict[str, Kind]:
        """What some columns hold, decided by all of their cells."""

    def _check_names(self) -> None:
        if len(set(self.names)) < len(self.names):
            twice = next(name for place, name in enumerate(self.names) if name in self.names[:place])
            raise UserError(f"{self.path} has more than one column {twice!r}; rename one of them")


def suffix_of(path: Path) -> str:
    """The kind of a table file, by the end of its name."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise UserError(f"{path}: the name must end in one of {', '.join(SUFFIXES)}, which says how the table is written")


def open_source(path: Path) -> Source:
    """Open a table for reading."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file")
    if not path.exists():
        raise UserError(f"there is no file {path}; check the name")
    if not path.is_file():
        raise UserError(f"{path} is no ordinary file; write its content to one first (it may be read twice)")
    suffix = suffix_of(path)
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; a table needs a header and rows")
    return ParquetSource(path) if suffix == ".parquet" else CsvSource(path)


class CsvChunk(Chunk):
    """Rows of a CSV file, as text."""

    def __init__(self, names: list[str], place: dict[str, int], rows: list[list[str]], start: int, at: int) -> None:
        self.names, self.start, self.position, self.n_rows = names, start, at, len(rows)
        self._place = place
        self._columns = list(zip(*rows, strict=True))

    def numbers(self, name: str) -> np.ndarray:
        """A column as numbers (N,), NaN where missing."""
        return parse_numbers(self.cells(name), name, self.start)

    def texts(self, name: str) -> np.ndarray:
        """A column as text (N,), None where missing."""
        return parse_texts(self.cells(name))

    def cells(self, name: str) -> Sequence[str]:
        """A column as it is in the file: (N,)."""
        return self._columns[self._place[name]]

    def to_batch(self, numeric: frozenset[str]) -> Any:
        """The rows as a batch of Arrow."""
        pa = import_pyarrow()
        arrays = [
            pa.array(self.numbers(name), pa.float64(), from_pandas=True)
            if name in numeric
            else pa.array([cell or None for cell in self.cells(name)], pa.string())
            for name in self.names
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.names)


class CsvSource(Source):
    """A CSV file: UTF-8, commas, one header line; compressed if its name ends in .gz."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        with self._rows() as (rows, _):
            self.names = [name.strip() for name in next(rows, [])]
        if not self.names:
            raise UserError(f"{path} is empty; a table needs a header and rows")
        if len(self.names) == 1 and (found := next((mark for mark in ";\t|" if mark in self.names[0]), None)):
            raise UserError(f"{path} seems to be separated by {found!r}; write it with commas")
        self._check_names()

    def chunks(self) -> Iterator[CsvChunk]:
        """The rows, some at a time."""
        place = {name: index for index, name in enumerate(self.names)}
        start = 0
        with self._rows() as (rows, raw):
            next(rows)
            batch: list[list[str]] = []
            for row in rows:
                batch.append(row)
                if len(batch) == CHUNK_ROWS:
                    yield CsvChunk(self.names, place, batch, start, raw.tell())
                    start, batch = start + len(batch), []
            if batch:
                yield CsvChunk(self.names, place, batch, start, raw.tell())
            elif not start:
                raise UserError(f"{self.path} holds a header but no rows")

    def kinds(self, names: Sequence[str]) -> dict[str, Kind]:
        """What some columns hold, decided by all of their cells."""
        tallies = {name: Tally() for name in names}
        for chunk in self.chunks():
            for name, tally in tallies.items():
                tally.add(chunk.cells(name), chunk.start)
        return {name: tally.kind(name) for name, tally in tallies.items()}

    @contextmanager
    def _rows(self) -> Iterator[tuple[Iterator[list[str]], IO[bytes]]]:
        """Rows of cells, the header first, and the open file; what is wrong with the file is said in one line."""
        line = 0

        def checked(reader: Any) -> Iterator[list[str]]:
            nonlocal line
            width = 0
            for row in reader:
                line = reader.line_num
                if not row:
                    continue
                width = width or len(row)
                if len(row) != width:
                    raise UserError(
                        f"{self.path}, line {line} has {len(row)} fields where the header has {width}; "
                        "look for missing or extra commas, or a text with a comma that needs quotes"
                    )
                yield row

        with self.path.open("rb") as raw:
            packed = self.path.name.lower().endswith(".gz")
            data: Any = gzip.GzipFile(fileobj=raw) if packed else raw
            text = io.TextIOWrapper(data, encoding="utf-8-sig", newline="")
            try:
                yield checked(csv.reader(text, strict=True)), raw
            except UnicodeDecodeError:
                raise UserError(
                    f"{self.path} is not UTF-8 text (near line {line + 1}); convert it, for instance with "
                    f"iconv -f LATIN1 -t UTF-8 {self.path.name} > converted.csv"
                ) from None
            except csv.Error as error:
                raise UserError(f"{self.path}, after line {line}: {error}; check the quotes there") from None
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise UserError(f"{self.path} is damaged or not compressed by gzip ({error}); copy it again") from None


class ParquetChunk(Chunk):
    """Rows of a Parquet file."""

    def __init__(self, batch: Any, start: int) -> None:
        self._batch = batch
        self.names, self.start, self.n_rows = list(batch.schema.names), start, batch.num_rows
        self.position = start + self.n_rows

    def numbers(self, name: str) -> np.ndarray:
        """A column as numbers (N,), NaN where missing."""
        pa = import_pyarrow()
        array = self._batch.column(self.names.index(name))
        if _is_text(pa, array.type):
            return parse_numbers(array.to_pylist(), name, self.start)
        if _kind_of(pa, array.type, name) == "text":
            raise UserError(f"column {name!r} must hold numbers; it holds {array.type}")
        numbers = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return check_finite(numbers, name, self.start)

    def texts(self, name: str) -> np.ndarray:
        """A column as text (N,), None where missing."""
        array = self._batch.column(self.names.index(name))
        return parse_texts([None if value is None else plain_text(value) for value in array.to_pylist()])

    def cells(self, name: str) -> Sequence[str]:
        """A column as it is written to CSV: (N,)."""
        values = self._batch.column(self.names.index(name)).to_pylist()
        return ["" if value is None else str(value) for value in values]

    def to_batch(self, numeric: frozenset[str]) -> Any:  # noqa: ARG002 - its columns have types
        """The rows as a batch of Arrow."""
        return self._batch


class ParquetSource(Source):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        pa = import_pyarrow()
        from pyarrow import parquet

        self.path = path
        try:
            with parquet.ParquetFile(path) as file:
                self._schema, self.size = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{path} is damaged or no Parquet file ({error}); write it again") from None
        self.names = list(self._schema.names)
        self._check_names()
        if not self.names:
            raise UserError(f"{path} has no columns")
        if not self.size:
            raise UserError(f"{path} has columns but no rows")

    def chunks(self) -> Iterator[ParquetChunk]:
        """The rows, some at a time."""
        pa = import_pyarrow()
        from pyarrow import parquet

        start = 0
        try:
            with parquet.ParquetFile(self.path, pre_buffer=False) as file:
                for batch in file.iter_batches(CHUNK_ROWS, use_threads=False):
                    yield ParquetChunk(batch, start)
                    start += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{self.path} is damaged ({error}); write it again") from None

    def kinds(self, names: Sequence[str]) -> dict[str, Kind]:
        """What some columns hold, by their types."""
        pa = import_pyarrow()
        return {name: _kind_of(pa, self._schema.field(name).type, name) for name in names}


def import_pyarrow() -> Any:
    """The pyarrow module, which only Parquet needs."""
    return import_extra("pyarrow", "tables", "a Parquet file")


def _is_text(pa: Any, kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(pa, kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _kind_of(pa: Any, kind: Any, name: str) -> Kind:
    if pa.types.is_dictionary(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        return "number"
    if _is_text(pa, kind):
        return "text"
    remedy = "convert it to floats" if pa.types.is_decimal(kind) else "convert it to numbers or text"
    raise UserError(f"column {name!r} holds {kind}, which no leaf can hold; {remedy}, or --drop it")
