"""Tables that grow: the rows of another table with some more columns, batch by batch."""

from __future__ import annotations

import gzip
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from socratic.files import replacing
from socratic.tables.batches import import_pyarrow, is_text, numbers
from socratic.tables.reading import suffix_of

_GROUP_ROWS, _GROUP_BYTES = 10_000, 16 * 2**20
"""Rows of a group of a Parquet file, at least, unless they are large: many small groups are slow to read."""


_STARTS = "=+\\-@＝＋－＠"  # noqa: RUF001 - some spreadsheets read wide letters like narrow ones
_FORMULA = rf"^[{_STARTS}\t\r\n]"
"""How text begins that a spreadsheet may run."""
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_INSIDE = rf"[;\t\r\n][\s\"]*[{_STARTS}]"
"""What such text follows within a cell, if the spreadsheet separates at semicolons or tabs: there commas and quotes are
text like any other."""
_INSIDE_BUT_NUMBERS = re.compile(rf'([;\t\r\n])(?!{_NUMBER}\1)(?=[\s"]*[{_STARTS}])')


class Sink(ABC):
    """A table that is being written."""

    @abstractmethod
    def write(self, rows: Any, added: Any) -> None:
        """Append the rows of a batch, with the columns of another one of as many rows."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""


@contextmanager
def open_sink(path: Path, numeric: frozenset[str], *, harmless: bool = False) -> Iterator[Sink]:
    """A table that appears at ``path`` when everything has been written, and not at all otherwise.

    Parameters
    ----------
    path : Path
        Its suffix says how the table is written.
    numeric : frozenset of str
        Columns that hold numbers, where the source is text.
    harmless : bool
        Whether cells of a CSV file that a spreadsheet would run are marked: see :class:`CsvSink`.
    """
    suffix = suffix_of(path)
    with replacing(path) as draft, draft.open("wb") as file:
        sink = (
            ParquetSink(file, numeric)
            if suffix == ".parquet"
            else CsvSink(file, packed=suffix == ".csv.gz", harmless=harmless)
        )
        try:
            yield sink
        finally:
            sink.close()


class CsvSink(Sink):
    """A CSV file; text is written as it was, without quotes where none are needed.

    Parameters
    ----------
    file : binary file
    packed : bool
        Whether it is compressed by gzip.
    harmless : bool
        Whether an apostrophe is put before cells that a spreadsheet would take for a formula.
    """

    def __init__(self, file: IO[bytes], *, packed: bool = False, harmless: bool = False) -> None:
        # Without a name and a time, equal content gives equal bytes.
        self._file: Any = gzip.GzipFile("", "wb", 6, file, mtime=0) if packed else file
        self._packed, self._harmless = packed, harmless
        self._started = False

    def write(self, rows: Any, added: Any) -> None:
        """Append the rows of a batch, with the columns of another one."""
        pa = import_pyarrow()
        if not self._started:
            names = pa.array([*rows.schema.names, *added.schema.names])
            self._file.write((",".join(self._written(names).to_pylist()) + "\n").encode())
            self._started = True
        self._file.write(_lines([*map(self._written, rows.columns), *map(self._rounded, added.columns)]))

    def close(self) -> None:
        """Finish the file."""
        if self._packed:
            self._file.close()

    def _written(self, column: Any) -> Any:
        """A column as cells."""
        cells = _cells(column)
        return _quoted(without_formulas(cells) if self._harmless else cells)

    def _rounded(self, column: Any) -> Any:
        """A column of answers as cells: six digits are enough for people, and for what was computed."""
        pa = import_pyarrow()
        if pa.types.is_floating(column.type):
            return pa.array([format(value, ".6g") for value in column.to_pylist()], pa.string())
        return self._written(column)


class ParquetSink(Sink):
    """A Parquet file; its types are those of the first batch."""

    def __init__(self, file: IO[bytes], numeric: frozenset[str]) -> None:
        self._file, self._numeric = file, numeric
        self._writer: Any = None
        self._n_rows = 0
        self._waiting: list[Any] = []

    def write(self, rows: Any, added: Any) -> None:
        """Append the rows of a batch, with the columns of another one."""
        pa = import_pyarrow()
        from pyarrow import parquet

        names = [*rows.schema.names, *added.schema.names]
        columns = [*map(self._typed, rows.columns, rows.schema.names), *added.columns]
        fields = pa.schema([pa.field(name, column.type) for name, column in zip(names, columns, strict=True)])
        batch = pa.RecordBatch.from_arrays(columns, schema=fields.with_metadata(rows.schema.metadata))
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, batch.schema)
        self._waiting.append(batch)
        self._n_rows += rows.num_rows
        n_rows, n_bytes = (sum(getattr(each, what) for each in self._waiting) for what in ("num_rows", "nbytes"))
        if n_rows >= _GROUP_ROWS or n_bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._write_group()
            self._writer.close()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(import_pyarrow().Table.from_batches(self._waiting))
            self._waiting = []

    def _typed(self, column: Any, name: str) -> Any:
        pa = import_pyarrow()
        from pyarrow import compute

        if not pa.types.is_string(column.type):
            return column
        if name in self._numeric:
            return pa.array(numbers(column, name, self._n_rows), from_pandas=True)
        return compute.if_else(compute.equal(column, ""), None, column)


def _lines(columns: list[Any]) -> memoryview:
    """Columns of cells as lines of text, in bytes."""
    from pyarrow import compute

    ended = compute.binary_join_element_wise(columns[-1], "\n", "")
    lines = compute.binary_join_element_wise(*columns[:-1], ended, ",")
    _, offsets, data = lines.buffers()
    bounds = memoryview(offsets).cast("i")
    return memoryview(data)[bounds[lines.offset] : bounds[lines.offset + len(lines)]]


def _cells(column: Any) -> Any:
    """A column as text."""
    pa = import_pyarrow()
    if is_text(column.type):
        return column.cast(pa.string()).fill_null("")
    return pa.array(["" if value is None else str(value) for value in column.to_pylist()], pa.string())


def without_formulas(cells: Any) -> Any:
    """Text cells with an apostrophe before those that a spreadsheet would run: not before numbers.

    Within cells it comes before what would be such a cell where semicolons or tabs separate them.
    """
    pa = import_pyarrow()
    from pyarrow import compute

    risky = compute.match_substring_regex(cells, _FORMULA)
    number = compute.match_substring_regex(cells, f"^{_NUMBER}$")
    marked = compute.binary_join_element_wise(pa.scalar("'"), cells, "")
    cells = compute.if_else(compute.and_not(risky, number), marked, cells)
    inside = compute.fill_null(compute.match_substring_regex(cells, _INSIDE), False)
    if not inside.true_count:
        return cells
    split = [_INSIDE_BUT_NUMBERS.sub(r"\g<0>'", cell) for cell in cells.filter(inside).to_pylist()]
    return compute.replace_with_mask(cells, inside, pa.array(split, pa.string()))


def _quoted(cells: Any) -> Any:
    """Cells in quotes where they need them."""
    from pyarrow import compute

    special = compute.match_substring_regex(cells, r'[",\r\n]')
    if not special.true_count:
        return cells
    escaped = compute.replace_substring(cells, '"', '""')
    return compute.if_else(special, compute.binary_join_element_wise('"', escaped, '"', ""), cells)
