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
_HEADS = {DATA: (5, 2), DICTIONARY: (7, 2), DATA_V2: (8, 4)}
"""Fields of a page's head: that of its type, and therein the encoding."""
_LONGEST_HEAD = 1 << 20
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)


class Page(NamedTuple):
    """A page of a column."""

    kind: int
    """Its type."""
    size: int
    """In bytes, when it is unpacked."""
    n_values: int
    """With those that are missing."""
    encoding: int


def pages(file: IO[bytes], start: int, size: int, n_values: int) -> Iterator[Page]:
    """The pages of a column that takes ``size`` bytes from ``start`` on, until they have that many values."""
    end, seen = start + size, 0
    while start < end and seen < n_values:
        head, length = _head(file, start, end - start)
        kind, unpacked, packed = (head.get(field) for field in (1, 2, 3))
        if not (isinstance(kind, int) and isinstance(unpacked, int) and isinstance(packed, int)) or (
            min(kind, unpacked, packed) < 0
        ):
            raise DataFileError(f"the head of a page at byte {start} is damaged")
        if kind in _HEADS:
            of_kind, encoding = _HEADS[kind]
            said = head.get(of_kind)
            if not isinstance(said, dict) or not isinstance(said.get(1), int) or said[1] < 0:
                raise DataFileError(f"the head of a page at byte {start} is damaged")
            yield Page(kind, unpacked, said[1], said.get(encoding, -1))
            seen += said[1] if kind != DICTIONARY else 0
        start += length + packed


def _head(file: IO[bytes], start: int, size: int) -> tuple[dict[int, Any], int]:
    """The fields of the struct at a place, and its length."""
    length = 256
    while True:
        file.seek(start)
        content = file.read(min(length, size))
        try:
            return _struct(content, 0)
        except IndexError:
            if length >= min(size, _LONGEST_HEAD):
                raise DataFileError(f"the head of a page at byte {start} is damaged or too long") from None
        except RecursionError:
            raise DataFileError(f"the head of a page at byte {start} is damaged") from None
        length *= 8


def _struct(content: bytes, place: int) -> tuple[dict[int, Any], int]:
    fields: dict[int, Any] = {}
    last = 0
    while content[place]:
        step, kind = content[place] >> 4, content[place] & 15
        place += 1
        if step:
            last += step
        else:
            last, place = _integer(content, place)
        fields[last], place = (kind == _TRUE, place) if kind in (_TRUE, _FALSE) else _value(content, place, kind)
    return fields, place + 1


def _value(content: bytes, place: int, kind: int) -> tuple[Any, int]:
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
        for _ in range(n_entries):
            _, place = _value(content, place, of)
        return None, place
    if kind not in (_TRUE, _FALSE, _BYTE, _DOUBLE):
        raise DataFileError("the head of a page holds what no page has")  # maps
    return content[place], place + (8 if kind == _DOUBLE else 1)


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
