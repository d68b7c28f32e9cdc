"""How much of a table that a stranger sends is unpacked at a time and in all, told before anything is.

A Parquet file says the same a million times in next to no bytes: a text by its place in a dictionary, a number by how
often it comes, anything else by compression. What it comes to is bounded here, by what its pages say of themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from socratic.errors import DataFileError
from socratic.tables.batches import import_pyarrow
from socratic.tables.parquet_pages import DICTIONARY, Chunk, Page, chunks, pages

_MIB = 2**20
AT_A_TIME = 16 * _MIB
"""What rows that are unpacked together hold, about."""
_MOST_OF_A_ROW = 128 * _MIB
_MOST_OF_PAGES = 256 * _MIB
"""What the pages that are unpacked together hold, one of each column; of large files twice their size more."""
_MOST_OF_THE_END = 4 * _MIB
"""The part that says where columns are: what is made of it takes up to 30 times as much."""
_MOST_PAGES = 100_000
_ROWS_BESIDE, _ROWS_PER_BYTE = 10_000, 16
"""Rows that a file may have: each of them takes time to answer."""
_NUMBER_BYTES = 16
"""Of a cell that holds no text, and of what is kept beside a text."""
_IN_DICTIONARY, _WITHOUT_PREFIX = (2, 8), 7
"""Encodings of values by their place in a dictionary, and by what they do not share with the value before."""


class TooLargeError(DataFileError):
    """A table that is larger than a server takes, or would be when it is unpacked."""


class Bounds(NamedTuple):
    """The most that a table may hold."""

    rows: int
    columns: int
    unpacked_bytes: int

    def check_columns(self, path: Path, n_columns: int) -> None:
        """Raise if there are too many columns."""
        if n_columns > self.columns:
            raise TooLargeError(
                f"{path} has {n_columns} columns, more than {self.columns}; leave out what is not needed"
            )

    def check_rows(self, path: Path, n_rows: int) -> None:
        """Raise if there are too many rows."""
        if n_rows > self.rows:
            raise TooLargeError(f"{path} has more than {self.rows} rows; send it in parts")

    def check_unpacked(self, path: Path, n_bytes: float) -> None:
        """Raise if this is too much."""
        if n_bytes > self.unpacked_bytes:
            raise TooLargeError(
                f"{path} has more than {self.unpacked_bytes} bytes when it is unpacked; send it in parts, or leave out "
                "long texts that are not needed"
            )


class _Column(NamedTuple):
    """What a column of a row group comes to, in bytes."""

    page: int
    """The largest page, and the dictionary."""
    row: float
    """The largest row, or a mean of those on a page."""
    all: float


def read_end(path: Path) -> bytes:
    """The end of a Parquet file, which says where columns are; raises if it is too long."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 8))
        end = int.from_bytes(file.read(4), "little")
        file.seek(max(0, size - 8 - end))
        content = file.read(min(end, _MOST_OF_THE_END))
    if _MOST_OF_THE_END < end <= size:
        raise TooLargeError(
            f"{path} takes {end} bytes to say where its columns are, more than {_MOST_OF_THE_END}; write fewer row "
            "groups"
        )
    return content


def rows_at_a_time(path: Path, opened: Any, bounds: Bounds, most: int) -> int:
    """Rows of a Parquet file to unpack together, at most so many; raises :class:`TooLargeError` beyond the bounds.

    Parameters
    ----------
    path : Path
    opened : pyarrow.parquet.ParquetFile
        The same file.
    bounds : Bounds
    most : int
    """
    metadata, n_bytes = opened.metadata, path.stat().st_size  # no more of it: it ends the process where it is damaged
    bounds.check_columns(path, metadata.num_columns)
    bounds.check_rows(path, metadata.num_rows)
    if metadata.num_rows > _ROWS_BESIDE + _ROWS_PER_BYTE * n_bytes:
        raise TooLargeError(
            f"{path} has {metadata.num_rows} rows in {n_bytes} bytes, more than {_ROWS_PER_BYTE} in each; send each "
            "different row once"
        )
    if metadata.num_row_groups * metadata.num_columns > _MOST_PAGES:
        raise TooLargeError(f"{path} has more than {_MOST_PAGES} parts of columns; write fewer row groups")
    page, row = [0] * metadata.num_columns, [0.0] * metadata.num_columns
    total, n_pages = 0.0, 0
    groups = chunks(read_end(path))
    if len(groups) != metadata.num_row_groups or any(len(group) != metadata.num_columns for group in groups):
        raise DataFileError(f"{path} is damaged (its row groups have different columns)")
    with path.open("rb") as file:
        for group, columns in enumerate(groups):
            for place, chunk in enumerate(columns):
                found = list(_pages_of(file, chunk, path, _MOST_PAGES - n_pages))
                n_pages += len(found)
                column = _column(path, opened, group, place, found, bounds)
                page[place], row[place] = max(page[place], column.page), max(row[place], column.row)
                total += column.all
                bounds.check_unpacked(path, total)
    if sum(page) > _MOST_OF_PAGES + 2 * n_bytes:
        raise TooLargeError(
            f"{path} has pages of {sum(page)} bytes that have to be unpacked together; write smaller ones"
        )
    if sum(row) > _MOST_OF_A_ROW:
        raise TooLargeError(
            f"{path} may have rows of {sum(row):.0f} bytes, more than {_MOST_OF_A_ROW}; write them shorter"
        )
    return max(1, min(most, math.floor(AT_A_TIME / max(1.0, sum(row)))))


