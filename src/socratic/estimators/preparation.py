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
from socratic.uncertainty.conformal import as_independent

MIN_HELD_OUT = 20
"""Fewer rows than this are not worth holding out."""


MOST_TOGETHER = 5
"""Equal rows of a class that are held out together: if they are copies, whoever is trained on one knows the others.

More of them are a value that the source repeats, as new rows will; whoever makes so many copies gives weights instead.
"""

MOST_COPIES = 5_000_000
"""Rows to train on that whole-number weights may become, unless more were given."""


class Canonical(NamedTuple):
    """Rows in an order that depends on their content alone."""

    kept: np.ndarray  # (M,): the place of a row for each copy, for each distinct row, or for each draw
    weight: np.ndarray  # (M,): 1, the summed weight of all copies, or what the draw is worth


@dataclass(frozen=True)
class Split:
    """Indices of the rows to train on, to stop early on, to choose by, and to calibrate on.

    ``alone`` are those drawn to calibrate on that are trained on all the same, since they are alone in their class.
    """

    train: np.ndarray
    validation: np.ndarray
    reference: np.ndarray
    calibration: np.ndarray
    alone: np.ndarray


@dataclass(frozen=True, eq=False)
class Parts:
    """The rows of each part of a :class:`Split`, encoded and standardised.

    Where not all rows to train on fit in memory, ``train`` is a sample of them, and they come from ``stream``.
    """

    train: Rows
    validation: Rows | None
    reference: Rows
    calibration: Rows
    alone: Rows | None = None
    stream: Source | None = None

    @property
    def source(self) -> Source:
        """All rows to train on."""
        return self.train if self.stream is None else self.stream


def canonical_rows(codes: np.ndarray, labels: np.ndarray, weight: np.ndarray, *, drawn: bool = False) -> Canonical:
    """Rows to train on, ordered by a digest of their content, those of weight 2 twice.

    Training then depends on which rows there are and how much they weigh, not on their order, and a row of weight 2
    trains as the row given twice does. Where weights are no whole numbers, or too large, equal rows are merged instead.

    What judges itself by rows that a part of it has not seen must not see copies of them: ``drawn`` says that each row
    stays one draw. Weights then count by their proportions, as they do in calibration.
    """
    if drawn:
        order = np.lexsort((weight, _digests(codes, labels)))
        return Canonical(order, as_independent(weight[order]))
    _, first, inverse = np.unique(_digests(codes, labels), return_index=True, return_inverse=True)
    total = np.bincount(inverse.ravel(), weights=weight, minlength=len(first))
    if (total == np.round(total)).all() and total.sum() <= max(len(weight), MOST_COPIES):
        copies = np.repeat(first, total.astype(np.int64))
        return Canonical(copies, np.ones(len(copies)))
    return Canonical(first, total)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows of a table, encoded but not yet standardised, in an order that depends on their content alone.

    Each is one draw from the population, whatever its weight: it is held out as a whole, and becomes several rows only
    to be trained on, by what does not hold out rows of its own. Equal rows are draws of their own: sources repeat
    themselves, as a sensor does that reads its default. Up to :data:`MOST_TOGETHER` of them may be copies that somebody
    made, and are held out together.

    Attributes
    ----------
    columns : Table
        Without scales.
    codes : ndarray (M, V)
    labels : ndarray (M,)
        Class numbers.
    weight : ndarray (M,)
        Positive.
    twin : ndarray (M,) of int
        The same number for rows that are equal, whatever their labels.
    place : ndarray (M,)
        Where each was among the rows that were given.
    """

    columns: Table
    codes: np.ndarray
    labels: np.ndarray
    weight: np.ndarray
    twin: np.ndarray
    place: np.ndarray

    def take(self, rows: np.ndarray) -> Prepared:
        """Some of the rows."""
        parts = (self.codes, self.labels, self.weight, self.twin, self.place)
        return Prepared(self.columns, *(part[rows] for part in parts))

    def divide(self, split: Split, *, drawn: bool = False) -> tuple[Table, Parts]:
        """The table scaled by the rows to train on alone, and all parts in its scale.

        Rows held out for calibration must not have a part in anything that new rows have none in. ``drawn`` as in
        :func:`canonical_rows`.
        """
        parts = (self.codes, self.labels, self.weight)
        train = canonical_rows(*(part[split.train] for part in parts), drawn=drawn)
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
            rows(split.alone, self.weight[split.alone]),
        )


def prepare(raw: RawTable, labels: np.ndarray, weight: np.ndarray, leaf: Mapping[str, LeafName] | None) -> Prepared:
    """Choose leaf families and order the rows: nothing that follows depends on the order they came in."""
    used = weight > 0
    columns = fit_table(raw, used, leaf)
    codes, labels = columns.read(raw).codes[used], labels[used]
    weight = weight[used]
    order = np.lexsort((weight, _digests(codes, labels)))
    codes, labels = codes[order], labels[order]
    _, twin = np.unique(_digests(codes, np.zeros(len(codes))), return_inverse=True)
    return Prepared(columns, codes, labels, weight[order], twin.ravel(), np.flatnonzero(used)[order])


def shuffled_units(members: np.ndarray, twins: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows (m,) in random order, those that are held out together side by side, and the number (m,) of each such unit.

    ``members`` (m,) are rows of one class, and ``twins`` (N,) the same number for rows that are equal.
    """
    order = rng.permutation(members)
    _, first, group, count = np.unique(twins[order], return_index=True, return_inverse=True, return_counts=True)
    begins = np.where(count[group] > MOST_TOGETHER, np.arange(len(order)), first[group])
    place = np.argsort(begins, kind="stable")
    return order[place], np.unique(begins[place], return_inverse=True)[1]


def split_rows(
    labels: np.ndarray,
    twins: np.ndarray,
    rng: np.random.Generator,
    *,
    validation: float,
    calibration: float,
    reference: float,
) -> Split:
    """Hold rows out at random, class by class.

    Every class keeps at least half of its rows, and one, for training. Rows that may be copies of each other stay
    together (:data:`MOST_TOGETHER`). A row that is alone in its class, or has nothing but copies there, is as likely
    drawn to calibrate on as others are, and trained on in any case. Parts too small to be worth it stay empty.

    Parameters
    ----------
    labels, twins : ndarray (N,)
        The class of each row, and the same number for rows that are equal.
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
        return Split(np.arange(n), nothing, nothing, nothing, nothing)
    alone: list[int] = []
    parts: list[list[int]] = [[], [], []]  # train, validation, calibration
    for label in np.unique(labels):
        members, units = shuffled_units(np.flatnonzero(labels == label), twins, rng)
        stops = np.cumsum(held_out_of(len(members), n, sizes, rng))
        stops = np.searchsorted(units, units[stops])  # where the unit begins that each would cut
        parts[1].extend(members[: stops[0]])
        parts[2].extend(members[stops[0] : stops[1]])
        parts[0].extend(members[stops[1] :])
        if units[-1] == 0 and rng.random() < (1.0 - reference) * sizes[1] / n:
            alone.extend(members)
    held, together = shuffled_units(np.array(parts[2], dtype=int), twins, rng)
    first = int(reference * len(held))
    if first < len(held):
        first = int(np.searchsorted(together, together[first]))
    train, stop = (np.array(sorted(part), dtype=int) for part in parts[:2])
    return Split(train, stop, np.sort(held[:first]), np.sort(held[first:]), np.array(alone, dtype=int))


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
