"""Tensors of the Open Inference Protocol: as JSON, and as bytes behind it (the binary extension)."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from socratic.serve.bodies import read_json
from socratic.serve.problems import RequestError, shortened

BYTES, BOOL = "BYTES", "BOOL"
NUMBERS: dict[str, np.dtype[Any]] = {
    BOOL: np.dtype("?"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
}
"""Types of numbers, and of booleans, as they are sent."""
_DATATYPES = (*NUMBERS, BYTES)


@dataclass(frozen=True)
class Tensor:
    """A named array.

    Attributes
    ----------
    name, datatype : str
    shape : tuple of int
    values : list
        Its entries in a row: numbers, booleans or text; None where one is missing.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: list[Any]

    @classmethod
    def of(cls, name: str, datatype: str, shape: Sequence[int], data: Any, max_values: int) -> Tensor:
        """From what a request says of it; ``data`` are its entries, nested or not, or the bytes of them."""
        where = f"input {shortened(name)}"
        if datatype not in _DATATYPES:
            raise RequestError(f"{where}: the datatype must be {' or '.join(_DATATYPES)}; got {shortened(datatype)}")
        if any(side < 0 for side in shape) or (size := prod(shape)) > max_values:
            raise RequestError(f"{where}: the shape {shortened(list(shape))} is negative or too large", 413)
        values = unpacked(datatype, data, where) if isinstance(data, bytes) else _whole(datatype, _flat(data), where)
        if len(values) != size:
            raise RequestError(f"{where}: the shape {list(shape)} has {size} entries; got {len(values)}")
        return cls(name, datatype, tuple(shape), values)


def unpacked(datatype: str, content: bytes, where: str) -> list[Any]:
    """The entries of a tensor that came as bytes."""
    if datatype == BYTES:
        return _texts(content, where)
    kind = NUMBERS[datatype]
    if len(content) % kind.itemsize:
        raise RequestError(f"{where}: {len(content)} bytes are no {datatype} entries of {kind.itemsize} bytes each")
    numbers = np.frombuffer(content, kind)
    values: list[Any] = numbers.tolist()
    for place in np.flatnonzero(np.isnan(numbers)) if kind.kind == "f" else ():
        values[place] = None
    return values


def packed(datatype: str, values: Sequence[Any]) -> bytes:
    """Entries of a tensor as bytes; a missing number is NaN."""
    if datatype == BYTES:
        encoded = (("" if value is None else str(value)).encode() for value in values)
        return b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    return np.array([np.nan if value is None else value for value in values], NUMBERS[datatype]).tobytes()


def split(body: bytes, header_length: str | None) -> tuple[Any, bytes]:
    """The JSON of a body, and the bytes that follow it where the header ``Inference-Header-Content-Length`` says so."""
    length = len(body)
    if header_length is not None:
        if not re.fullmatch("[0-9]{1,12}", header_length) or int(header_length) > length:
            raise RequestError("the header Inference-Header-Content-Length must be a length within the body", 400)
        length = int(header_length)
    try:
        return read_json(body[:length]), body[length:]
    except (ValueError, RecursionError):
        raise RequestError("the body is no JSON", 400) from None


def joined(document: Mapping[str, Any], contents: Sequence[bytes]) -> tuple[bytes, int]:
    """A body of JSON and bytes behind it, and the length of the JSON."""
    head = json.dumps(document, allow_nan=False).encode()
    return b"".join([head, *contents]), len(head)


def _flat(data: Any) -> list[Any]:
    """The entries of nested lists, at most as deep as images are."""
    level = data if isinstance(data, list) else [data]
    for _ in range(3):
        if any(isinstance(entry, list) for entry in level):
            level = [entry for part in level for entry in (part if isinstance(part, list) else [part])]
    return level


def _whole(datatype: str, values: list[Any], where: str) -> list[Any]:
    """The entries, which must be whole numbers of the size that the datatype has, if that is one of them."""
    if datatype in NUMBERS and NUMBERS[datatype].kind in "iu":
        bounds = np.iinfo(NUMBERS[datatype])
        for value in values:
            if isinstance(value, int | float) and not (bounds.min <= value <= bounds.max and value == int(value)):
                raise RequestError(
                    f"{where}: {datatype} are whole numbers from {bounds.min} to {bounds.max}; got {shortened(value)}"
                )
    return values


def _texts(content: bytes, where: str) -> list[str]:
    found, place = [], 0
    while place < len(content):
        end = place + 4
        length = int.from_bytes(content[place:end], "little")
        if end > len(content) or end + length > len(content):
            raise RequestError(f"{where}: its bytes end within an entry")
        try:
            found.append(content[end : end + length].decode())
        except UnicodeDecodeError:
            raise RequestError(f"{where}: an entry is not UTF-8 text") from None
        place = end + length
    return found
