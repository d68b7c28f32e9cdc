"""Tables in files, CSV (also compressed) and Parquet, read as Arrow batches."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from socratic.errors import DataFileError
from socratic.tables.batches import Kind, import_pyarrow, kind_of
from socratic.tables.bounds import AT_A_TIME, Bounds, read_end, rows_at_a_time
from socratic.tables.cells import shorten
from socratic.tables.kinds import Tally
from socratic.tables.names import repeated

CHUNK_ROWS = 2_000
"""More at a time are not answered faster, and need more memory."""
SUFFIXES = (".csv", ".csv.gz", ".parquet")
_BLOCK_BYTES = 4 << 20
"""How much of a CSV file is parsed at a time; no row may be longer."""


class NoRowsError(DataFileError):
    """A table with columns, in which there is nothing else."""


class Chunk(NamedTuple):
    """Some consecutive rows of a table."""

    batch: Any
    """The rows, a ``pyarrow.RecordBatch``; those of text files are text throughout."""
    start: int
    """Rows before these."""
    position: int
    """How much of the file has been read, in the units of :attr:`Source.size`."""


class Source(ABC):
    """Where rows come from.

    Attributes
    ----------
    path : Path
    names : list of str
        The columns.
    size : int
        How much there is to read, in bytes or rows.
    """

    path: Path
    names: list[str]
    size: int

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """The rows from the first to the last, some at a time; at least one."""


class TableSource(Source):
    """A table in a file."""

    @abstractmethod
    def kinds(self, names: Sequence[str]) -> dict[str, Kind]:
        """What some columns hold."""

    def _check_names(self) -> None:
        if (twice := repeated(self.names)) is not None:
            raise DataFileError(f"{self.path} has more than one column {shorten(twice)}; rename one of them")


def suffix_of(path: Path) -> str:
    """The kind of a table file, by the end of its name."""
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise DataFileError(
        f"{path}: the name must end in one of {', '.join(SUFFIXES)}, which says how the table is written"
    )


def open_source(path: Path, bounds: Bounds | None = None) -> TableSource:
    """Open a table for reading; with ``bounds``, raise :class:`~socratic.tables.bounds.TooLargeError` beyond them."""
    if path.is_dir():
        raise DataFileError(f"{path} is a folder; name a file")
    if not path.exists():
        raise DataFileError(f"there is no file {path}; check the name")
    if not path.is_file():
        raise DataFileError(f"{path} is no ordinary file; write its content to one first (it may be read twice)")
    suffix = suffix_of(path)
    if path.stat().st_size == 0:
        raise DataFileError(f"{path} is empty; a table needs a header and rows")
    return ParquetSource(path, bounds) if suffix == ".parquet" else CsvSource(path, bounds)


class CsvSource(TableSource):
    """A CSV file: UTF-8, commas, one header line; compressed if its name ends in .gz."""

    def __init__(self, path: Path, bounds: Bounds | None = None) -> None:
        self.path, self.size = path, path.stat().st_size
        self._bounds = bounds
        with self._opened() as (_, data), closing(self._rows(data)) as rows:
            self._header = next(rows, [])
        self.names = [name.strip() for name in self._header]
        if not self.names:
            raise DataFileError(f"{path} is empty; a table needs a header and rows")
        if bounds is not None:
            bounds.check_columns(path, len(self.names))
        if len(self.names) == 1 and (found := next((mark for mark in ";\t|" if mark in self.names[0]), None)):
            raise DataFileError(f"{path} seems to be separated by {found!r}; write it with commas")
        self._check_names()

    def chunks(self) -> Iterator[Chunk]:
        """The rows, some at a time."""
        pa = import_pyarrow()
        start, checked = 0, False
        with self._opened() as (raw, data):
            watched = _QuotesWatched(data)
            try:
                for block in self._blocks(watched):
                    if watched.suspicious and not checked:
                        checked = self._check_rows()
                    if self._bounds is not None:
                        self._bounds.check_rows(self.path, start + block.num_rows)
                    for batch in _slices(block.rename_columns(self.names)):
                        yield Chunk(batch, start, raw.tell())
                        start += batch.num_rows
            except pa.ArrowInvalid as error:
                self._check_rows()  # says in which line
                raise DataFileError(f"{self.path} cannot be read as CSV ({error})") from error
            if watched.ends_within_quotes and not checked:
                self._check_rows()
        if not start:
            raise NoRowsError(f"{self.path} holds a header but no rows")

    def kinds(self, names: Sequence[str]) -> dict[str, Kind]:
        """What some columns hold, decided by all of their cells."""
        tallies = {name: Tally() for name in names}
        for chunk in self.chunks():
            for name, tally in tallies.items():
                tally.add(chunk.batch.column(name), chunk.start)
        return {name: tally.kind(name) for name, tally in tallies.items()}

    def _blocks(self, data: Any) -> Iterator[Any]:
        """Batches of text, as large as they come."""
        pa = import_pyarrow()
        from pyarrow import csv as arrow_csv

        return arrow_csv.open_csv(
            data,
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(self._header, pa.string()), strings_can_be_null=False
            ),
        )

    @contextmanager
    def _opened(self) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """The open file, and its content unpacked."""
        with self.path.open("rb") as raw:
            packed = self.path.name.lower().endswith(".gz")
            data: Any = gzip.GzipFile(fileobj=raw) if packed else raw
            try:
                yield raw, data
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DataFileError(
                    f"{self.path} is damaged or not compressed by gzip ({error}); copy it again"
                ) from None

    def _check_rows(self) -> bool:
        """Raise, naming the line, unless the file is proper CSV: Python's reader is slower than Arrow's and strict."""
        with self._opened() as (_, data), closing(self._rows(data)) as rows:
            n_rows = sum(1 for _ in rows)
        if n_rows < 2:
            raise NoRowsError(f"{self.path} holds a header but no rows")
        return True

    def _rows(self, data: Any) -> Generator[list[str], None, None]:
        """Rows of cells, the header first."""
        width = line = 0
        try:
            with io.TextIOWrapper(data, encoding="utf-8-sig", newline="") as text:
                lines = _BoundedLines(text, self.path)
                reader = csv.reader(lines, strict=True)
                for row in reader:
                    line = reader.line_num
                    lines.length = 0
                    if not row:
                        continue
                    width = width or len(row)
                    if len(row) != width:
                        raise DataFileError(
                            f"{self.path}, line {line} has {len(row)} fields where the header has {width}; "
                            "look for missing or extra commas, or a text with a comma that needs quotes"
                        )
                    yield row
        except UnicodeDecodeError:
            raise DataFileError(
                f"{self.path} is not UTF-8 text (near line {line + 1}); convert it, for instance with "
                f"iconv -f LATIN1 -t UTF-8 {self.path.name} > converted.csv"
            ) from None
        except csv.Error as error:
            raise DataFileError(f"{self.path}, after line {line}: {error}; check the quotes there") from None


class _BoundedLines:
    """The lines of a text; none is kept that is longer than a row may be.

    Attributes
    ----------
    length : int
        Characters since somebody set it to 0: of the lines of one row.
    """

    def __init__(self, text: IO[str], path: Path) -> None:
        self._text, self._path = text, path
        self._n_lines = self.length = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(_BLOCK_BYTES + 1)
        if not line:
            raise StopIteration
        self._n_lines += 1
        self.length += len(line)
        if self.length > _BLOCK_BYTES:
            what = "is" if len(line) == self.length else "ends a row that is"
            raise DataFileError(
                f"{self._path}, line {self._n_lines} {what} longer than {_BLOCK_BYTES:,} characters, and no row may "
                "be; check the line breaks and quotes there"
            )
        return line


class _QuotesWatched(io.RawIOBase):
    """A file that notices quotes which Arrow takes and a strict reader may not."""

    _INSIDE = re.compile(rb'[^",\r\n]"[^",\r\n]')

    def __init__(self, data: IO[bytes]) -> None:
        self._data = data
        self._n_quotes = 0
        self._end = b""
        self.suspicious = False

    @property
    def ends_within_quotes(self) -> bool:
        """Whether what was read so far ends within quotes."""
        return self._n_quotes % 2 == 1

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Some bytes."""
        content = self._data.read(size)
        if b'"' in content:
            self._n_quotes += content.count(b'"')
            self.suspicious = self.suspicious or self._INSIDE.search(self._end + content) is not None
        self._end = content[-2:]
        return content


