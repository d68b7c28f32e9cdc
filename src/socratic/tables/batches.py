"""Columns of Arrow batches as numbers or codes: text by the rules for cells, other types as what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from socratic.errors import DataFileError, import_extra
from socratic.tables import cells
from socratic.tables.raw import Coded, RawTable, encode_dictionary

if TYPE_CHECKING:
    from socratic.tables.columns import Table

Kind = Literal["number", "boolean", "text"]


def import_pyarrow() -> Any:
    """The pyarrow module."""
    return import_extra("pyarrow", "tables", "reading tables")


def kind_of(array_type: Any, name: str) -> Kind:
    """What a column of a type holds, by the type; raises if no leaf can hold it."""
    types = import_pyarrow().types
    if types.is_dictionary(array_type) or is_text(array_type):
        return "text"
    if types.is_date(array_type) or types.is_timestamp(array_type):
        return "text"  # by which they are recognised, and left out
    if types.is_boolean(array_type):
        return "boolean"
    if types.is_integer(array_type) or types.is_floating(array_type) or types.is_null(array_type):
        return "number"
    remedy = "convert it to floats" if types.is_decimal(array_type) else "convert it to numbers or text"
    raise DataFileError(f"column {name!r} holds {array_type}, which no leaf can hold; {remedy}, or leave it out")


def is_text(array_type: Any) -> bool:
    """Whether a column of a type holds text."""
    types = import_pyarrow().types
    if types.is_dictionary(array_type):
        return is_text(array_type.value_type)
    return bool(types.is_string(array_type) or types.is_large_string(array_type) or types.is_string_view(array_type))


def numbers(array: Any, name: str, start: int) -> np.ndarray:
    """A column as numbers (N,), NaN where missing.

    Parameters
    ----------
    array : pyarrow.Array (N,)
    name : str
        The column, for messages.
    start : int
        Rows of the table before these, for messages.
    """
    pa = import_pyarrow()
    if is_text(array.type):
        found = _parsed(array, name, start)
    elif kind_of(array.type, name) == "text":
        raise DataFileError(f"column {name!r} must hold numbers; it holds {array.type}")
    else:
        found = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if np.isinf(found).any():
        row = start + int(np.flatnonzero(np.isinf(found))[0]) + 1
        raise DataFileError(f"row {row}, column {name!r} holds an infinite number; correct it or leave it empty")
    return found


def weights(array: Any, name: str, start: int) -> np.ndarray:
    """A column of weights (N,), each a number of at least 0; the parameters are those of :func:`numbers`."""
    found = numbers(array, name, start)
    wrong = ~(found >= 0)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        got = "nothing" if np.isnan(found[row]) else f"{found[row]:g}"
        raise DataFileError(
            f"row {start + row + 1}, column {name!r}: a weight must be a number of at least 0; got {got}"
        )
    return found


def texts(array: Any) -> Coded:
    """A column as text: the distinct texts of its cells, and which of them is where."""
    codes, distinct = encode_dictionary(array)
    known: dict[str, int] = {}
    places = np.full(len(distinct) + 1, -1, dtype=np.int64)  # the last one for the code -1
    for code, value in enumerate(distinct):
        found = None if value is None else cells.text(str(value))
        if found is not None:
            places[code] = known.setdefault(found, len(known))
    return Coded(places[codes], tuple(known))


def raw_batch(batch: Any, table: Table, start: int = 0) -> RawTable:
    """The columns of a table, in its order, from a batch that has them in any order."""
    present = set(batch.schema.names)
    values: list[np.ndarray | Coded] = []
    for column in table.columns:
        if column.name not in present:
            raise DataFileError(f"the rows have no column {column.name!r}; the model was trained on it")
        array = batch.column(column.name)
        values.append(numbers(array, column.name, start) if column.categories is None else texts(array))
    return RawTable(tuple(column.name for column in table.columns), tuple(values), batch.num_rows)


def without_missing(array: Any) -> Any:
    """Text cells with null for those that hold nothing and are written in the usual way."""
    pa = import_pyarrow()
    from pyarrow import compute

    plain = array.cast(pa.string())
    return compute.if_else(compute.is_in(plain, value_set=pa.array(sorted(cells.MISSING))), None, plain)


def _parsed(array: Any, name: str, start: int) -> np.ndarray:
    pa = import_pyarrow()
    known = without_missing(array)
    try:
        return known.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # blanks around numbers, and what is no number at all
        codes, distinct = encode_dictionary(known)
    values = np.append([_number(cell, code, codes, name, start) for code, cell in enumerate(distinct)], np.nan)
    return values[codes]


def _number(cell: str, code: int, codes: np.ndarray, name: str, start: int) -> float:
    try:
        return cells.number(cell)
    except ValueError:
        row = start + int(np.flatnonzero(codes == code)[0]) + 1
        raise DataFileError(
            f"row {row}, column {name!r} must hold a number; got {cells.shorten(cell)}{cells.comma_hint(cell)}; "
            "correct it or leave it empty"
        ) from None
