"""The columns of a served table: what may stand in a field, and rows of fields as columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from socratic.serve.problems import RequestError, shortened, unknown_name
from socratic.tables.batches import import_pyarrow
from socratic.tables.column import Column

NUMBER, TEXT, BOOLEAN = "number", "text", "boolean"
_CODES = {"standard": (-3.0, 0.0, 3.0), "scale": (0.0, 1.0, 4.0), "range": (0.0, 0.5, 1.0)}
"""Low, typical and high numbers as leaves expect them, by the family's scaling."""
_WORDS = {NUMBER: "a number", TEXT: "text", BOOLEAN: "true or false"}


@dataclass(frozen=True)
class Field:
    """A column as requests know it.

    Attributes
    ----------
    name : str
    takes : frozenset of str
        What its values may be: "number", "text", "boolean".
    categories : tuple or None
        The values that training rows hold, if the column has no order; others may be sent and count against a row.
    left_out : str or None
        Why the column has no part in the model, if so: its values make no difference.
    typical : text, bool, number or None
        A value that is nothing special, where one is known.
    span : tuple of float or None
        Numbers that nearly all values lie between, where they are known.
    """

    name: str
    takes: frozenset[str]
    categories: tuple[Any, ...] | None = None
    left_out: str | None = None
    typical: Any = None
    span: tuple[float, float] | None = None

    @classmethod
    def of(cls, column: Column) -> Field:
        """Of a model's column."""
        if column.left_out is not None:
            return cls(column.name, frozenset(_WORDS), None, column.left_out)
        if column.categories is None:
            codes = _CODES.get(column.family.scaling)
            if codes is None:
                return cls(column.name, frozenset({NUMBER}))
            low, typical, high = column.restore(np.array(codes)).tolist()
            return cls(column.name, frozenset({NUMBER}), None, None, typical, (low, high))
        takes = frozenset(kind for value in column.categories if (kind := kind_of(value)) is not None)
        most = None if column.counts is None else column.categories[int(np.argmax(column.counts))]
        return cls(column.name, takes, column.categories, None, most)

    def check(self, value: Any, row: int) -> Any:
        """Return the value of a field, raising :class:`RequestError` unless the column may hold it; None is missing."""
        if value is None:
            return None
        kind = kind_of(value)
        if kind not in self.takes:
            expected = " or ".join(_WORDS[each] for each in (NUMBER, TEXT, BOOLEAN) if each in self.takes)
            hint = " (write numbers without quotes)" if isinstance(value, str) and NUMBER in self.takes else ""
            raise RequestError(
                f"rows[{row}]: column {self.name!r} takes {expected}, or null; got {shortened(value)}{hint}"
            )
        if kind == NUMBER and not _is_finite(value):
            raise RequestError(
                f"rows[{row}]: column {self.name!r} takes finite numbers; got {shortened(value)}: correct it, or send "
                "null if it is not known"
            )
        if kind == TEXT and not _is_unicode(value):
            raise RequestError(f"rows[{row}]: column {self.name!r} holds half of a surrogate pair, which is no text")
        return value

    def schema(self) -> dict[str, Any]:
        """What the field may hold, as JSON schema."""
        json = {NUMBER: "number", TEXT: "string", BOOLEAN: "boolean"}
        schema: dict[str, Any] = {"type": [*sorted(json[each] for each in self.takes), "null"]}
        if self.categories is not None:
            schema["examples"] = list(self.categories[:8])
        if self.left_out is not None:
            schema["description"] = f"Left out of the model: {self.left_out}."
        return schema


def checked_rows(fields: Mapping[str, Field], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose fields all exist and hold what they may, raising :class:`RequestError` otherwise."""
    checked = []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise RequestError(f"rows[{number}] must be an object of columns and values; got {shortened(row)}")
        for name in row:
            if name not in fields:
                raise unknown_name(f"rows[{number}]: ", "column", name, fields)
        checked.append({name: fields[name].check(value, number) for name, value in row.items()})
    return checked


def record_batch(fields: Mapping[str, Field], rows: Sequence[Mapping[str, Any]]) -> Any:
    """Checked rows as a ``pyarrow.RecordBatch``, null where a field is missing; columns without order become text."""
    pa = import_pyarrow()
    columns = []
    for name, field in fields.items():
        values = [row.get(name) for row in rows]
        if field.categories is None and field.left_out is None:
            columns.append(pa.array([None if value is None else float(value) for value in values], pa.float64()))
        else:
            columns.append(pa.array([None if value is None else str(value) for value in values], pa.string()))
    return pa.RecordBatch.from_arrays(columns, names=list(fields))


def kind_of(value: Any) -> str | None:
    """What a value is, None if no field may hold it."""
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int | float):
        return NUMBER
    return TEXT if isinstance(value, str) else None


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
