"""Hidden Chow-Liu trees: exact messages, rising likelihood, a circuit that is the same model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from socratic.circuit import Product
from socratic.learning.structure import chow_liu_tree, hidden_chow_liu_tree
from socratic.learning.structure.hidden_chow_liu import HiddenTree
from socratic.learning.structure.trees import RootedTree
from tests.learning.structure.graphs import log_likelihood, scopes, topological
from tests.learning.structure.test_chow_liu import FAMILIES, SIZES, all_rows, planted_rows

TREE = RootedTree((2, 0, 1), (2, 0, -1))


def as_codes(x: np.ndarray, sizes: list[int]) -> np.ndarray:
    return np.where(np.isnan(x), sizes, x).astype(np.int64)


def test_expected_counts_equal_enumeration() -> None:
    sizes = [2, 3, 2]
    model = HiddenTree.random(TREE, tuple(sizes), 2, np.random.default_rng(0))
    x = np.array([[0, 2, 1], [1, np.nan, 0], [np.nan, np.nan, np.nan], [1, 0, 1]])
    codes = as_codes(x, sizes)
    found = model.expected_counts(codes)
    prior, transitions, log_likelihoods = np.zeros(2), np.zeros((3, 2, 2)), 0.0
    emissions = [np.zeros((2, size + 1)) for size in sizes]
    for row in codes:
        joint = {}
        for z in itertools.product(range(2), repeat=3):
            states = model.prior[z[2]] * model.transitions[0][z[2], z[0]] * model.transitions[1][z[0], z[1]]
            joint[z] = states * np.prod([model.emissions[v][z[v], row[v]] for v in range(3)])
        total = sum(joint.values())
        log_likelihoods += np.log(total)
        for z, value in joint.items():
            prior[z[2]] += value / total
            transitions[0][z[2], z[0]] += value / total
            transitions[1][z[0], z[1]] += value / total
            for v in range(3):
                emissions[v][z[v], row[v]] += value / total
    np.testing.assert_allclose(found.log_likelihood, log_likelihoods)
    np.testing.assert_allclose(found.prior, prior)
    np.testing.assert_allclose(found.transitions[:2], transitions[:2])
    for mine, expected in zip(found.emissions, emissions, strict=True):
        np.testing.assert_allclose(mine, expected[:, :-1])


@pytest.mark.parametrize("smoothing", [1e-9, 5.0])
def test_every_step_raises_the_objective(smoothing: float) -> None:
    x = planted_rows(200, seed=0)[:, [0, 1, 2]]
    x[np.random.default_rng(1).random(x.shape) < 0.2] = np.nan
    codes = as_codes(x, [2, 3, 2])
    model = HiddenTree.random(TREE, (2, 3, 2), 3, np.random.default_rng(0))
    objectives = []
    for _ in range(40):
        counts = model.expected_counts(codes)
        objectives.append(counts.log_likelihood + smoothing * model.log_prior())
        model = counts.fit(TREE, smoothing)
    assert (np.diff(objectives) > -1e-6).all()
    assert objectives[-1] > objectives[0] + 5.0


def test_the_circuit_is_the_model() -> None:
    rows = all_rows()
    model = HiddenTree.random(TREE, (2, 3, 2), 3, np.random.default_rng(0))
    root = model.to_node(tuple(FAMILIES[:3]))
    x = rows[:, :3]
    by_circuit = log_likelihood([root], x).sum()
    np.testing.assert_allclose(by_circuit, model.expected_counts(as_codes(x, [2, 3, 2])).log_likelihood)


def test_the_circuit_is_normalised_and_its_products_split_alike() -> None:
    root = hidden_chow_liu_tree(planted_rows(100, seed=0), FAMILIES, n_states=3, max_iterations=5)
    found = scopes([root])
    np.testing.assert_allclose(np.exp(log_likelihood([root], all_rows())).sum(), 1.0)
    splits: dict[frozenset[int], set[frozenset[frozenset[int]]]] = {}
    for node in topological([root]):
        if isinstance(node, Product):
            parts = frozenset(found[id(child)] for child in node.children)
            splits.setdefault(found[id(node)], set()).add(parts)
    assert all(len(ways) == 1 for ways in splits.values())


def test_hidden_states_beat_the_plain_tree() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 1200)  # one hidden cause of all columns: no tree over the columns is right
    chances = rng.uniform(0.05, 0.95, (3, 12))
    x = (rng.random((1200, 12)) < chances[group]).astype(float)
    train, test = x[:1000], x[1000:]
    plain, hidden = chow_liu_tree(train, "bernoulli"), hidden_chow_liu_tree(train, "bernoulli", n_states=3)
    mean = log_likelihood([plain, hidden], test).mean(0)
    assert mean[1] > mean[0] + 0.05


def test_seeds() -> None:
    x = planted_rows(60, seed=0)
    first, same, other = (
        log_likelihood([hidden_chow_liu_tree(x, FAMILIES, max_iterations=3, seed=seed)], x) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_poor_data() -> None:
    for codes in (np.full((5, 3), np.nan), np.zeros((1, 3)), np.ones((4, 1)), np.zeros((3, 40))):
        root = hidden_chow_liu_tree(codes, "bernoulli")
        assert scopes([root])[id(root)] == frozenset(range(codes.shape[1]))
        assert np.isfinite(log_likelihood([root], np.nan_to_num(codes))).all()


def test_many_columns_do_not_underflow() -> None:
    chain = RootedTree(tuple(range(1200)), tuple(range(-1, 1199)))
    model = HiddenTree.random(chain, (2,) * 1200, 2, np.random.default_rng(0))
    codes = np.random.default_rng(1).integers(0, 2, (5, 1200))
    value = model.expected_counts(codes).log_likelihood
    assert -5 * 1500 < value < -5 * 708  # below the logarithm of the smallest float, row by row


def test_sizes() -> None:
    with pytest.raises(ValueError, match="n_states must be a whole number of at least 1; got 0"):
        hidden_chow_liu_tree(np.zeros((3, len(SIZES))), FAMILIES, n_states=0)
    with pytest.raises(ValueError, match="hidden_chow_liu_tree takes bernoulli and categorical columns"):
        hidden_chow_liu_tree(np.zeros((3, 2)), "gaussian")
