"""Tables as numbers: which leaf family each column gets, and how its values are encoded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from socratic.errors import check_choice
from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian
from socratic.tables.categories import Categories
from socratic.tables.raw import Coded, RawTable

Kind = Literal["gaussian", "bernoulli", "categorical", "binomial"]
KINDS: tuple[Kind, ...] = ("gaussian", "bernoulli", "categorical", "binomial")
_MAX_CATEGORIES = 1000
_LARGEST = 4.0
"""Standardised training values lie within this many units."""


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


class Unknown(NamedTuple):
    """Values of a column that were not seen in training: how many, and the first."""

    n_rows: int
    example: Any


class Encoded(NamedTuple):
    """Rows as a circuit expects them."""

    codes: np.ndarray
    """(N, V), NaN where a value is missing, unknown or impossible."""
    unknown: dict[str, Unknown]
    """Unknown values by column."""


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

    def encode(self, raw: RawTable) -> Encoded:
        """Turn the values of rows into the numbers that a circuit expects."""
        codes = np.empty((raw.n_rows, len(self.columns)))
        unknown: dict[str, Unknown] = {}
        for index, (column, values) in enumerate(zip(self.columns, raw.values, strict=True)):
            if column.categories is not None:
                codes[:, index], strange = _category_codes(values, column.categories)
                if strange is not None:
                    unknown[column.name] = strange
                continue
            numbers = _numbers(values, column.name)
            if column.kind == "binomial":
                wrong = (numbers < 0) | (numbers > column.n_trials) | (numbers != np.round(numbers))
                numbers = np.where(wrong, np.nan, numbers)
            codes[:, index] = numbers
        return Encoded(self.scale(codes), unknown)

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
    columns = []
    for name, values in zip(raw.names, raw.values, strict=True):
        seen = values.take(used) if isinstance(values, Coded) else values[used]
        columns.append(_fit_column(name, seen, overrides.get(name)))
    return Table(tuple(columns))


def _fit_column(name: str, values: np.ndarray | Coded, kind: str | None) -> Column:
    if kind is None:
        if _are_boolean(values):
            return Column(name, "bernoulli", (False, True))
        kind = "categorical" if isinstance(values, Coded) else "gaussian"
    if kind in ("bernoulli", "categorical"):
        known = _distinct(_coded(values))
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


def _numbers(values: np.ndarray | Coded, name: str) -> np.ndarray:
    return values.numbers(name) if isinstance(values, Coded) else values.astype(np.float64, copy=False)


def _coded(values: np.ndarray | Coded) -> Coded:
    return values if isinstance(values, Coded) else Coded.of_numbers(values)


def _category_codes(values: np.ndarray | Coded, categories: tuple[Any, ...]) -> tuple[np.ndarray, Unknown | None]:
    """Codes (N,) of the values, NaN for missing and unknown ones, and what was unknown."""
    coded = _coded(values)
    places = Categories(categories).find_all(coded.values)
    codes = coded.map(np.where(places < 0, np.nan, places), np.nan)
    strange = coded.map(places < 0, False)
    if not strange.any():
        return codes, None
    return codes, Unknown(int(strange.sum()), coded.values[coded.codes[int(strange.argmax())]])


def _distinct(coded: Coded) -> list[Any]:
    """The different values as plain Python objects, in a fixed order."""
    found = {_text(value): value for value in coded.values}
    plain = (bool, int, float, str)
    return [found[key] if isinstance(found[key], plain) else key for key in sorted(found)]


def _text(value: Any) -> str:
    """Text by which values are compared: 1 and 1.0 share it."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _are_boolean(values: np.ndarray | Coded) -> bool:
    if not isinstance(values, Coded):
        return values.dtype.kind == "b"
    return bool(values.values) and all(isinstance(value, bool | np.bool_) for value in values.values)
