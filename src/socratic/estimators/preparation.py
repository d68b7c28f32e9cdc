"""Rows for training: in an order of their own, and split into parts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from socratic.families import LeafName
from socratic.learning.settings import Rows, Source
from socratic.tables.columns import Table, fit_table
from socratic.tables.inputs import known
from socratic.tables.raw import RawTable

MIN_HELD_OUT = 20
"""Fewer rows than this are not worth holding out."""


MOST_COPIES = 5_000_000
"""Rows to train on that whole-number weights may become, unless more were given."""
_ROUNDING = 1e-9
"""Steps between two numbers, as a share of all they span, that may be due to rounding."""
_FREE = 4
"""Values that a measurement could have had for each row there is, at least."""


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
    """The rows of each part of a :class:`Split`, encoded and standardised.

    Where not all rows to train on fit in memory, ``train`` is a sample of them, and they come from ``stream``.
    """

    train: Rows
    validation: Rows | None
    reference: Rows
    calibration: Rows
    stream: Source | None = None

    @property
    def source(self) -> Source:
        """All rows to train on."""
        return self.train if self.stream is None else self.stream


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

    Each is one draw from the population: what came with one weight, or is a copy, is held out as a whole, and becomes
    several rows only to be trained on. Equal rows that are no copies are draws of their own: see :func:`draws`.

    Attributes
    ----------
    columns : Table
        Without scales.
    codes : ndarray (M, V)
    labels : ndarray (M,)
        Class numbers.
    weight : ndarray (M,)
        Positive.
    place : ndarray (M,)
        Where each was among the rows that were given.
    """

    columns: Table
    codes: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    place: np.ndarray

    def take(self, rows: np.ndarray) -> Prepared:
        """Some of the rows."""
        return Prepared(self.columns, self.codes[rows], self.labels[rows], self.weight[rows], self.place[rows])

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

        validation = rows(split.validation, self.weight[split.validation])
        return table, Parts(
            rows(place, train.weight),
            replace(validation, x=known(validation.x)) if len(validation) else None,
            rows(split.reference, self.weight[split.reference]),
            rows(split.calibration, self.weight[split.calibration]),
        )


def prepare(raw: RawTable, labels: np.ndarray, weight: np.ndarray, leaf: Mapping[str, LeafName] | None) -> Prepared:
    """Choose leaf families and order the rows: nothing that follows depends on the order they came in."""
    used = weight > 0
    columns = fit_table(raw, used, leaf)
    codes, labels = columns.read(raw).codes[used], labels[used]
    real = np.array([column.family.real for column in columns.columns])
    kept, weight = draws(codes, labels, weight[used], real)
    return Prepared(columns, codes[kept], labels[kept], weight, np.flatnonzero(used)[kept])


def draws(codes: np.ndarray, labels: np.ndarray, weight: np.ndarray, real: np.ndarray) -> Canonical:
    """One row for each draw from the population, in the order of a digest of their content.

    Equal rows may be draws of their own: a table of few categories repeats itself. They are copies where a
    measurement says so: a column of numbers that hardly ever repeats in rows that differ. Copies are merged. On both
    sides of a split they would make rows that were held out look like those that were trained on.

    Parameters
    ----------
    codes : ndarray (N, V)
    labels : ndarray (N,)
    weight : ndarray (N,)
    real : ndarray (V,) of bool
        Which columns hold real numbers.
    """
    digests = _digests(codes, labels)
    order = np.lexsort((weight, digests))
    distinct = np.append(True, digests[order][1:] != digests[order][:-1])  # the first of equal rows
    if not distinct.all():
        measured = [place for place in np.flatnonzero(real) if _hardly_repeats(codes[order[distinct], place])]
        distinct |= np.isnan(codes[order][:, measured]).all(1)  # without a measurement nothing says that it is a copy
    total = np.bincount(np.cumsum(distinct) - 1, weights=weight[order])
    return Canonical(order[distinct], total)


def _hardly_repeats(values: np.ndarray) -> bool:
    """Whether values (N,) of rows that differ are mostly different, and could have been many others.

    Numbers lie on a grid as fine as the smallest step between two of them, whatever their unit. Ages are mostly
    different in a small table, too, and yet coincide.
    """
    seen = values[~np.isnan(values)]
    distinct = np.unique(seen)
    if len(distinct) < 2 or len(distinct) <= 0.5 * len(seen):
        return len(seen) == 1  # all rows are equal, and nothing says that they differ
    span = distinct[-1] - distinct[0]
    steps = np.diff(distinct)
    return bool(span / steps[steps > _ROUNDING * span].min() >= _FREE * len(seen))


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
        stops = np.cumsum(held_out_of(len(members), n, sizes, rng))
        parts[1].extend(members[: stops[0]])
        parts[2].extend(members[stops[0] : stops[1]])
        parts[0].extend(members[stops[1] :])
    held = rng.permutation(parts[2]).astype(int)
    first = int(reference * len(held))
    train, stop = (np.array(sorted(part), dtype=int) for part in parts[:2])
    return Split(train, stop, np.sort(held[:first]), np.sort(held[first:]))


def held_out_of(n_members: int, n_rows: int, sizes: Sequence[int], rng: np.random.Generator) -> list[int]:
    """How many of the rows of a class are held out for parts of so many of all rows; half of them, and one, stay."""
    share = [int(size / n_rows * n_members + rng.random()) for size in sizes]
    spare = n_members - max(1, -(-n_members // 2))
    while sum(share) > spare:
        share[int(np.argmax(share))] -= 1
    return share


def _digests(codes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A digest (M,) of the content of each row: its label, and the rank of each value among those of its column.

    Ranks have no unit: rows measured in grams come in the same order as in kilograms.
    """
    ranks = [np.unique(column, return_inverse=True)[1].ravel() for column in codes.T]
    content = np.ascontiguousarray(np.column_stack([*ranks, labels]), dtype=np.int64)
    return np.array([hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in content], dtype="S16")
