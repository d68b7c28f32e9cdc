"""LearnSPN: a circuit's structure and parameters from a table, by splitting its columns and clustering its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from socratic.circuit import Leaf, Node, Product, Sum
from socratic.errors import check_choice, check_count, check_rate
from socratic.families import Family
from socratic.learning.structure.clusters import cluster_rows
from socratic.learning.structure.columns import Families, all_categories, check_table, n_categories
from socratic.learning.structure.independence import Dependence, g_test, rdc
from socratic.learning.structure.leaves import LeafFitter

Independence = Literal["auto", "rdc", "g-test"]
_MAX_TEST_ROWS = 2000
"""Columns are tested for independence on so many rows drawn at random."""


def learn_spn(
    x: Any,
    families: Families,
    *,
    min_rows: int = 30,
    threshold: float = 0.2,
    significance: float = 0.001,
    independence: Independence = "auto",
    n_clusters: int = 2,
    min_variance: float = 0.01,
    smoothing: float = 1.0,
    seed: int = 0,
    reference: Any = None,
) -> Node:
    """Learn a circuit over the columns of a table.

    Columns that fall into independent groups become a product of these groups. Otherwise the rows are clustered,
    and a sum mixes the clusters. Both alternate until one column is left (a leaf) or too few rows (a product of
    leaves). The result is a tree.

    Parameters
    ----------
    x : array (N, V)
        Rows, NaN where a value is missing.
    families : family, name of a family, or a sequence of them
        The leaf family of all columns, or of each.
    min_rows : int
        Groups of fewer rows are not divided further.
    threshold : float
        Dependence below this strength, from 0 to 1, does not count.
    significance : float
        Neither does dependence with a larger p-value.
    independence : {"auto", "rdc", "g-test"}
        The test: ``"g-test"`` takes Bernoulli and categorical columns only, ``"rdc"`` any mixture, and ``"auto"``
        is the G-test where it can be.
    n_clusters : int
        Clusters that rows are divided into at once.
    min_variance : float
        Smallest variance of a Gaussian or Student-t leaf, as a share of its column's without 1% at either end.
    smoothing : float
        Rows added to every leaf of another family, distributed as the whole column is.
    seed : int
        Equal arguments give equal circuits.
    reference : array (M, V), optional
        Rows that set the scales of the columns, ``x`` by default.

    Returns
    -------
    Leaf, Product or Sum
    """
    table, known = check_table(x, families)
    whole = table if reference is None else check_table(reference, known)[0]
    check_choice("independence", independence, ("auto", "rdc", "g-test"))
    if independence == "g-test":
        all_categories(known, "independence='g-test'", instead="independence='rdc'")
    if not 0.0 <= smoothing < math.inf:
        raise ValueError(f"smoothing must be a number of at least 0; got {smoothing!r}")
    if not 0.0 < min_variance < math.inf:
        raise ValueError(f"min_variance must be a positive number; got {min_variance!r}")
    search = _Search(
        table,
        known,
        LeafFitter(whole, known, min_variance=min_variance, smoothing=smoothing),
        min_rows=check_count("min_rows", min_rows),
        threshold=check_rate("threshold", threshold),
        significance=check_rate("significance", significance),
        independence=independence,
        n_clusters=check_count("n_clusters", n_clusters, 2),
        rng=np.random.default_rng(seed),
    )
    return search.run()


def learn_class_spns(x: Any, y: Any, families: Families, **options: Any) -> tuple[Node, ...]:
    """One circuit for each class, learned from its rows; the columns' scales are those of all rows.

    Parameters
    ----------
    x : array (N, V)
        Rows, NaN where a value is missing.
    y : array of int (N,)
        Classes 0 to C - 1; each needs a row.
    families : family, name of a family, or a sequence of them
    **options
        As for :func:`learn_spn`.

    Returns
    -------
    tuple of C nodes
    """
    table, known = check_table(x, families)
    labels = np.asarray(y)
    if labels.shape != (len(table),):
        raise ValueError(f"y must hold one class for each of the {len(table)} rows; got the shape {labels.shape}")
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        found = f"the type {labels.dtype}" if labels.dtype.kind not in "iu" else labels.min()
        raise ValueError(f"y must hold whole numbers, the classes from 0 on; got {found}")
    n_classes = int(labels.max()) + 1
    empty = np.flatnonzero(np.bincount(labels, minlength=n_classes) == 0)
    if len(empty):
        raise ValueError(f"every class from 0 to {n_classes - 1} needs a row; class {empty[0]} has none")
    return tuple(learn_spn(table[labels == c], known, reference=table, **options) for c in range(n_classes))


@dataclass
class _Part:
    """Some rows and columns of the table, and what has become of them: a leaf, or parts put together."""

    rows: np.ndarray
    columns: np.ndarray
    connected: bool = False  # whether the columns are known to be dependent
    leaf: Leaf | None = None
    parts: list[int] = field(default_factory=list)
    weights: tuple[float, ...] | None = None  # of a sum


@dataclass
class _Search:
    """The settings and the state of one call of :func:`learn_spn`."""

    x: np.ndarray
    families: Sequence[Family]
    fitter: LeafFitter
    min_rows: int
    threshold: float
    significance: float
    independence: Independence
    n_clusters: int
    rng: np.random.Generator
    parts: list[_Part] = field(default_factory=list)

    def run(self) -> Node:
        """Divide parts until all are done, then build nodes from the last part to the first."""
        self._add(_Part(np.arange(len(self.x)), np.arange(self.x.shape[1])))
        done = 0
        while done < len(self.parts):  # parts that are divided append theirs
            self._divide(self.parts[done])
            done += 1
        nodes: dict[int, Node] = {}
        for index in reversed(range(len(self.parts))):
            part = self.parts[index]
            children = tuple(nodes.pop(child) for child in part.parts)
            if part.leaf is not None:
                nodes[index] = part.leaf
            else:
                nodes[index] = Product(children) if part.weights is None else Sum(children, part.weights)
        return nodes[0]

    def _add(self, part: _Part) -> int:
        self.parts.append(part)
        return len(self.parts) - 1

    def _divide(self, part: _Part) -> None:
        if len(part.columns) == 1:
            self._fit(part)
        elif len(part.rows) < self.min_rows:
            self._split(part, np.arange(len(part.columns)))
        elif not part.connected and (groups := self._groups(part)).max() > 0:
            self._split(part, groups)
        else:
            self._mix(part)

    def _fit(self, part: _Part) -> None:
        """Make a part of one column a leaf, or a sum if two clusters describe its numbers better than one."""
        column = int(part.columns[0])
        values = self.x[part.rows, column]
        if n_categories(self.families[column]) is None and len(values) >= 2 * self.min_rows:
            clusters = cluster_rows(values[:, None], self._families(part), 2, self.rng)
            if self.fitter.prefers_mixture(values, clusters, column):
                self._mix_clusters(part, clusters)
                return
        part.leaf = self.fitter.fit(values, column)

    def _split(self, part: _Part, groups: np.ndarray) -> None:
        """Make the part a product of groups of columns."""
        for group in range(groups.max() + 1):
            part.parts.append(self._add(_Part(part.rows, part.columns[groups == group], connected=True)))

    def _mix(self, part: _Part) -> None:
        """Make the part a sum of clusters of rows, or a product of leaves if its rows are all alike."""
        clusters = cluster_rows(self._table(part.rows, part.columns), self._families(part), self.n_clusters, self.rng)
        if clusters.max() == 0:
            self._split(part, np.arange(len(part.columns)))
        else:
            self._mix_clusters(part, clusters)

    def _mix_clusters(self, part: _Part, clusters: np.ndarray) -> None:
        sizes = np.bincount(clusters)
        for cluster in range(len(sizes)):
            part.parts.append(self._add(_Part(part.rows[clusters == cluster], part.columns)))
        part.weights = tuple((sizes / len(part.rows)).tolist())

    def _groups(self, part: _Part) -> np.ndarray:
        """Group (V,) of each column of the part, by tests on some of its rows."""
        rows = part.rows
        if len(rows) > _MAX_TEST_ROWS:
            rows = rows[np.sort(self.rng.permutation(len(rows))[:_MAX_TEST_ROWS])]
        return self._test(self._table(rows, part.columns), self._families(part)).groups(
            self.threshold, self.significance
        )

    def _test(self, table: np.ndarray, families: Sequence[Family]) -> Dependence:
        sizes = [n_categories(family) for family in families]
        known_sizes = [size for size in sizes if size is not None]
        if self.independence == "g-test" or (self.independence == "auto" and len(known_sizes) == len(sizes)):
            return g_test(table, known_sizes)
        return rdc(table, families, self.rng)

    def _table(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.x[rows[:, None], columns]

    def _families(self, part: _Part) -> list[Family]:
        return [self.families[column] for column in part.columns]
