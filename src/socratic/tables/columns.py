"""Tables as numbers: which leaf family each column gets, and how its values are encoded."""

from __future__ import annotations

import datetime
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_array

from socratic.errors import check_choice, import_extra
from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian

Kind = Literal["gaussian", "bernoulli", "categorical", "binomial"]
KINDS: tuple[Kind, ...] = ("gaussian", "bernoulli", "categorical", "binomial")
_MAX_CATEGORIES = 1000
_LARGEST = 4.0
"""Standardised training values lie within this many units."""


_NO_VALUES: tuple[tuple[tuple[type, ...], str, str], ...] = (
    ((datetime.timedelta, np.timedelta64), "durations", "convert them to numbers, such as seconds"),
    (
        (datetime.date, datetime.time, np.datetime64),
        "dates",
        "convert them to numbers, such as days since the first of them",
    ),
    ((Decimal,), "decimals", "convert them to floats"),
    ((complex, np.complexfloating), "complex numbers", "make two columns of their real and imaginary parts"),
)
"""What no column may hold: types, what they are called, and what to do about them."""


@dataclass(frozen=True)
class Column:
    """One column: its leaf family and its encoding.

    Attributes
    ----------
    name : str
    kind : str
        The leaf family.
    categories : tuple or None
        Known values in the order of their codes (categorical and bernoulli columns), as text or numbers.
    mean, scale : float
        What standardises a gaussian column.
    n_trials : int
        Largest count of a binomial column.
    """

    name: str
    kind: Kind
    categories: tuple[Any, ...] | None = None
    mean: float = 0.0
    scale: float = 1.0
    n_trials: int = 0

    def family(self) -> Family:
        """The leaf family of the column."""
        if self.kind == "bernoulli":
            return Bernoulli()
        if self.kind == "categorical":
            return Categorical(len(self.categories or ()))
        if self.kind == "binomial":
            return Binomial(self.n_trials)
        return Gaussian(min_variance=0.1, max_variance=1.0)

    def describe(self) -> str:
        """One line for people."""
        if self.kind == "gaussian":
            return f"{self.name}: gaussian (mean {self.mean:.4g}, scale {self.scale:.4g})"
        if self.kind == "binomial":
            return f"{self.name}: binomial (0 to {self.n_trials})"
        shown = ", ".join(str(value) for value in (self.categories or ())[:6])
        more = ", ..." if len(self.categories or ()) > 6 else ""
        return f"{self.name}: {self.kind} ({shown}{more})"


@dataclass(frozen=True)
class Table:
    """The columns of a table, and how to turn rows into numbers for a circuit."""

    columns: tuple[Column, ...]

    @property
    def families(self) -> list[Family]:
        """One leaf family for each column."""
        return [column.family() for column in self.columns]

    @property
    def log_scale(self) -> np.ndarray:
        """Log of the scale of each column: densities of standardised values are larger by this much."""
        return np.array([math.log(column.scale) for column in self.columns])

    def encode(self, raw: RawTable) -> np.ndarray:
        """Numbers (N, V) as the circuit expects them, NaN where a value is missing or unknown."""
        codes = np.empty((raw.n_rows, len(self.columns)))
        unknown: dict[str, Any] = {}
        for index, column in enumerate(self.columns):
            values = raw.values[index]
            if column.categories is not None:
                codes[:, index], strange = _codes(values, column.categories)
                if strange is not None:
                    unknown[column.name] = strange
                continue
            codes[:, index] = _numbers(values, column.name)
            if column.kind == "binomial":
                wrong = (codes[:, index] < 0) | (codes[:, index] > column.n_trials)
                codes[wrong | (codes[:, index] != np.round(codes[:, index])), index] = np.nan
        if unknown:
            name, value = next(iter(unknown.items()))
            warnings.warn(
                f"values not seen in training are taken as missing in {len(unknown)} column(s), "
                f"such as {value!r} in {name!r}",
                stacklevel=2,
            )
        return self.scale(codes)

    def decode(self, codes: np.ndarray) -> list[np.ndarray]:
        """Columns in the units and with the values of the data, from encoded rows (N, V) without missing values."""
        columns = []
        for index, column in enumerate(self.columns):
            values = codes[:, index] * column.scale + column.mean
            if column.categories is not None:
                known = np.empty(len(column.categories), dtype=object)
                known[:] = column.categories
                values = known[values.round().astype(int).clip(0, len(known) - 1)]
            columns.append(values)
        return columns

    def standardised(self, codes: np.ndarray, weight: np.ndarray) -> Table:
        """The same columns, gaussian ones standardised by the weighted mean and deviation of ``codes`` (N, V)."""
        return Table(
            tuple(
                _standardise(column, codes[:, index], weight) if column.kind == "gaussian" else column
                for index, column in enumerate(self.columns)
            )
        )

    def scale(self, codes: np.ndarray) -> np.ndarray:
        """Standardise unscaled codes (N, V)."""
        means = np.array([column.mean for column in self.columns])
        scales = np.array([column.scale for column in self.columns])
        return (codes - means) / scales

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data for a model file."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_list(cls, data: list[dict[str, Any]]) -> Table:
        """Rebuild a table from :meth:`to_list`."""
        columns = []
        for item in data:
            categories = item.get("categories")
            columns.append(Column(**{**item, "categories": None if categories is None else tuple(categories)}))
        return cls(tuple(columns))


