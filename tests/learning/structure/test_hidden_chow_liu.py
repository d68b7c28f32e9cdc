"""Hidden Chow-Liu trees: the model they stand for, how they start, and what training makes of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from socratic import Circuit, hidden_chow_liu
from socratic.families import Categorical, Gaussian
from socratic.learning import Rows, fit_em
from socratic.learning.structure import chow_liu_tree
from socratic.structure.hidden_tree import hidden_trees
from tests.learning.structure.graphs import log_likelihood
from tests.learning.structure.tables import TABLES, generate
from tests.learning.structure.test_chow_liu import FAMILIES, all_rows, planted_rows


def rows_of(x: np.ndarray) -> Rows:
    return Rows(torch.from_numpy(x).float(), torch.zeros(len(x), dtype=torch.long), torch.ones(len(x)))


def values(circuit: Circuit, x: np.ndarray) -> np.ndarray:
    return circuit.log_likelihood(x).detach().double().numpy().squeeze(1)


def test_the_circuit_is_the_tree_of_hidden_states() -> None:
    """Enumerates the states of a star: one variable in the middle, three around it, joined two at a time."""
    graph = hidden_trees([[-1, 0, 0, 0]])
    circuit = Circuit(graph, n_classes=1, n_sums=2, n_leaves=2, leaf="bernoulli", product="element-wise").double()
    with torch.no_grad():
        for layer in circuit.inner_layers():
            # Layers of two children join what hangs on one variable: there the state is kept.
            if layer.right is not None:
                layer.logits.copy_(torch.log(torch.eye(2)).expand_as(layer.logits))
    (root,) = (branch for branch in circuit.root_branches())
    prior = torch.softmax(root.logits.detach()[0, 0], -1).numpy()
    transitions = {}
    around = next(layer for layer in circuit.inner_layers() if layer.right is None)
    leaves = circuit.leaves.distributions()
    for fold in range(around.n_folds):
        (variable,) = leaves[around.left.start + fold]
        transitions[variable] = torch.softmax(around.logits.detach()[fold], -1).numpy()
    chances = {v: [d.parameters["probability"] for d in own] for region in leaves for v, own in region.items()}
    x = np.array(list(itertools.product([0.0, 1.0, np.nan], repeat=4)))
    expected = []
    for row in x:

        def likelihood(variable: int, state: int, row: np.ndarray = row) -> float:
            chance = chances[variable][state]
            return 1.0 if np.isnan(row[variable]) else chance if row[variable] else 1.0 - chance

        expected.append(
            sum(
                prior[z]
                * likelihood(0, z)
                * np.prod([sum(transitions[v][z, s] * likelihood(v, s) for s in range(2)) for v in (1, 2, 3)])
                for z in range(2)
            )
        )
    np.testing.assert_allclose(np.exp(values(circuit, x)), expected)


def test_every_shape_of_tree_has_regions() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 9, 60):
        parents = [-1, *(int(rng.integers(0, place)) for place in range(1, n))]
        chain = list(range(-1, n - 1))
        graph = hidden_trees([parents, chain])
        assert graph.n_repetitions == 2
        leaf_scopes = sorted(graph.regions[leaf].scope for leaf in graph.leaf_regions)
        assert leaf_scopes == sorted([(v,) for v in range(n)] * 2)
    with pytest.raises(ValueError, match="a tree needs a variable without a parent"):
        hidden_trees([[1, 0]])


def test_the_circuit_is_normalised() -> None:
    circuit = hidden_chow_liu(planted_rows(100, seed=0), FAMILIES, n_states=3, n_trees=2)
    fit_em(circuit, rows_of(planted_rows(100, seed=0)), n_epochs=3)
    assert circuit.region_graph.n_repetitions == 2
    np.testing.assert_allclose(np.exp(values(circuit, all_rows())).sum(), 1.0, rtol=1e-4)


def test_columns_that_depend_on_each_other_are_neighbours() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=2000)
    x = np.column_stack([a, rng.normal(size=2000), a**2 + 0.1 * rng.normal(size=2000)])  # uncorrelated with a
    circuit = hidden_chow_liu(x, "gaussian", n_states=2)
    scopes = {region.scope for region in circuit.region_graph.regions}
    assert (0, 2) in scopes
    assert (0, 1) not in scopes


def test_hidden_states_beat_the_plain_tree() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 1200)  # one hidden cause of all columns: no tree over the columns is right
    chances = rng.uniform(0.05, 0.95, (3, 12))
    x = (rng.random((1200, 12)) < chances[group]).astype(float)
    train, test = x[:1000], x[1000:]
    hidden = hidden_chow_liu(train, "bernoulli", n_states=3)
    fit_em(hidden, rows_of(train), n_epochs=10, batch_size=50)
    plain = log_likelihood([chow_liu_tree(train, "bernoulli")], test)
    assert values(hidden, test).mean() > plain.mean() + 0.02


def test_it_starts_as_a_mixture_of_the_rows() -> None:
    """Far apart clusters of numbers are told apart from the start: state i is near one row in all columns."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random((400, 1)) < 0.5, 5.0, -5.0) + 0.3 * rng.normal(size=(400, 6))
    circuit = hidden_chow_liu(x, Gaussian(0.01, 1.0), n_states=6, seed=1)
    torn = np.where(np.arange(6) < 3, 5.0, -5.0)[None]
    assert values(circuit, x).mean() > values(circuit, torn)[0] + 5.0


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_mixed_tables(kind: object) -> None:
    x, _, families = generate(kind, 300, missing=0.1, seed=0)
    circuit = hidden_chow_liu(x, families, n_states=4)
    before = values(circuit, x).mean()
    fit_em(circuit, rows_of(x), n_epochs=4, batch_size=50)
    assert values(circuit, x).mean() > before


def test_classes_share_the_trees() -> None:
    circuit = hidden_chow_liu(planted_rows(50, seed=0), FAMILIES, n_classes=3, n_states=2)
    assert circuit.log_likelihood(planted_rows(5, seed=1)).shape == (5, 3)


def test_seeds() -> None:
    x = planted_rows(60, seed=0)
    first, same, other = (values(hidden_chow_liu(x, FAMILIES, seed=seed), x) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_poor_data() -> None:
    for codes in (np.full((5, 3), np.nan), np.zeros((1, 3)), np.ones((4, 1)), np.zeros((3, 40))):
        for family in ("bernoulli", Categorical(3), "gaussian"):
            circuit = hidden_chow_liu(codes, family, n_states=3, n_trees=2)
            assert np.isfinite(values(circuit, np.nan_to_num(codes))).all()


def test_sizes() -> None:
    with pytest.raises(ValueError, match="n_states must be a whole number of at least 1; got 0"):
        hidden_chow_liu(np.zeros((3, 2)), "bernoulli", n_states=0)
    with pytest.raises(ValueError, match="n_trees must be a whole number of at least 1; got 0"):
        hidden_chow_liu(np.zeros((3, 2)), "bernoulli", n_trees=0)
