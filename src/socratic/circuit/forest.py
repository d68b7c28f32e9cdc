"""A forest of trees whose cells are products of leaves: each tree is a circuit over rows and their classes.

A tree cuts the space of rows into boxes. In a box, a *cell*, columns are independent and the class has probabilities of
its own, so a tree is a sum over cells of products of leaves, each leaf zero outside its box:

    p_t(x, c) = sum over cells k of weight_k 1[x in box_k] p(c | k) product over columns j of f_kj(x_j)

Leaves integrate to 1 over their box, so that missing values are marginalised exactly: a row then belongs to every cell
that it is consistent with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

FARTHEST = 1e6
"""In deviations: beyond, squares would lose the digits in which cells differ."""


class Columns(NamedTuple):
    """The columns of a forest by kind, and the order of categories.

    Attributes
    ----------
    numbers, categories : ndarray (U,), (W,) of int
        The columns of either kind.
    first : ndarray (W + 1,) of int
        Where the values of each categorical column begin among the Y values of all of them.
    rank : ndarray (Y,) of int
        What trees see of a category in place of its code: its place in an order of its column's categories.
    """

    numbers: np.ndarray
    categories: np.ndarray
    first: np.ndarray
    rank: np.ndarray

    def ranked(self, x: np.ndarray) -> np.ndarray:
        """Rows (N, V) as trees see them: categories by their rank."""
        ranked = np.array(x, dtype=np.float64)
        for column, here, values in self._category_values(x):
            ranked[here, column] = self.rank[values]
        return ranked

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Rows (N, V) as cells see them (N, 3 U + Y): which numbers are there, these, their squares; categories."""
        numbers = x[:, self.numbers]
        there = ~np.isnan(numbers)
        numbers = np.where(there, numbers, 0.0).clip(-FARTHEST, FARTHEST)
        hot = np.zeros((len(x), len(self.rank)))
        for _, here, values in self._category_values(x):
            hot[here, values] = 1.0
        return np.concatenate([there, numbers, numbers**2, hot], 1)

    def _category_values(self, x: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Each categorical column, the rows that have a value there, and its place among all values."""
        for start, column in zip(self.first, self.categories, strict=False):
            here = np.flatnonzero(~np.isnan(x[:, column]))
            yield column, here, start + x[here, column].astype(np.int64)


@dataclass(frozen=True, eq=False)
class Forest:
    """T trees of at most M nodes and K cells over U numbers and the Y values of all categorical columns together.

    Cells that a tree does not have weigh 0; nodes that it does not have cannot be reached, and are no cells. Nodes that
    are cells lead to themselves.

    Attributes
    ----------
    feature, left, right, cell : ndarray (T, M) of int
        The column that an inner node looks at, the nodes it leads to, and the cell that any other node is (else -1).
    threshold : ndarray (T, M)
        Rows with a value of at most this go left.
    rank, numbers, categories, first
        See :class:`Columns`.
    count : ndarray (T, K)
        Training rows in each cell, by weight.
    class_share : ndarray (T, K, C)
        p(c | k).
    class_prior : ndarray (C,)
        Frequencies of the classes among the training rows.
    mean, variance, log_mass : ndarray (T, K, U)
        Of the Gaussian leaves, and the log of what their boxes hold of them.
    log_table : ndarray (T, K, Y)
        Log-probabilities of categories, normalised within the box.
    sharpness : float
        The power that averaged class probabilities are raised to.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    cell: np.ndarray
    rank: np.ndarray
    numbers: np.ndarray
    categories: np.ndarray
    first: np.ndarray
    count: np.ndarray
    class_share: np.ndarray
    class_prior: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_mass: np.ndarray
    log_table: np.ndarray
    sharpness: float

    @property
    def n_trees(self) -> int:
        """Trees, T."""
        return len(self.feature)

    @property
    def columns(self) -> Columns:
        """The columns by kind."""
        return Columns(self.numbers, self.categories, self.first, self.rank)

    @property
    def n_classes(self) -> int:
        """Classes, C."""
        return self.class_share.shape[2]

    @property
    def split_columns(self) -> np.ndarray:
        """Numbers of the columns that some tree looks at, ascending."""
        return np.unique(self.feature[(self.cell < 0) & (self.left != self.right)])

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain data for a model file."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        sharpness = fields.pop("sharpness")
        return fields, {"sharpness": sharpness}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> Forest:
        """Rebuild what :meth:`parts` gave, with all checks."""
        forest = cls(**arrays, sharpness=float(config["sharpness"]))
        forest.check()
        return forest

    def check(self) -> None:
        """Raise ``ValueError`` unless the parts fit together."""
        n_trees, n_nodes = self.feature.shape
        n_cells, n_classes = self.class_share.shape[1:]
        n_columns = len(self.numbers) + len(self.categories)
        expected = {
            **dict.fromkeys(("threshold", "left", "right", "cell"), (n_trees, n_nodes)),
            "count": (n_trees, n_cells),
            "class_share": (n_trees, n_cells, n_classes),
            "class_prior": (n_classes,),
            **dict.fromkeys(("mean", "variance", "log_mass"), (n_trees, n_cells, len(self.numbers))),
            "log_table": (n_trees, n_cells, len(self.rank)),
            "first": (len(self.categories) + 1,),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} of a forest must have the shape {shape}; got {getattr(self, name).shape}")
        limits = {"feature": n_columns, "left": n_nodes, "right": n_nodes, "rank": max(1, len(self.rank))}
        for name, limit in limits.items():
            _check_range(name, getattr(self, name), 0, limit)
        _check_range("cell", self.cell, -1, n_cells)
        for _ in levels(self.left, self.right, self.cell):
            pass  # which raises where they do not end
        if not (np.isfinite(self.mean).all() and (self.variance > 0.0).all()):
            raise ValueError("the leaves of a forest must have finite means and positive variances")
        if sorted([*self.numbers, *self.categories]) != list(range(n_columns)):
            raise ValueError("numbers and categories of a forest must be all of its columns")
        if self.first[0] != 0 or self.first[-1] != len(self.rank) or (np.diff(self.first) < 1).any():
            raise ValueError("first of a forest must divide its categories")
        if not 0.0 < self.sharpness < np.inf:
            raise ValueError(f"sharpness of a forest must be positive; got {self.sharpness!r}")


def _check_range(name: str, values: np.ndarray, low: int, high: int) -> None:
    if values.dtype.kind not in "iu" or (values.size and not low <= values.min() <= values.max() < high):
        raise ValueError(f"{name} of a forest must hold whole numbers from {low} to {high - 1}")


def levels(left: np.ndarray, right: np.ndarray, cell: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The trees and numbers of the inner nodes of all trees (T, M), one level after the other, from the roots down.

    Raises ``ValueError`` where nodes lead to others that were met before: such trees may have no end.
    """
    n_met = 0
    tree = np.arange(len(cell))
    node = np.zeros(len(cell), dtype=np.int64)
    while True:
        inner = cell[tree, node] < 0
        tree, node = tree[inner], node[inner]
        if not len(tree):
            return
        n_met += len(tree)
        if n_met > cell.size:
            raise ValueError("left and right of a forest must lead to nodes of their own")
        yield tree, node
        tree, node = np.concatenate([tree, tree]), np.concatenate([left[tree, node], right[tree, node]])