@dataclass(frozen=True, eq=False)
class RawTable:
    """The columns of an array or data frame, unconverted: one array for each."""

    names: tuple[str, ...]
    values: tuple[np.ndarray, ...]
    n_rows: int

    @property
    def missing(self) -> np.ndarray:
        """Which entries are missing: (N, V)."""
        absent = [
            np.array([value is None for value in values.tolist()]) if values.dtype.kind == "O" else np.isnan(values)
            for values in self.values
        ]
        return np.column_stack(absent)


def raw_table(x: Any, estimator: Any = None) -> RawTable:
    """Columns of a data frame, of an Arrow table, or of anything scikit-learn takes as an array of numbers."""
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


def _array_table(x: Any, estimator: Any) -> RawTable:
    array = x if hasattr(x, "dtype") else np.asarray(x)
    if not np.ndim(array):
        raise ValueError(f"X must be an array of numbers or a data frame; got {type(x).__name__}")
    if array.dtype.kind in "mMcO":
        for index, values in enumerate(np.reshape(array, (len(array), -1)).T):
            _check_values(values, f"x{index}")
    array = check_array(x, ensure_all_finite="allow-nan", dtype="numeric", estimator=estimator)
    # Booleans stay what they are: their columns get other leaves than numbers do.
    array = np.asarray(array, dtype=bool if array.dtype.kind == "b" else np.float64)
    return RawTable(tuple(f"x{i}" for i in range(array.shape[1])), tuple(array.T), len(array))


def _check_shape(names: tuple[str, ...], shape: tuple[int, ...]) -> None:
    duplicated = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if duplicated:
        raise ValueError(f"column names must be unique; {sorted(duplicated)[0]!r} occurs more than once")
    for place, what in enumerate(("sample", "feature")):
        if shape[place] == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")


def fit_table(raw: RawTable, used: np.ndarray, overrides: Mapping[str, str] | None) -> Table:
    """Choose a leaf family for each column, unless ``overrides`` names one, from the rows that are ``used``.

    Booleans get bernoulli leaves, text and categories categorical ones, and numbers gaussian ones.
    """
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ValueError(
            f"leaf must map names of columns to families, such as {{'age': 'gaussian'}}; got {overrides!r}"
        )
    overrides = dict(overrides or {})
    for name, kind in overrides.items():
        if name not in raw.names:
            raise ValueError(f"leaf names the column {name!r}, which is not in the data ({', '.join(raw.names[:8])})")
        check_choice(f"leaf[{name!r}]", kind, KINDS)
    columns = [
        _fit_column(name, values[used], overrides.get(name)) for name, values in zip(raw.names, raw.values, strict=True)
    ]
    return Table(tuple(columns))


def _fit_column(name: str, values: np.ndarray, kind: str | None) -> Column:
    if kind is None:
        kind = {"b": "bernoulli", "O": "categorical", "U": "categorical"}.get(values.dtype.kind, "gaussian")
        if kind == "categorical" and _all_boolean(values):
            kind = "bernoulli"
        if kind == "bernoulli":
            return Column(name, "bernoulli", (False, True))
    if kind in ("bernoulli", "categorical"):
        known = _distinct(values)
        if len(known) > _MAX_CATEGORIES:
            raise ValueError(
                f"column {name!r} has {len(known)} different values, more than {_MAX_CATEGORIES}: "
                "leave it out if it identifies rows, or convert it to numbers"
            )
        if kind == "bernoulli" and len(known) <= 2:
            return Column(name, "bernoulli", tuple(known or (0, 1)))
        if kind == "bernoulli":
            raise ValueError(f"leaf[{name!r}]='bernoulli' needs two different values; got {len(known)}")
        return Column(name, "categorical", tuple(known) or ("",))
    numbers = _numbers(values, name)
    seen = ~np.isnan(numbers)
    if kind == "binomial":
        largest = int(numbers[seen].max()) if seen.any() else 1
        if (numbers[seen] < 0).any() or (numbers[seen] != np.round(numbers[seen])).any():
            raise ValueError(f"leaf[{name!r}]='binomial' needs whole numbers of at least 0")
        return Column(name, "binomial", n_trials=max(1, largest))
    return Column(name, "gaussian")


