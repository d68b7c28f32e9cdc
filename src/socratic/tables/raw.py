"""Columns as they come: numbers, or codes of distinct values, from arrays, data frames and Arrow tables."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from socratic.errors import import_extra
from socratic.tables.names import repeated

_REFUSED: tuple[tuple[tuple[type, ...], str, str], ...] = (
    ((datetime.timedelta, np.timedelta64), "durations", "convert them to numbers, such as seconds"),
    ((datetime.time,), "times", "convert them to numbers, such as seconds since midnight"),
    ((Decimal,), "decimals", "convert them to floats"),
    ((bytes,), "bytes", "decode them to text"),
    ((complex, np.complexfloating), "complex numbers", "make two columns of their real and imaginary parts"),
)
"""What no column may hold: types, what they are called, and what to do about them."""
_DATES = (
    (datetime.date, np.datetime64),
    "dates",
    "convert them to numbers, such as days since the first of them, or give a data frame",
)
"""What no array may hold; data frames may, and their dates are left out of models."""


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of few distinct values.

    Attributes
    ----------
    codes : ndarray (N,) of int
        The place of each row's value, -1 where it is missing.
    values : tuple
        The distinct values: text, booleans, numbers or other objects.
    """

    codes: np.ndarray
    values: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: np.ndarray) -> Coded:
        """Some of the rows, and no values but theirs."""
        codes = self.codes[rows]
        present, places = np.unique(codes[codes >= 0], return_inverse=True)
        kept = np.full(len(codes), -1, dtype=np.int64)
        kept[codes >= 0] = places
        return Coded(kept, tuple(self.values[code] for code in present))

    def map(self, by_value: np.ndarray, missing: Any) -> np.ndarray:
        """What ``by_value`` holds for each row's value: (N,)."""
        return np.append(by_value, missing)[self.codes]  # the code -1 is the last place

    def numbers(self, name: str) -> np.ndarray:
        """The values as numbers (N,), NaN where missing; an error names the column."""
        numbers = np.array([self._number(code, name) for code in range(len(self.values))], dtype=np.float64)
        return check_finite(self.map(numbers, math.nan), name)

    def _number(self, code: int, name: str) -> float:
        try:
            return float(self.values[code])
        except (TypeError, ValueError):
            row = int(np.flatnonzero(self.codes == code)[0])
            raise ValueError(f"column {name!r} must hold numbers; got {self.values[code]!r} in row {row}") from None

    @classmethod
    def joined(cls, parts: Sequence[Coded]) -> Coded:
        """The rows of all parts, one after the other."""
        known: dict[Any, int] = {}
        codes = []
        for part in parts:
            places = np.array([known.setdefault(value, len(known)) for value in part.values], dtype=np.int64)
            codes.append(part.map(places, -1))
        return cls(np.concatenate(codes), tuple(known))

    @classmethod
    def of_numbers(cls, values: np.ndarray) -> Coded:
        """The distinct values of numbers or booleans (N,), NaN being missing."""
        seen = ~np.isnan(values)
        distinct, places = np.unique(values[seen], return_inverse=True)
        codes = np.full(len(values), -1, dtype=np.int64)
        codes[seen] = places
        return cls(codes, tuple(distinct.tolist()))


@dataclass(frozen=True, eq=False)
class RawTable:
    """The columns of a table, not yet encoded.

    Attributes
    ----------
    names : tuple of str
    values : tuple
        For each column numbers (N,) with NaN where they are missing, booleans (N,), or :class:`Coded` values.
    n_rows : int
    """

    names: tuple[str, ...]
    values: tuple[np.ndarray | Coded, ...]
    n_rows: int

    def take(self, rows: np.ndarray) -> RawTable:
        """Some of the rows, by their places."""
        values = [each.take(rows) if isinstance(each, Coded) else each[rows] for each in self.values]
        return RawTable(self.names, tuple(values), len(rows))

    @classmethod
    def joined(cls, parts: Sequence[RawTable]) -> RawTable:
        """The rows of all parts, one after the other; their columns hold the same kinds of values."""
        values = [
            Coded.joined(each) if isinstance(each[0], Coded) else np.concatenate(each)
            for each in zip(*(part.values for part in parts), strict=True)
        ]
        return cls(parts[0].names, tuple(values), sum(part.n_rows for part in parts))

    @property
    def missing(self) -> np.ndarray:
        """Which entries are missing: (N, V)."""
        absent = [values.codes < 0 if isinstance(values, Coded) else np.isnan(values) for values in self.values]
        return np.column_stack(absent)


def raw_table(x: Any, estimator: Any = None) -> RawTable:
    """Columns of a data frame, of an Arrow table, or of anything scikit-learn takes as an array of numbers."""
    if isinstance(x, RawTable):
        return x
    if hasattr(x, "columns") and hasattr(x, "iloc"):
        names = tuple(str(name) for name in x.columns)
        _check_shape(names, x.shape)
        return RawTable(names, tuple(_frame_column(x.iloc[:, i], names[i]) for i in range(x.shape[1])), x.shape[0])
    table = arrow_table(x)
    if table is None:
        return _array_table(x, estimator)
    names = tuple(table.column_names)
    _check_shape(names, table.shape)
    return RawTable(names, tuple(map(_arrow_column, table.columns, names)), table.num_rows)


