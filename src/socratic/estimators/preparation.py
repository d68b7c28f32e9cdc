"""Rows for training: in an order of their own, and split into parts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from socratic.families import LeafName
from socratic.learning.settings import Rows
from socratic.tables.columns import Table, fit_table
from socratic.tables.raw import RawTable

MIN_HELD_OUT = 20
"""Fewer rows than this are not worth holding out."""


MOST_COPIES = 5_000_000
"""Rows to train on that whole-number weights may become, unless more were given."""


class Canonical(NamedTuple):
    """Rows in an order that depends on their content alone."""

    kept: np.ndarray  # (M,): the place of a row for each copy, or for each distinct row
    weight: np.ndarray  # (M,): 1, or the summed weight of all copies


@dataclass(frozen=True)
class Split:
    """Indices of the rows to train on, to stop early on, to choose by, and to calibrate on."""

    train: np.ndarray
    validation: np.ndarray
    reference: np.ndarray
    calibration: np.ndarray


@dataclass(frozen=True, eq=False)
class Parts:
    """The rows of each part of a :class:`Split`, encoded and standardised."""

    train: Rows
    validation: Rows | None
    reference: Rows
    calibration: Rows


def canonical_rows(codes: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> Canonical:
    """Rows to train on, ordered by a digest of their content, those of weight 2 twice.

    Training then depends on which rows there are and how much they weigh, not on their order, and a row of weight 2
    trains as the row given twice does. Where weights are no whole numbers, or too large, equal rows are merged instead.
    """
    _, first, inverse = np.unique(_digests(codes, labels), return_index=True, return_inverse=True)
    total = np.bincount(inverse.ravel(), weights=weight, minlength=len(first))
    if (total == np.round(total)).all() and total.sum() <= max(len(weight), MOST_COPIES):
        copies = np.repeat(first, total.astype(np.int64))
        return Canonical(copies, np.ones(len(copies)))
    return Canonical(first, total)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows of a table, encoded but not yet standardised, in an order that depends on their content alone.

    A row given twice is two rows, which may be held out one by one: they are two draws from the population. A row of
    weight 2 is one draw, and stays one until it is trained on.

    Attributes
    ----------
    columns : Table
        Without scales.
    codes : ndarray (M, V)
    labels : ndarray (M,)
        Class numbers.
    weight : ndarray (M,)
        Positive.
    """

    columns: Table
    codes: np.ndarray
    labels: np.ndarray
    weight: np.ndarray

    def divide(self, split: Split) -> tuple[Table, Parts]:
        """The table scaled by the rows to train on alone, and all parts in its scale.

        Rows held out for calibration must not have a part in anything that new rows have none in.
        """
        train = canonical_rows(self.codes[split.train], self.labels[split.train], self.weight[split.train])
        place = split.train[train.kept]
        table = self.columns.standardised(self.codes[place], train.weight)

        def rows(place: np.ndarray, weight: np.ndarray) -> Rows:
            return Rows(
                torch.as_tensor(table.scale(self.codes[place]), dtype=torch.float32),
                torch.as_tensor(self.labels[place]),
                torch.as_tensor(weight, dtype=torch.float32),
            )

        return table, Parts(
            rows(place, train.weight),
            rows(split.validation, self.weight[split.validation]) if len(split.validation) else None,
            rows(split.reference, self.weight[split.reference]),
            rows(split.calibration, self.weight[split.calibration]),
        )


def prepare(raw: RawTable, labels: np.ndarray, weight: np.ndarray, leaf: Mapping[str, LeafName] | None) -> Prepared:
    """Choose leaf families and order the rows: nothing that follows depends on the order they came in."""
    columns = fit_table(raw, weight > 0, leaf)
    codes = columns.encode(raw).codes
    kept = np.flatnonzero(weight > 0)
    kept = kept[np.argsort(_digests(codes[kept], labels[kept], weight[kept]), kind="stable")]
    return Prepared(columns, codes[kept], labels[kept], weight[kept])


def split_rows(
    labels: np.ndarray, rng: np.random.Generator, *, validation: float, calibration: float, reference: float
) -> Split:
    """Hold rows out at random, class by class.

    Every class keeps at least half of its rows, and one, for training. Parts too small to be worth it stay empty.

    Parameters
    ----------
    labels : ndarray (N,)
        The class of each row.
    rng : Generator
    validation, calibration : float
        Shares of the rows to stop on, and to calibrate on.
    reference : float
        Share of the latter to choose by.
    """
    n = len(labels)
    sizes = [round(validation * n), round(calibration * n)]
    sizes = [size if size >= MIN_HELD_OUT else 0 for size in sizes]
    if not any(sizes):  # nothing random then: weights and copies cannot make a difference
        nothing = np.empty(0, dtype=int)
        return Split(np.arange(n), nothing, nothing, nothing)
    parts: list[list[int]] = [[], [], []]  # train, validation, calibration
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        share = [int(size / n * len(members) + rng.random()) for size in sizes]
        spare = len(members) - max(1, -(-len(members) // 2))
        while sum(share) > spare:
            share[int(np.argmax(share))] -= 1
        stops = np.cumsum(share)
        parts[1].extend(members[: stops[0]])
        parts[2].extend(members[stops[0] : stops[1]])
        parts[0].extend(members[stops[1] :])
    held = rng.permutation(parts[2]).astype(int)
    first = int(reference * len(held))
    train, stop = (np.array(sorted(part), dtype=int) for part in parts[:2])
    return Split(train, stop, np.sort(held[:first]), np.sort(held[first:]))


def _digests(codes: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """A digest (M,) of the content of each row."""
    content = np.ascontiguousarray(np.column_stack([codes, *more]) + 0.0)  # -0.0 becomes 0.0
    return np.array([hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in content], dtype="S16")
