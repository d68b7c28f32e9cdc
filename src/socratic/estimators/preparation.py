"""Rows for training: in an order of their own, and split into parts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from socratic.learning.settings import Rows
from socratic.tables.columns import RawTable, Table, fit_table

MIN_HELD_OUT = 20
"""Fewer rows than this are not worth holding out."""


MOST_COPIES = 5_000_000
"""Rows that whole-number weights may become, unless more were given."""


class Canonical(NamedTuple):
    """Rows in an order that depends on their content alone."""

    kept: np.ndarray  # (M,): a row of the input for each copy, or for each distinct row
    weight: np.ndarray  # (M,): 1, or the summed weight of all copies


@dataclass(frozen=True)
class Split:
    """Indices of the rows to train on, to stop early on, to choose by, and to calibrate on."""

    train: np.ndarray
    validation: np.ndarray
    reference: np.ndarray
    calibration: np.ndarray


def canonical_rows(codes: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> Canonical:
    """Order rows by a digest of their content, those of weight 2 twice.

    Training then depends on which rows there are and how much they weigh, not on their order; a row of weight 2 is the
    same as the row given twice, and one of weight 0 as none. Copies are rows of their own: they can be held out one by
    one, as draws from the same population. Only where weights are no whole numbers, or too large, are they merged.
    """
    kept = np.flatnonzero(weight > 0)
    content = np.ascontiguousarray(np.column_stack([codes[kept], labels[kept]]) + 0.0)  # -0.0 becomes 0.0
    keys = np.array([hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in content], dtype="S16")
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    total = np.bincount(inverse.ravel(), weights=weight[kept], minlength=len(first))
    if (total == np.round(total)).all() and total.sum() <= max(len(weight), MOST_COPIES):
        copies = np.repeat(kept[first], total.astype(np.int64))
        return Canonical(copies, np.ones(len(copies)))
    return Canonical(kept[first], total)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows of a table, encoded but not yet standardised.

    Attributes
    ----------
    columns : Table
        Without scales.
    codes : ndarray (M, V)
    labels : ndarray (M,)
        Class numbers.
    weight : ndarray (M,)
    """

    columns: Table
    codes: np.ndarray
    labels: np.ndarray
    weight: np.ndarray

    def standardise(self, train: np.ndarray) -> tuple[Table, Rows]:
        """The table scaled by the rows to train on alone, and all rows in its scale.

        Rows held out for calibration must not have a part in anything that new rows have none in.
        """
        table = self.columns.standardised(self.codes[train], self.weight[train])
        rows = Rows(
            torch.as_tensor(table.scale(self.codes), dtype=torch.float32),
            torch.as_tensor(self.labels),
            torch.as_tensor(self.weight, dtype=torch.float32),
        )
        return table, rows


def prepare(raw: RawTable, labels: np.ndarray, weight: np.ndarray, leaf: Mapping[str, str] | None) -> Prepared:
    """Choose leaf families and order the rows: nothing that follows depends on the order they came in."""
    columns = fit_table(raw, weight > 0, leaf)
    codes = columns.encode(raw)
    distinct = canonical_rows(codes, labels, weight)
    return Prepared(columns, codes[distinct.kept], labels[distinct.kept], distinct.weight)


def split_rows(
    labels: np.ndarray, validation_fraction: float, calibration_fraction: float, rng: np.random.Generator
) -> Split:
    """Hold rows out at random, class by class, a third of the calibration rows as the reference.

    Every class keeps at least half of its rows, and one, for training. Parts too small to be worth it stay empty.
    """
    n = len(labels)
    sizes = [round(validation_fraction * n), round(calibration_fraction * n)]
    sizes = [size if size >= MIN_HELD_OUT else 0 for size in sizes]
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
    third = len(held) // 3
    train, validation = (np.array(sorted(part), dtype=int) for part in parts[:2])
    return Split(train, validation, np.sort(held[:third]), np.sort(held[third:]))
