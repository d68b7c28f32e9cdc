"""Chow-Liu trees find a planted tree, and their circuit is that tree's factorisation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from socratic.circuit import Leaf, Sum
from socratic.families import Bernoulli, Categorical
from socratic.learning.structure import chow_liu_tree
from socratic.learning.structure.counts import mutual_information, pair_counts
from socratic.learning.structure.trees import maximum_spanning_tree
from tests.learning.structure.graphs import log_likelihood, scopes, topological

PARENTS = [-1, 0, 0, 1, 1, 3]
SIZES = [2, 3, 2, 4, 2, 3]
FAMILIES = [Bernoulli() if size == 2 else Categorical(size) for size in SIZES]


def planted_rows(n_rows: int, seed: int) -> np.ndarray:
    """Rows of a tree in which a column mostly repeats its parent."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((n_rows, len(SIZES)))
    for column, (parent, size) in enumerate(zip(PARENTS, SIZES, strict=True)):
        noise = rng.integers(0, size, n_rows)
        repeated = codes[:, parent] % size if parent >= 0 else noise
        codes[:, column] = np.where(rng.random(n_rows) < 0.7, repeated, noise)
    return codes


def all_rows() -> np.ndarray:
    return np.array(list(itertools.product(*map(range, SIZES))), dtype=float)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_planted_tree_is_found(missing: float) -> None:
    codes = planted_rows(3000, seed=0)
    codes[np.random.default_rng(1).random(codes.shape) < missing] = np.nan
    tree = maximum_spanning_tree(mutual_information(pair_counts(codes, SIZES), SIZES))
    assert {frozenset(edge) for edge in tree.edges} == {
        frozenset((parent, column)) for column, parent in enumerate(PARENTS) if parent >= 0
    }
    for parent, column in tree.edges:
        assert tree.order.index(parent) < tree.order.index(column)


def test_the_likelihood_is_that_of_the_tree() -> None:
    codes, smoothing = planted_rows(500, seed=0), 2.0
    root = chow_liu_tree(codes, FAMILIES, smoothing=smoothing)
    rows = planted_rows(50, seed=1)
    shares = [
        (np.bincount(codes[:, column].astype(int), minlength=size) + 1 / size) / (len(codes) + 1)
        for column, size in enumerate(SIZES)
    ]
    expected = np.zeros(len(rows))
    for column, parent in enumerate(PARENTS):
        for number, row in enumerate(rows):
            alike, share = codes[:, column] == row[column], shares[column][int(row[column])]
            context, weight = np.ones(len(codes), dtype=bool), smoothing
            if parent >= 0:
                context = codes[:, parent] == row[parent]
                weight = smoothing * shares[parent][int(row[parent])]
            expected[number] += np.log((np.sum(alike & context) + weight * share) / (context.sum() + weight))
    np.testing.assert_allclose(log_likelihood([root], rows)[:, 0], expected, rtol=1e-10)


def test_the_circuit_is_normalised_smooth_decomposable_and_deterministic() -> None:
    root = chow_liu_tree(planted_rows(100, seed=0), FAMILIES)
    assert scopes([root])[id(root)] == frozenset(range(6))
    rows = all_rows()
    np.testing.assert_allclose(np.exp(log_likelihood([root], rows)).sum(), 1.0)
    for node in topological([root]):
        if isinstance(node, Sum):
            alive = log_likelihood(node.children, rows) > -np.inf
            assert (alive.sum(1) <= 1).all()


def test_nodes_are_shared() -> None:
    root = chow_liu_tree(planted_rows(100, seed=0), FAMILIES)
    nodes = topological([root])
    assert sum(isinstance(node, Leaf) for node in nodes) == sum(SIZES)
    assert len({id(node.children) for node in nodes if isinstance(node, Sum)}) == len(SIZES)


def test_missing_values_are_marginalised() -> None:
    root = chow_liu_tree(planted_rows(100, seed=0), FAMILIES)
    rows = all_rows()
    known = rows[:, 0] == 1
    partial = np.full((1, 6), np.nan)
    partial[0, 0] = 1
    total = np.exp(log_likelihood([root], rows[known])).sum()
    np.testing.assert_allclose(np.exp(log_likelihood([root], partial))[0, 0], total)


def test_poor_data() -> None:
    for codes in (
        np.full((5, 3), np.nan),
        np.zeros((1, 3)),
        np.array([[0.0, np.nan, 1.0]]),
        np.ones((4, 1)),
        np.zeros((3, 40)),
    ):
        root = chow_liu_tree(codes, "bernoulli")
        assert scopes([root])[id(root)] == frozenset(range(codes.shape[1]))
        assert np.isfinite(log_likelihood([root], np.nan_to_num(codes))).all()


def test_a_long_chain_needs_no_recursion() -> None:
    rng = np.random.default_rng(0)
    flips = rng.random((300, 600)) < 0.1
    codes = (flips.cumsum(1) % 2).astype(float)
    root = chow_liu_tree(codes, "bernoulli")
    assert scopes([root])[id(root)] == frozenset(range(600))


def test_errors_name_the_problem() -> None:
    with pytest.raises(ValueError, match="column 1 is gaussian: cut it into bins first, or use learn_spn"):
        chow_liu_tree(np.zeros((3, 2)), ["bernoulli", "gaussian"])
    with pytest.raises(ValueError, match="smoothing must be a positive number; got 0"):
        chow_liu_tree(np.zeros((3, 2)), "bernoulli", smoothing=0)
    with pytest.raises(
        ValueError, match=r"column 1 is categorical and takes whole numbers from 0 to 2; got 3.0 in row 1"
    ):
        chow_liu_tree(np.array([[0.0, 2.0], [0.0, 3.0]]), Categorical(3))
