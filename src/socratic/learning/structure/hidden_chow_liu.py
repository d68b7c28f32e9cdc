"""Hidden Chow-Liu trees: each column depends on a hidden state of its own, and the states form a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from socratic.circuit import Node
from socratic.errors import check_count
from socratic.families import Family
from socratic.learning.structure.chow_liu import check_smoothing
from socratic.learning.structure.columns import Families, all_categories, check_table
from socratic.learning.structure.counts import mutual_information, pair_counts
from socratic.learning.structure.trees import RootedTree, category_leaf, maximum_spanning_tree, tree_circuit
from socratic.memory import table_rows


def hidden_chow_liu_tree(
    x: Any,
    families: Families,
    *,
    n_states: int = 4,
    smoothing: float = 1.0,
    max_iterations: int = 100,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> Node:
    """A tree of hidden states, fitted by expectation maximisation, as a circuit.

    The hidden states are connected as the columns are in their Chow-Liu tree. The circuit is smooth and
    structured-decomposable; unlike a Chow-Liu tree it is not deterministic.

    Parameters
    ----------
    x : array (N, V)
        Categories, NaN where missing: those are marginalised.
    families : family, name of a family, or a sequence of them
        Bernoulli or categorical, for all columns or for each.
    n_states : int
        Hidden states of each column.
    smoothing : float
        Rows added to every table of the tree, spread evenly over its cells.
    max_iterations : int
        Largest number of steps of expectation maximisation.
    tolerance : float
        Stop when a step gains less than this many nats a row.
    seed : int
        Seed of the starting point. Equal arguments give equal circuits.

    Returns
    -------
    Sum
    """
    table, known = check_table(x, families)
    sizes = all_categories(known, "hidden_chow_liu_tree")
    smoothing = check_smoothing(smoothing)
    information = mutual_information(pair_counts(table, sizes), sizes, smoothing)
    model = HiddenTree.random(
        maximum_spanning_tree(information), sizes, check_count("n_states", n_states), np.random.default_rng(seed)
    )
    # Category of each value; one past the last where it is missing.
    codes = np.where(np.isnan(table), sizes, table).astype(np.int64)
    before = -np.inf
    for _ in range(check_count("max_iterations", max_iterations)):
        counts = model.expected_counts(codes)
        objective = counts.log_likelihood + smoothing * model.log_prior()
        model = counts.fit(model.tree, smoothing)
        if objective - before < tolerance * len(table):
            break
        before = objective
    return model.to_node(known)


@dataclass(frozen=True, eq=False)
class HiddenTree:
    """The parameters of a hidden tree; H counts the hidden states of a column.

    Attributes
    ----------
    tree : RootedTree
    prior : ndarray (H,)
        Probabilities of the root's states.
    transitions : ndarray (V, H, H)
        Probabilities of a column's states (last axis) given its parent's; those of the root mean nothing.
    emissions : list of ndarray (H, K + 1)
        Probabilities of each column's categories given its state; the last entry, for missing values, is 1.
    """

    tree: RootedTree
    prior: np.ndarray
    transitions: np.ndarray
    emissions: list[np.ndarray]

    @classmethod
    def random(cls, tree: RootedTree, sizes: tuple[int, ...], n_states: int, rng: np.random.Generator) -> HiddenTree:
        """Random parameters: states that are alike would stay alike for ever."""
        return _Counts(
            rng.uniform(0.5, 1.5, n_states),
            rng.uniform(0.5, 1.5, (len(sizes), n_states, n_states)),
            [rng.uniform(0.5, 1.5, (n_states, size)) for size in sizes],
        ).fit(tree, 0.0)

    def log_prior(self) -> float:
        """Log-probability of the parameters for which one row of smoothing is the mode, up to a constant."""
        used = [self.prior, *self.transitions[list(self.tree.order[1:])], *(e[:, :-1] for e in self.emissions)]
        return float(sum(np.log(table).mean() for table in used))

    def expected_counts(self, codes: np.ndarray) -> _Counts:
        """Expected counts of all states, given rows (N, V) of categories (the number of categories where missing)."""
        n_states = len(self.prior)
        total = _Counts(
            np.zeros(n_states),
            np.zeros_like(self.transitions),
            [np.zeros((n_states, e.shape[1] - 1)) for e in self.emissions],
        )
        step = table_rows(codes.shape[1] * n_states)
        for start in range(0, len(codes), step):
            self._add_counts(codes[start : start + step], total)
        return total

    def _add_counts(self, codes: np.ndarray, total: _Counts) -> None:
        """Add the expected counts of some rows to ``total``: messages up the tree, then posteriors down."""
        below = [emission.T[codes[:, column]] for column, emission in enumerate(self.emissions)]  # each (N, H)
        message = [np.empty(0)] * len(below)
        for parent, column in reversed(self.tree.edges):
            scale = below[column].sum(1, keepdims=True)
            below[column] /= scale
            total.log_likelihood += float(np.log(scale).sum())
            message[column] = below[column] @ self.transitions[column].T
            below[parent] = below[parent] * message[column]
        root = self.tree.order[0]
        posterior = [np.empty(0)] * len(below)
        posterior[root] = below[root] * self.prior
        evidence = posterior[root].sum(1, keepdims=True)
        posterior[root] /= evidence
        total.log_likelihood += float(np.log(evidence).sum())
        total.prior += posterior[root].sum(0)
        for parent, column in self.tree.edges:
            from_parent = posterior[parent] / message[column]
            total.transitions[column] += (from_parent.T @ below[column]) * self.transitions[column]
            posterior[column] = (from_parent @ self.transitions[column]) * below[column]
        for column, counts in enumerate(total.emissions):
            for category in range(counts.shape[1]):
                counts[:, category] += posterior[column][codes[:, column] == category].sum(0)

    def to_node(self, families: tuple[Family, ...]) -> Node:
        """The circuit of this tree."""
        leaves = [
            [category_leaf(column, family, row[:-1]) for row in self.emissions[column]]
            for column, family in enumerate(families)
        ]
        return tree_circuit(self.tree, self.prior, list(self.transitions), leaves)


@dataclass
class _Counts:
    """Expected counts, shaped like the parameters of a :class:`HiddenTree`, and the log-likelihood of the rows."""

    prior: np.ndarray
    transitions: np.ndarray
    emissions: list[np.ndarray]
    log_likelihood: float = 0.0

    def fit(self, tree: RootedTree, smoothing: float) -> HiddenTree:
        """The most probable parameters."""

        def shares(counts: np.ndarray, n_cells: int) -> np.ndarray:
            padded = counts + smoothing / n_cells
            return padded / padded.sum(-1, keepdims=True)

        transitions = self.transitions.copy()
        transitions[tree.order[0]] = 1.0
        emissions = [shares(counts, counts.size) for counts in self.emissions]
        return HiddenTree(
            tree,
            shares(self.prior, self.prior.size),
            shares(transitions, transitions[0].size),
            [np.hstack([emission, np.ones((len(emission), 1))]) for emission in emissions],
        )
