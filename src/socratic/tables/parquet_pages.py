"""What the pages of a Parquet file say of themselves, read without unpacking them.

The end of a file says how large its columns are, and may be wrong. Readers believe the head of each page: a Thrift
struct, in the compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from socratic.errors import DataFileError

DATA, DICTIONARY, DATA_V2 = 0, 2, 3
"""Types of pages. There is one for indices, which nobody writes."""
_BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 7, 8, 9, 10, 12
_INTEGERS = _INT16, _INT32, _INT64 = 4, 5, 6
_HEADS = {
    DATA: ((5, _STRUCT), (2, _INT32)),
    DICTIONARY: ((7, _STRUCT), (2, _INT32)),
    DATA_V2: ((8, _STRUCT), (4, _INT32)),
}
"""Fields of a page's head: that of its type, and therein the encoding."""
_LONGEST_HEAD = 1 << 20
_Fields = dict[tuple[int, int], Any]
"""The fields of a struct, by their number and the type that they came with: readers skip those of another type."""


class Chunk(NamedTuple):
    """A column of a row group."""

    start: int
    size: int
    n_values: int


class Page(NamedTuple):
    """A page of a column."""

    kind: int
    """Its type."""
    size: int
    """In bytes, when it is unpacked."""
    n_values: int
    """With those that are missing."""
    encoding: int


def chunks(content: bytes) -> list[list[Chunk]]:
    """The columns of each row group, as the end of a file says, without its last eight bytes."""
    try:
        groups = _struct(content, 0)[0].get((4, _LIST), [])
        return [[_chunk(column) for column in group[1, _LIST]] for group in groups]
    except (IndexError, KeyError, RecursionError, TypeError):
        raise DataFileError("its end is damaged") from None


def _chunk(column: _Fields) -> Chunk:
    said = column[3, _STRUCT]
    start, dictionary = said[9, _INT64], said.get((11, _INT64), 0)
    return Chunk(dictionary if 0 < dictionary < start else start, said[7, _INT64], said[5, _INT64])


def pages(file: IO[bytes], chunk: Chunk) -> Iterator[Page]:
    """The pages of a column, until they have all of its values."""
    start, end, seen = chunk.start, chunk.start + chunk.size, 0
    while start < end and seen < chunk.n_values:
        head, length = _head(file, start, end - start)
        kind, unpacked, packed = (head.get((field, _INT32), -1) for field in (1, 2, 3))
        said, encoding = {}, (0, 0)
        if kind in _HEADS:
            of_kind, encoding = _HEADS[kind]
            said = head.get(of_kind, {})
        n_values = said.get((1, _INT32), -1 if kind in _HEADS else 0)
        if min(kind, unpacked, packed, n_values) < 0:
            raise DataFileError(f"the head of a page at byte {start} is damaged")
        if kind in _HEADS:
            yield Page(kind, unpacked, n_values, said.get(encoding, -1))
            seen += n_values if kind != DICTIONARY else 0
        start += length + packed


def _head(file: IO[bytes], start: int, size: int) -> tuple[_Fields, int]:
    """The fields of the struct at a place, and its length."""
    length = 256
    while True:
        try:
            file.seek(start)
            return _struct(file.read(min(length, size)), 0)
        except IndexError:
            if length >= min(size, _LONGEST_HEAD):
                raise DataFileError(f"the head of a page at byte {start} is damaged or too long") from None
        except (OSError, RecursionError, ValueError):
            raise DataFileError(f"the head of a page at byte {start} is damaged") from None
        length *= 8


def _struct(content: bytes, place: int) -> tuple[_Fields, int]:
    fields: _Fields = {}
    last = 0
    while content[place]:
        step, kind = content[place] >> 4, content[place] & 15
        place += 1
        if step:
            last += step
        else:
            last, place = _integer(content, place)
        if kind > 2:  # of true and false there is no more than the type
            value, place = _value(content, place, kind)
            if value is not None:
                fields[last, kind] = value
    return fields, place + 1


def _value(content: bytes, place: int, kind: int) -> tuple[Any, int]:
    """A number, a struct, or a list of such; of anything else None. And where it ends."""
    if kind in _INTEGERS:
        return _integer(content, place)
    if kind == _STRUCT:
        return _struct(content, place)
    if kind == _BINARY:
        length, place = _number(content, place)
        return None, place + length
    if kind in (_LIST, _SET):
        n_entries, of = content[place] >> 4, content[place] & 15
        n_entries, place = (n_entries, place + 1) if n_entries < 15 else _number(content, place + 1)
        entries = []
        for _ in range(n_entries):
            entry, place = _value(content, place, of)
            entries.append(entry)
        return entries, place
    if kind == _DOUBLE:
        return None, place + 8
    if kind > _BYTE:
        raise IndexError("there are no maps in Parquet")
    return content[place] and None, place + 1


def _integer(content: bytes, place: int) -> tuple[int, int]:
    number, place = _number(content, place)
    return (number >> 1) ^ -(number & 1), place


def _number(content: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128 or shift > 63:
            return number, place
        shift += 7