def _standardise(column: Column, values: np.ndarray, weight: np.ndarray) -> Column:
    seen = ~np.isnan(values)
    if not seen.any():
        return column
    mean = float(np.average(values[seen], weights=weight[seen]))
    deviation = values[seen] - mean
    scale = math.sqrt(float(np.average(deviation**2, weights=weight[seen])))
    # Columns that are almost always zero would put their few other values dozens of deviations away.
    scale = max(scale, float(np.abs(deviation).max()) / _LARGEST)
    # A constant column says nothing: its deviations are kept as they are, however the constant was rounded.
    constant = scale <= 1e-12 * max(1.0, abs(mean))
    return replace(column, mean=mean, scale=1.0 if constant else scale)


def _frame_column(series: Any, name: str) -> np.ndarray:
    """A data frame's column as floats, booleans, or objects with None for what is missing."""
    kind = getattr(series.dtype, "kind", "O")
    missing = np.asarray(series.isna(), dtype=bool)
    if kind in "iuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind == "b" and not missing.any():
        return series.to_numpy(dtype=bool)
    values = np.asarray(series.astype(object), dtype=object).copy()
    values[missing] = None
    return _check_values(values, name)


def _arrow_column(array: Any, name: str) -> np.ndarray:
    """The same of a column of an Arrow table."""
    pa = import_extra("pyarrow", "tables", "an Arrow table")
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return array.cast(pa.float64(), safe=False).to_numpy()
    if pa.types.is_boolean(kind) and not array.null_count:
        return array.to_numpy()
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise ValueError(f"column {name!r} holds {kind}, which is neither numbers nor text; convert it or leave it out")
    values = np.empty(len(array), dtype=object)
    values[:] = array.to_pylist()
    return _check_values(values, name)


def _check_values(values: np.ndarray, name: str) -> np.ndarray:
    """Return the values of a column, unless they are dates or numbers that leaves know nothing of."""
    kinds = {values.dtype.type} if values.dtype.kind != "O" else {type(value) for value in values.tolist()}
    for types, what, remedy in _NO_VALUES:
        if any(issubclass(kind, types) for kind in kinds):
            # scikit-learn's own checks look for the first words.
            found = f"Complex data not supported: column {name!r}" if complex in types else f"column {name!r}"
            raise ValueError(f"{found} holds {what}; {remedy}, or leave the column out")
    return values


def _numbers(values: np.ndarray, name: str) -> np.ndarray:
    if values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
    else:
        numbers = np.array([_number(value, name, row) for row, value in enumerate(values)])
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise ValueError(f"column {name!r} must be finite; got {numbers[row]} (infinity) in row {row}")
    return numbers


def _number(value: Any, name: str, row: int) -> float:
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} must hold numbers; got {value!r} in row {row}") from None


def _codes(values: np.ndarray, categories: tuple[Any, ...]) -> tuple[np.ndarray, Any]:
    """Codes (N,) of the values, NaN for missing and unknown ones, and one unknown value if there is any."""
    lookup = {_text(category): float(code) for code, category in enumerate(categories)}
    if categories == (False, True):
        lookup |= {"0": 0.0, "1": 1.0}  # arrays of booleans are often numbers the next time
    strange = None
    codes = np.full(len(values), np.nan)
    for row, value in enumerate(values.tolist()):
        if is_missing(value):
            continue
        code = lookup.get(_text(value))
        if code is None:
            strange = value
        else:
            codes[row] = code
    return codes, strange


def _distinct(values: np.ndarray) -> list[Any]:
    """The different values as plain Python objects, in a fixed order."""
    found = {_text(value): value for value in values.tolist() if not is_missing(value)}
    plain = (bool, int, float, str)
    return [found[key] if isinstance(found[key], plain) else key for key in sorted(found)]


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or what pandas has for them."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _text(value: Any) -> str:
    """Text by which values are compared: 1 and 1.0 share it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _all_boolean(values: np.ndarray) -> bool:
    kinds = {type(value) for value in values.tolist() if value is not None}
    return bool(kinds) and kinds <= {bool, np.bool_}
