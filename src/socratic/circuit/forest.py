"""A forest of trees whose cells are products of leaves: each tree is a circuit over rows and their classes.

A tree cuts the space of rows into boxes. In a box, a *cell*, columns are independent and the class has probabilities of
its own, so a tree is a sum over cells of products of leaves, each leaf zero outside its box:

    p_t(x, c) = sum over cells k of weight_k 1[x in box_k] p(c | k) product over columns j of f_kj(x_j)

Leaves integrate to 1 over their box, so that missing values are marginalised exactly: a row then belongs to every cell
that it is consistent with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from socratic.circuit.cells import CellTables, levels

_LOG_2PI = float(np.log(2.0 * np.pi))
_WHOLE = ("left", "right", "cell", "first")
"""Arrays of whole numbers, of any type."""
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
        for column, place in zip(self.categories, self.category_places(x), strict=True):
            ranked[:, column] = np.where(place < 0, np.nan, self.rank[place])
        return ranked

    def statistics(self, x: np.ndarray) -> np.ndarray:
        """Rows (N, V) as cells see them (N, 3 U + Y): :meth:`number_statistics`, and which categories they hold."""
        hot = np.zeros((len(x), len(self.rank)))
        for place in self.category_places(x):
            here = np.flatnonzero(place >= 0)
            hot[here, place[here]] = 1.0
        return np.concatenate([self.number_statistics(x), hot], 1)

    def number_statistics(self, x: np.ndarray) -> np.ndarray:
        """Which numbers of rows (N, V) are there, these, and their squares: (N, 3 U)."""
        numbers = x[:, self.numbers]
        there = ~np.isnan(numbers)
        numbers = np.where(there, numbers, 0.0).clip(-FARTHEST, FARTHEST)
        return np.concatenate([there, numbers, numbers**2], 1)

    def category_places(self, x: np.ndarray) -> list[np.ndarray]:
        """For each categorical column the place (N,) of the values of rows (N, V) among all Y; -1 where missing."""
        return [
            np.where(np.isnan(x[:, column]), -1 - start, np.nan_to_num(x[:, column])).astype(np.int64) + start
            for start, column in zip(self.first, self.categories, strict=False)
        ]


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
    sharpness, caution : float
        How averaged class probabilities are tempered, and
    class_bias : ndarray (C,)
        by how much those of each class: see :class:`~socratic.inference.forest.Tempering`.
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
    class_bias: np.ndarray
    sharpness: float
    caution: float

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

    @cached_property
    def of_nothing(self) -> np.ndarray:
        """What the trees say on average of the classes of a row of which nothing is known: (C,)."""
        return shares_of_nothing(self.count, self.class_share)

    @cached_property
    def cell_tables(self) -> CellTables:
        """By which rows find their cells."""
        return CellTables(self.feature, self.threshold, self.left, self.right, self.cell)

    @cached_property
    def number_parameters(self) -> np.ndarray:
        """Natural parameters (T, K, 3 U) of the Gaussian leaves, for :meth:`Columns.number_statistics`."""
        constant = -0.5 * (_LOG_2PI + np.log(self.variance) + self.mean**2 / self.variance) - self.log_mass
        return np.concatenate([constant, self.mean / self.variance, -0.5 / self.variance], 2)

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain data for a model file."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields, {name: fields.pop(name) for name in ("sharpness", "caution")}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> Forest:
        """Rebuild what :meth:`parts` gave, with all checks."""
        forest = cls(**arrays, sharpness=float(config["sharpness"]), caution=float(config["caution"]))
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
            **dict.fromkeys(("class_prior", "class_bias"), (n_classes,)),
            **dict.fromkeys(("mean", "variance", "log_mass"), (n_trees, n_cells, len(self.numbers))),
            "log_table": (n_trees, n_cells, len(self.rank)),
            "first": (len(self.categories) + 1,),
        }
        for name, shape in expected.items():
            array = getattr(self, name)
            kind = array.dtype if name in _WHOLE else np.float64
            if array.shape != shape or array.dtype != kind:
                raise ValueError(
                    f"{name} of a forest must have the shape {shape} and be {np.dtype(kind)}; got {array.shape} and "
                    f"{array.dtype}"
                )
        limits = {"feature": n_columns, "left": n_nodes, "right": n_nodes, "rank": max(1, len(self.rank))}
        for name, limit in limits.items():
            _check_range(name, getattr(self, name), 0, limit)
        _check_range("cell", self.cell, -1, n_cells)
        _check_range("first", self.first, 0, len(self.rank) + 1)
        for _ in levels(self.left, self.right, self.cell):
            pass  # which raises where they do not end
        if not (np.isfinite(self.mean).all() and (self.variance > 0.0).all()):
            raise ValueError("the leaves of a forest must have finite means and positive variances")
        if sorted([*self.numbers, *self.categories]) != list(range(n_columns)):
            raise ValueError("numbers and categories of a forest must be all of its columns")
        if self.first[0] != 0 or self.first[-1] != len(self.rank) or (np.diff(self.first) < 1).any():
            raise ValueError("first of a forest must divide its categories")
        self._check_tempering()

    def _check_tempering(self) -> None:
        if not 0.0 <= self.sharpness < np.inf:
            raise ValueError(f"sharpness of a forest must be at least 0; got {self.sharpness!r}")
        if not 0.0 <= self.caution <= 1.0:
            raise ValueError(f"caution of a forest must be from 0 to 1; got {self.caution!r}")
        if not np.isfinite(self.class_bias).all():
            raise ValueError("class_bias of a forest must be finite")


def shares_of_nothing(count: np.ndarray, class_share: np.ndarray) -> np.ndarray:
    """What trees with such cells say on average of the classes of a row of which nothing is known: (C,)."""
    shares: np.ndarray = (count / count.sum(1, keepdims=True)).ravel() @ class_share.reshape(-1, class_share.shape[2])
    return shares / len(count)


def _check_range(name: str, values: np.ndarray, low: int, high: int) -> None:
    if values.dtype.kind not in "iu" or (values.size and not low <= values.min() <= values.max() < high):
        raise ValueError(f"{name} of a forest must hold whole numbers from {low} to {high - 1}")
