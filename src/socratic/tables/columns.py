"""Tables as numbers: which leaf family each column gets, and how its values are encoded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from socratic.families import Bernoulli, Family, LeafName, as_family, family_for, family_from_dict
from socratic.tables.categories import Categories
from socratic.tables.column import Bend, Column
from socratic.tables.left_out import why_left_out
from socratic.tables.raw import Coded, RawTable
from socratic.tables.scaling import absent, rounded, scaled

MAX_CATEGORIES = 1000
"""Different values of a column without order, at most."""
_FEWEST_OF_TWO, _SHARE_OF_TWO = 5, 0.01
"""Rows that hold the rarer of two numbers: with fewer, others may follow."""


class Unknown(NamedTuple):
    """Values of a column not seen in training, or that its family has no leaf for: how many, and the first."""

    n_rows: int
    example: Any


class Encoded(NamedTuple):
    """Rows as a circuit expects them."""

    codes: np.ndarray
    """(N, V), NaN where a value is missing, infinite where training rows do not hold it or the family has no leaf."""
    unknown: dict[str, Unknown]
    """Unknown values by column."""


@dataclass(frozen=True)
class Table:
    """The columns of a table, and how to turn rows into numbers for a circuit."""

    columns: tuple[Column, ...]

    @property
    def families(self) -> list[Family]:
        """One leaf family for each column."""
        return [column.family for column in self.columns]

    @property
    def log_scale(self) -> np.ndarray:
        """Log of the scale of each column: by so much are densities larger, but for the part of :meth:`log_bend`."""
        return np.array([column.log_scale for column in self.columns])

    def encode(self, raw: RawTable) -> Encoded:
        """Turn the values of rows into the numbers that a circuit expects."""
        found = self.read(raw)
        return found._replace(codes=self.scale(found.codes))

    def read(self, raw: RawTable) -> Encoded:
        """The same, but numbers stay as they are, not yet standardised."""
        codes = np.empty((raw.n_rows, len(self.columns)))
        unknown: dict[str, Unknown] = {}
        for index, (column, values) in enumerate(zip(self.columns, raw.values, strict=True)):
            if column.left_out is not None:
                codes[:, index] = np.nan
                continue
            if column.categories is not None:
                codes[:, index], strange = _category_codes(values, column)
                if strange is not None:
                    unknown[column.name] = strange
                continue
            numbers = _numbers(values, column.name)
            if not column.family.real and (wrong := _outside(column.family, numbers)).any():
                unknown[column.name] = Unknown(int(wrong.sum()), float(numbers[wrong][0]))
                numbers = np.where(wrong, _strange(column), numbers)
            codes[:, index] = numbers
        return Encoded(codes, unknown)

    def decode(self, codes: np.ndarray) -> list[np.ndarray]:
        """Columns in the units and with the values of the data, from encoded rows (N, V) without missing values."""
        columns = []
        for index, column in enumerate(self.columns):
            values = column.restore(codes[:, index])
            if column.categories is not None:
                known = np.empty(len(column.categories), dtype=object)
                known[:] = column.categories
                values = known[values.round().astype(int).clip(0, len(known) - 1)]
            columns.append(values)
        return columns

    def standardised(self, codes: np.ndarray, weight: np.ndarray) -> Table:
        """The same columns, each scaled as its family asks by the values in ``codes`` (N, V) and their weights (N,)."""
        return Table(tuple(scaled(column, codes[:, index], weight) for index, column in enumerate(self.columns)))

    def scale(self, codes: np.ndarray) -> np.ndarray:
        """Standardise unscaled codes (N, V), and round them: what another unit rounds otherwise must not grow."""
        relative = np.array([column.family.scaling == "scale" for column in self.columns])
        numbers = [column.standardise(codes[:, index]) for index, column in enumerate(self.columns)]
        scaled = rounded(np.column_stack(numbers), relative)
        for index, column in enumerate(self.columns):
            scaled[absent(column, codes[:, index]), index] = np.inf
        return scaled

    def log_volume(self, codes: np.ndarray) -> np.ndarray:
        """By how much log-densities of a circuit exceed those of encoded rows (N, V) in the units of the data: (N,).

        A value that no training row holds has a probability of its own, which the circuit knows nothing of.
        """
        seen = self.log_scale - np.array([column.log_seen for column in self.columns])
        unseen = np.array([column.log_unseen for column in self.columns])
        return np.isfinite(codes) @ seen - np.isinf(codes) @ unseen + self.log_bend(codes).sum(1)

    def log_units(self, codes: np.ndarray) -> np.ndarray:
        """The part of it that is due to the units: (N,)."""
        return np.isfinite(codes) @ self.log_scale

    def log_bend(self, codes: np.ndarray) -> np.ndarray:
        """The part of it that is due to columns being bent, cell by cell: (N, V), 0 for cells without a number."""
        found = np.zeros(codes.shape)
        for index, column in enumerate(self.columns):
            if column.bend is not None:
                bent = codes[:, index] * column.scale + column.mean
                found[:, index] = np.where(np.isfinite(bent), column.bend.log_slope(bent), 0.0)
        return found

    def beyond(self, codes: np.ndarray) -> np.ndarray:
        """Which encoded rows (N, V) hold a number that the training rows rule out: (N,) booleans."""
        return np.isinf(codes)[:, [not column.rarest for column in self.columns]].any(1)

    def unseen(self, codes: np.ndarray) -> np.ndarray:
        """How rare the categories of encoded rows (N, V) are that no training row holds: (N,), 1 without any.

        The probability that a row holds such a category in this column, or in one where they are no less rare. No more
        than a share a of familiar rows are rarer than a.
        """
        return np.where(np.isinf(codes), self.unseen_of_columns, 1.0).min(1, initial=1.0)

    @property
    def unseen_of_columns(self) -> np.ndarray:
        """The same for each column (V,); 1 for numbers."""
        unseen = np.array([column.unseen if column.rarest else math.nan for column in self.columns], dtype=np.float64)
        summed = np.array([unseen[unseen <= one].sum() for one in unseen])
        return np.where(np.isnan(unseen), 1.0, np.minimum(summed, 1.0))

    def with_rarest(self, codes: np.ndarray) -> list[np.ndarray]:
        """Encoded rows (N, V) with the rarest categories in place of those that no training row holds.

        Once with each of those that are equally rare; not at all if there is nothing to replace.
        """
        places = [index for index in np.flatnonzero(np.isinf(codes).any(0)) if self.columns[index].rarest]
        made = []
        for number in range(max((len(self.columns[index].rarest) for index in places), default=0)):
            rows = codes.copy()
            for index in places:
                rarest = self.columns[index].rarest
                rows[np.isinf(codes[:, index]), index] = rarest[number % len(rarest)]
            made.append(rows)
        return made

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data for a model file."""
        return [{**asdict(column), "family": column.family.to_dict()} for column in self.columns]

    @classmethod
    def from_list(cls, data: list[dict[str, Any]]) -> Table:
        """Rebuild a table from :meth:`to_list`."""
        columns = []
        for item in data:
            made = {
                name: None if item[name] is None else tuple(item[name]) for name in ("categories", "counts", "bend")
            }
            bend = None if made["bend"] is None else Bend(*made["bend"])
            column = Column(**{**item, **made, "bend": bend, "family": family_from_dict(item["family"])})
            column.check()
            columns.append(column)
        return cls(tuple(columns))


