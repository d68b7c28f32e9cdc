"""What all rows of a table hold, however many there are: the categories and extremes that a sample may lack."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from socratic.tables.categories import Categories
from socratic.tables.column import Column
from socratic.tables.columns import MAX_CATEGORIES, Table
from socratic.tables.raw import Coded, RawTable
from socratic.tables.scaling import with_counts

_MOST_NUMBERS = 2
"""Different numbers up to which they are counted: no more than that are taken as categories."""


@dataclass
class ColumnCensus:
    """What has been seen of a column.

    Attributes
    ----------
    weights : dict
        The weight of the rows that hold each value; of columns of many values, some of them.
    n_rows, weight : float
        How many rows hold something, and what these weigh.
    lowest, highest : float
        Of numbers.
    """

    weights: dict[Any, float] = field(default_factory=dict)
    n_rows: int = 0
    weight: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf

    def add(self, values: np.ndarray | Coded, weight: np.ndarray) -> None:
        """Look at the values (n,) of some more rows, and their weights (n,)."""
        seen = values.codes >= 0 if isinstance(values, Coded) else ~np.isnan(values)
        self.n_rows += int(seen.sum())
        self.weight += float(weight[seen].sum())
        if isinstance(values, Coded):
            if len(self.weights) <= MAX_CATEGORIES:
                self._count(values.codes[seen], values.values, weight[seen])
        elif seen.any():
            self.lowest = min(self.lowest, float(values[seen].min()))
            self.highest = max(self.highest, float(values[seen].max()))
            if len(self.weights) <= _MOST_NUMBERS:
                distinct, codes = np.unique(values[seen], return_inverse=True)
                self._count(codes, tuple(distinct[: _MOST_NUMBERS + 1].tolist()), weight[seen])

    def _count(self, codes: np.ndarray, values: tuple[Any, ...], weight: np.ndarray) -> None:
        for value, added in zip(values, np.bincount(codes, weight, minlength=len(values)).tolist(), strict=False):
            if added > 0.0:
                self.weights[value] = self.weights.get(value, 0.0) + added

    def witnesses(self, sample: np.ndarray | Coded) -> list[Any]:
        """Values that some rows hold, and none of a sample: all categories; of numbers the extremes, and a third."""
        if isinstance(sample, Coded):
            known = set(sample.take(np.arange(len(sample))).values)
            return [value for value in self.weights if value not in known]
        values = {*self.weights, self.lowest, self.highest} if self.n_rows else set()
        return [value for value in sorted(values) if not (sample == value).any()]

    def applied(self, column: Column) -> Column:
        """A column with the counts of all rows, in place of those of a sample."""
        if column.unseen is None:  # left out, or without any value
            return column
        counts = None
        if column.categories is not None:
            places = Categories(column.categories).find_all(self.weights)
            totals = np.bincount(places, list(self.weights.values()), minlength=len(column.categories))
            counts = totals * self.n_rows / self.weight
        return with_counts(column, counts, self.n_rows)


class Census:
    """What has been seen of the columns of a table.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self.columns = [ColumnCensus() for _ in range(n_columns)]

    def add(self, raw: RawTable, weight: np.ndarray) -> None:
        """Look at some more rows, and their weights (n,)."""
        for column, values in zip(self.columns, raw.values, strict=True):
            column.add(values, weight)

    def witnesses(self, sample: RawTable) -> RawTable:
        """Rows of single cells, which hold between them what all rows hold and a sample does not."""
        each = [column.witnesses(values) for column, values in zip(self.columns, sample.values, strict=True)]
        n_rows = max(map(len, each))
        values: list[np.ndarray | Coded] = []
        for found, like in zip(each, sample.values, strict=True):
            if isinstance(like, Coded):
                codes = np.full(n_rows, -1, dtype=np.int64)
                codes[: len(found)] = np.arange(len(found))
                values.append(Coded(codes, tuple(found)))
            else:
                values.append(np.array([*found, *[np.nan] * (n_rows - len(found))]))
        return RawTable(sample.names, tuple(values), n_rows)

    def applied(self, table: Table) -> Table:
        """A table with the counts of all rows, in place of those of a sample."""
        return Table(tuple(census.applied(column) for census, column in zip(self.columns, table.columns, strict=True)))