def arrow_table(x: Any) -> Any:
    """An Arrow table of anything that can be one (such as the data frames of polars), None of anything else."""
    if hasattr(x, "iloc") or not (hasattr(x, "__arrow_c_stream__") or hasattr(x, "__arrow_c_array__")):
        return None
    return import_extra("pyarrow", "tables", f"a table of the type {type(x).__name__}").table(x)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas has for them."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def check_finite(numbers: np.ndarray, name: str) -> np.ndarray:
    """Return the numbers (N,) of a column unless one is infinite."""
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise ValueError(f"column {name!r} must be finite; got {numbers[row]} (infinity) in row {row}")
    return numbers


def _check_shape(names: tuple[str, ...], shape: tuple[int, ...]) -> None:
    if (twice := repeated(names)) is not None:
        raise ValueError(f"column names must be unique; {twice!r} occurs more than once")
    for place, what in enumerate(("sample", "feature")):
        if shape[place] == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def _array_table(x: Any, estimator: Any) -> RawTable:
    from sklearn.utils.validation import check_array

    if isinstance(x, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in x):
        x = np.ma.array(x)
    array = x if hasattr(getattr(x, "dtype", None), "kind") else np.asarray(x)  # lists, tensors
    masked = None
    if isinstance(array, np.ma.MaskedArray):
        array, masked = array.data, np.ma.getmaskarray(array)
        if array.dtype.kind == "O" and masked.any():
            array = np.where(masked, np.nan, array)
    if not np.ndim(array):
        raise ValueError(f"X must be an array of numbers or a data frame; got {type(x).__name__}")
    if array.dtype.kind in "mMcSO":
        for index, values in enumerate(np.reshape(array, (len(array), -1)).T):
            kinds = {type(value) for value in values.tolist()} if array.dtype.kind == "O" else {array.dtype.type}
            _check_kinds(kinds, f"x{index}", (*_REFUSED, _DATES))
    try:
        if masked is not None and masked.any() and array.dtype.kind == "f":
            array = np.where(masked, np.nan, array)  # before it is checked: infinite numbers may be under the mask
        with np.errstate(over="ignore", invalid="ignore"):  # of sums over numbers near the largest, of both signs
            array = check_array(array, ensure_all_finite="allow-nan", dtype="numeric", estimator=estimator)
    except ValueError as error:
        if "string" not in str(error):
            raise
        raise ValueError(f"{error}; arrays hold numbers: pass columns of text as pandas.DataFrame(X)") from None
    # Booleans stay what they are: their columns get other leaves than numbers do.
    array = np.asarray(array, dtype=bool if array.dtype.kind == "b" else np.float64)
    names = tuple(f"x{i}" for i in range(array.shape[1]))
    columns = array.T if masked is None else map(_unmasked, array.T, masked.T)
    return RawTable(names, tuple(columns), len(array))


def _unmasked(values: np.ndarray, masked: np.ndarray) -> np.ndarray | Coded:
    """A column of numbers or booleans (N,) that are missing where ``masked`` says so."""
    if values.dtype.kind != "b":
        return np.where(masked, math.nan, values)
    return Coded(np.where(masked, -1, values), (False, True)).take(np.arange(len(values))) if masked.any() else values


def _frame_column(series: Any, name: str) -> np.ndarray | Coded:
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iuf":
        return check_finite(series.to_numpy(dtype=np.float64, na_value=np.nan), name)
    if kind == "b" and not series.isna().any():
        return series.to_numpy(dtype=bool)
    try:
        codes, distinct = series.factorize()
    except TypeError:
        raise ValueError(f"column {name!r} holds lists or the like; convert it to numbers or text") from None
    return _coded(codes, distinct.tolist(), name)


def _arrow_column(array: Any, name: str) -> np.ndarray | Coded:
    pa = import_extra("pyarrow", "tables", "an Arrow table")
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return check_finite(array.cast(pa.float64(), safe=False).to_numpy(), name)
    if pa.types.is_boolean(kind) and not array.null_count:
        return array.to_numpy()
    if pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
        raise ValueError(f"column {name!r} holds {kind}, which is neither numbers nor text; convert it or leave it out")
    codes, distinct = encode_dictionary(array)
    return _coded(codes, distinct, name)


def encode_dictionary(array: Any) -> tuple[np.ndarray, list[Any]]:
    """Codes (N,), -1 where missing, and distinct values of an Arrow array."""
    pa = import_extra("pyarrow", "tables", "an Arrow table")
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)  # polars has unsigned ones
    return codes, array.dictionary.to_pylist()


def _coded(codes: np.ndarray, distinct: Sequence[Any], name: str) -> Coded:
    """Codes without those of values that are missing; raises if there are values that no leaf can hold."""
    kept = [place for place, value in enumerate(distinct) if not is_missing(value)]
    _check_kinds({type(distinct[place]) for place in kept}, name)
    renumbered = np.full(len(distinct) + 1, -1, dtype=np.int64)
    renumbered[kept] = np.arange(len(kept))
    return Coded(renumbered[codes], tuple(distinct[place] for place in kept))


def _check_kinds(kinds: set[type], name: str, refused: Sequence[tuple[tuple[type, ...], str, str]] = _REFUSED) -> None:
    """Raise if a column holds something that leaves know nothing of."""
    # pandas has a type of its own for months and the like, and may not be installed.
    kinds = {datetime.date if kind.__name__ == "Period" else kind for kind in kinds}
    for types, what, remedy in refused:
        if any(issubclass(kind, types) for kind in kinds):
            # scikit-learn's own checks look for the first words.
            found = f"Complex data not supported: column {name!r}" if complex in types else f"column {name!r}"
            raise ValueError(f"{found} holds {what}; {remedy}, or leave the column out")
