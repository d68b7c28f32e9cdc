"""Chow-Liu trees: the tree-shaped distribution of categories that is closest to the data."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from socratic.circuit import Node
from socratic.learning.structure.columns import Families, all_categories, check_table
from socratic.learning.structure.counts import mutual_information, pair_counts, smoothed
from socratic.learning.structure.trees import category_leaf, maximum_spanning_tree, tree_circuit


def chow_liu_tree(x: Any, families: Families, *, smoothing: float = 10.0) -> Node:
    """The tree of columns with the most mutual information along its edges, as a circuit.

    Every state of a column is one of its categories, so at most one child of each sum is not 0 for a complete row:
    the circuit is deterministic as well as smooth and decomposable.

    Parameters
    ----------
    x : array (N, V)
        Categories, NaN where missing: two columns are counted on the rows where both are known.
    families : family, name of a family, or a sequence of them
        Bernoulli or categorical, for all columns or for each.
    smoothing : float
        Rows added to the counts of each pair of columns, distributed as if the two were independent.

    Returns
    -------
    Sum
    """
    table, known = check_table(x, families)
    sizes = all_categories(known, "chow_liu_tree")
    smoothing = check_smoothing(smoothing)
    counts = pair_counts(table, sizes)
    tree = maximum_spanning_tree(mutual_information(counts, sizes, smoothing))
    joint, marginal = smoothed(counts, sizes, smoothing)
    first = np.cumsum([0, *sizes])

    def cells(column: int) -> slice:
        return slice(first[column], first[column + 1])

    transitions = [np.empty((0, 0))] * len(sizes)
    for parent, column in tree.edges:
        transitions[column] = joint[cells(parent), cells(column)] / marginal[cells(parent), column, None]
    root = tree.order[0]
    leaves = [
        [category_leaf(column, known[column], indicator) for indicator in np.eye(size)]
        for column, size in enumerate(sizes)
    ]
    return tree_circuit(tree, marginal[cells(root), root], transitions, leaves)


def check_smoothing(value: Any) -> float:
    """``value`` as a float, raising unless it is positive: without it, unseen categories would have no children."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < math.inf:
        raise ValueError(f"smoothing must be a positive number; got {value!r}")
    return float(value)
