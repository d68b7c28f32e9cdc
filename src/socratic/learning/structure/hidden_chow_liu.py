"""Hidden Chow-Liu trees: each column depends on a hidden state of its own, and the states form a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from socratic.circuit.circuit import Circuit
from socratic.errors import check_count
from socratic.families import Family
from socratic.learning.initialise import initialise_leaves, start_near_identity
from socratic.learning.structure.clusters import cluster_rows
from socratic.learning.structure.columns import Families, check_table, n_categories
from socratic.learning.structure.counts import mutual_information, pair_counts
from socratic.learning.structure.trees import RootedTree, maximum_spanning_tree, rooted_at_centre
from socratic.structure.hidden_tree import hidden_trees

_N_BINS = 8
"""Numbers are cut into so many bins of equally many rows, to measure how much two columns tell of each other."""

_SHARED = 0.1
"""How much all rows count in the tree of a cluster, relative to the rows of the cluster itself."""


def hidden_chow_liu(
    x: Any, families: Families, *, n_classes: int = 1, n_states: int = 16, n_trees: int = 1, seed: int = 0
) -> Circuit:
    """A circuit of hidden Chow-Liu trees with starting parameters, to be trained by EM or gradient steps.

    Every column has a hidden state, and the states are connected as the columns are in the tree with the most mutual
    information along its edges (Chow and Liu, 1968). Several trees are those of clusters of similar rows, mixed. All
    states of a tree start as one: the circuit starts as a mixture of products, and training takes the columns apart
    where that helps.

    Parameters
    ----------
    x : array (N, V)
        Rows, NaN where a value is missing.
    families : family, name of a family, or a sequence of them
        The leaf family of all columns, or of each.
    n_classes : int
        Number of class roots (C). They share the trees.
    n_states : int
        Hidden states of each column.
    n_trees : int
        Trees to mix; fewer if fewer rows are distinct.
    seed : int
        Equal arguments give equal circuits.

    Returns
    -------
    Circuit
        Smooth and structured-decomposable.
    """
    table, known = check_table(x, families)
    n_trees = check_count("n_trees", n_trees)
    clusters = np.zeros(len(table), dtype=np.int64)
    if n_trees > 1:
        clusters = cluster_rows(table, known, n_trees, np.random.default_rng(seed))
    trees = [rooted_at_centre(tree).parents for tree in _trees(table, known, clusters)]
    n_states = check_count("n_states", n_states)
    circuit = Circuit(
        hidden_trees(trees),
        n_classes=n_classes,
        n_sums=n_states,
        n_leaves=n_states,
        leaf=known,
        product="element-wise",
        seed=seed,
    )
    start_near_identity(circuit, seed)
    initialise_leaves(circuit, torch.from_numpy(table), seed)
    return circuit


def _trees(x: np.ndarray, families: Sequence[Family], clusters: np.ndarray) -> list[RootedTree]:
    """The Chow-Liu tree of each cluster of rows, all rows having some say in each."""
    codes = np.column_stack([_bins(x[:, column], family) for column, family in enumerate(families)])
    sizes = [n_categories(family) or _N_BINS for family in families]
    counts = [pair_counts(codes[clusters == cluster], sizes) for cluster in range(clusters.max() + 1)]
    everything = np.sum(counts, axis=0)
    share = _SHARED if len(counts) > 1 else 0.0
    return [maximum_spanning_tree(mutual_information(own + share * everything, sizes, 1.0)) for own in counts]


def _bins(values: np.ndarray, family: Family) -> np.ndarray:
    """Categories (N,) as they are, numbers as the bins they fall into; NaN stays."""
    if n_categories(family) is not None or np.isnan(values).all():
        return values
    edges = np.nanquantile(values, np.arange(1, _N_BINS) / _N_BINS)
    return np.where(np.isnan(values), np.nan, np.searchsorted(edges, values, side="right"))