def _pages_of(file: IO[bytes], chunk: Chunk, path: Path, most: int) -> Iterator[Page]:
    try:
        for place, page in enumerate(pages(file, chunk)):
            if place >= most:
                raise TooLargeError(f"{path} has more than {_MOST_PAGES} pages; write larger ones")
            yield page
    except DataFileError as error:
        raise type(error)(str(error) if isinstance(error, TooLargeError) else f"{path} is damaged ({error})") from None


def _column(path: Path, opened: Any, group: int, place: int, found: list[Page], bounds: Bounds) -> _Column:
    """What a column of a row group comes to, by its pages."""
    described = opened.schema.column(place)
    width = _NUMBER_BYTES + (described.length if described.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0)
    dictionary = max((page.size for page in found if page.kind == DICTIONARY), default=0)
    data = [page for page in found if page.kind != DICTIONARY]
    largest, n_values = max((page.size for page in data), default=0), sum(page.n_values for page in data)
    if any(page.kind == DICTIONARY and page.n_values > page.size for page in found):
        raise DataFileError(f"{path} is damaged (a dictionary of column {place} has more values than bytes)")
    longest, texts = 0.0, 0.0
    if described.physical_type == "BYTE_ARRAY":
        plain = [page for page in data if page.encoding not in _IN_DICTIONARY]
        longest = max((page.size / max(1, page.n_values) for page in plain), default=0.0)
        texts = float(sum(page.size for page in plain))
        if any(page.encoding == _WITHOUT_PREFIX for page in plain):
            longest = max(longest, largest)
        if len(plain) < len(data):
            in_all, of_one = _unfolded(path, described.path, group, n_values, dictionary, bounds)
            texts, longest = texts + in_all, max(longest, of_one)
    in_all = n_values * width + texts
    # Of lists, one row may hold all values.
    return _Column(largest + dictionary, in_all if described.max_repetition_level else width + longest, in_all)


def _unfolded(path: Path, name: str, group: int, n_values: int, dictionary: int, bounds: Bounds) -> tuple[float, float]:
    """Bytes of the texts of a column that has them in a dictionary, all together and the longest, at most."""
    if n_values * dictionary <= AT_A_TIME:
        return float(n_values * dictionary), float(dictionary)
    if dictionary > _MOST_OF_PAGES:
        raise TooLargeError(f"{path} has a dictionary of {dictionary} bytes, more than {_MOST_OF_PAGES}")
    from pyarrow import compute, parquet

    in_all = longest = 0.0
    with parquet.ParquetFile(path, read_dictionary=[name], pre_buffer=False) as file:
        for batch in file.iter_batches(2**16, row_groups=[group], columns=[name], use_threads=False):
            array = _leaf(batch.column(0))
            if array is None:
                return float(n_values * dictionary), float(dictionary)
            lengths = compute.binary_length(array.dictionary).cast("int64")
            in_all += compute.sum(lengths.take(array.indices)).as_py() or 0
            longest = max(longest, compute.max(lengths).as_py() or 0)
            bounds.check_unpacked(path, in_all)
    return in_all, longest


def _leaf(array: Any) -> Any:
    """The dictionary of texts in an array of structs or lists, and where each is; None if there is something else."""
    types = import_pyarrow().types
    while types.is_struct(array.type) or types.is_list(array.type):
        array = array.field(0) if types.is_struct(array.type) else array.flatten()
    return array if types.is_dictionary(array.type) else None