def fit_table(raw: RawTable, used: np.ndarray, overrides: Mapping[str, LeafName] | None) -> Table:
    """Choose a leaf family for each column, unless ``overrides`` has one, from the rows that are ``used``.

    Booleans and numbers of which there are only two get bernoulli leaves, text and categories categorical ones, and
    other numbers gaussian ones. Columns that tell rows apart, and dates, are left out.
    """
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ValueError(
            f"leaf must map names of columns to families, such as {{'age': 'gaussian'}}; got {overrides!r}"
        )
    overrides = dict(overrides or {})
    for name, leaf in overrides.items():
        if name not in raw.names:
            raise no_column("leaf", name, raw.names)
        as_family(leaf, f"leaf[{name!r}]")
    columns = []
    for name, values in zip(raw.names, raw.values, strict=True):
        seen = values.take(used) if isinstance(values, Coded) else values[used]
        columns.append(_fit_column(name, seen, overrides.get(name)))
    return Table(tuple(columns))


def no_column(argument: str, name: Any, names: Sequence[str]) -> ValueError:
    """The error of an argument that names a column which is not among those of the data."""
    return ValueError(f"{argument} names the column {name!r}, which is not in the data ({', '.join(names[:8])})")


def _fit_column(name: str, values: np.ndarray | Coded, leaf: LeafName | None) -> Column:
    if leaf is None:
        if _are_boolean(values):
            return Column(name, Bernoulli(), (False, True))
        reason = why_left_out(name, values)
        if reason is not None:
            nothing = Coded(np.empty(0, dtype=np.int64), ())
            return replace(_fit_categories(name, nothing, "categorical"), left_out=reason)
        if not isinstance(values, Coded) and (two := _two_numbers(values)):
            return Column(name, Bernoulli(), two)
        leaf = "categorical" if isinstance(values, Coded) else "gaussian"
    if as_family(leaf).unordered:
        return _fit_categories(name, values, leaf)
    numbers = _numbers(values, name)
    numbers = numbers[~np.isnan(numbers)]
    family = family_for(leaf, numbers)
    wrong = numbers[_outside(family, numbers)]
    if len(wrong):
        raise ValueError(f"column {name!r} has {family.name} leaves and takes {family.domain}; got {wrong[0]:g}")
    return Column(name, family)