class ParquetSource(TableSource):
    """A Parquet file."""

    def __init__(self, path: Path, bounds: Bounds | None = None) -> None:
        pa = import_pyarrow()
        from pyarrow import parquet

        self.path, self._bounds, self._at_a_time = path, bounds, CHUNK_ROWS
        if bounds is not None:
            read_end(path)
        try:
            with self._opened() as raw, parquet.ParquetFile(raw) as file:
                self._schema, self.size = file.schema_arrow, file.metadata.num_rows
                if bounds is not None:
                    self._at_a_time = rows_at_a_time(path, file, bounds, CHUNK_ROWS)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataFileError(f"{path} is damaged or no Parquet file ({error}); write it again") from None
        self.names = list(self._schema.names)
        self._check_names()
        if not self.names:
            raise DataFileError(f"{path} has no columns")
        if not self.size:
            raise NoRowsError(f"{path} has columns but no rows")

    def chunks(self) -> Iterator[Chunk]:
        """The rows, some at a time."""
        pa = import_pyarrow()
        from pyarrow import parquet

        start = 0
        try:
            with self._opened() as raw, parquet.ParquetFile(raw, pre_buffer=False) as file:
                for batch in self._joined(file.iter_batches(self._at_a_time, use_threads=False)):
                    batch.validate(full=True)  # text may be no text
                    yield Chunk(batch, start, start + batch.num_rows)
                    start += batch.num_rows
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataFileError(f"{self.path} is damaged ({error}); write it again") from None

    def _opened(self) -> Any:
        return import_pyarrow().OSFile(os.fsencode(self.path))  # of names as text it takes those in UTF-8 alone

    def _joined(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The rows of batches that are small for fear of long rows, as many at a time as turn out to be short."""
        if self._bounds is None:
            yield from batches
            return
        pa = import_pyarrow()
        waiting: list[Any] = []
        n_unpacked = n_rows = n_bytes = 0
        for batch in batches:
            n_unpacked += sum(each.nbytes for each in batch.columns if not pa.types.is_dictionary(each.type))
            self._bounds.check_unpacked(self.path, n_unpacked)  # pages do not say how much texts share
            waiting.append(batch)
            n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.nbytes
            if n_rows + self._at_a_time > CHUNK_ROWS or n_bytes > AT_A_TIME:
                yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
                waiting, n_rows, n_bytes = [], 0, 0
        if waiting:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()

    def kinds(self, names: Sequence[str]) -> dict[str, Kind]:
        """What some columns hold, by their types."""
        return {name: kind_of(self._schema.field(name).type, name) for name in names}


def _slices(batch: Any) -> Iterator[Any]:
    for first in range(0, batch.num_rows, CHUNK_ROWS):
        yield batch.slice(first, CHUNK_ROWS)