def _two_numbers(values: np.ndarray) -> tuple[float, ...]:
    """The two numbers that a column (N,) is made of, if there are no others and neither is an exception."""
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if len(distinct) != 2 or counts.min() < max(_FEWEST_OF_TWO, _SHARE_OF_TWO * counts.sum()):
        return ()
    return tuple(distinct.tolist())


def _fit_categories(name: str, values: np.ndarray | Coded, leaf: LeafName) -> Column:
    known = _distinct(_coded(values))
    if len(known) > MAX_CATEGORIES:
        raise ValueError(
            f"column {name!r} has {len(known)} different values, more than {MAX_CATEGORIES}: "
            "leave it out if it identifies rows, or convert it to numbers"
        )
    family = family_for(leaf, np.arange(max(1, len(known))))
    if len(known) > (family.n_values or 0):
        raise ValueError(
            f"column {name!r} has {family.name} leaves and takes {family.n_values} different values; got {len(known)}"
        )
    return Column(name, family, tuple(known) or ("",))


def _strange(column: Column) -> float:
    """The code of values that training rows do not hold."""
    return np.nan if column.unseen is None else np.inf


def _outside(family: Family, values: np.ndarray) -> np.ndarray:
    """Which numbers (N,) the family has no leaf for."""
    return family.invalid(torch.tensor(values)).numpy()


def _numbers(values: np.ndarray | Coded, name: str) -> np.ndarray:
    return values.numbers(name) if isinstance(values, Coded) else values.astype(np.float64, copy=False)


def _coded(values: np.ndarray | Coded) -> Coded:
    return values if isinstance(values, Coded) else Coded.of_numbers(values)


def _category_codes(values: np.ndarray | Coded, column: Column) -> tuple[np.ndarray, Unknown | None]:
    """Codes (N,) of the values, and what was unknown."""
    coded = _coded(values)
    places = Categories(column.categories or ()).find_all(coded.values)
    codes = coded.map(np.where(places < 0, _strange(column), places), np.nan)
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
