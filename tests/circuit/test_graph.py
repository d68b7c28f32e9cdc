from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import socratic
from socratic.circuit.nodes import Leaf, Product, Sum
from socratic.distributions import Normal
from socratic.families import Binomial, Categorical
from tests.oracles import evaluate, topological

CIRCUITS = {
    "all-pairs": lambda: socratic.rat_spn(5, 3, n_sums=3, n_leaves=2, depth=2, n_repetitions=2),
    "element-wise": lambda: socratic.rat_spn(
        5, 2, n_sums=3, n_leaves=3, depth=3, n_repetitions=2, product="element-wise"
    ),
    "no split": lambda: socratic.rat_spn(3, 2, n_leaves=4, depth=0, n_repetitions=2),
    "image": lambda: socratic.spatial_spn(3, 2, 2, n_channels=2, n_repetitions=3, n_sums=2, n_leaves=3),
    "mixed": lambda: socratic.rat_spn(
        5, 2, n_sums=2, n_leaves=2, depth=1, leaf=["gaussian", "bernoulli", Categorical(2), Binomial(1), "bernoulli"]
    ),
}


@pytest.mark.parametrize("name", CIRCUITS)
def test_nodes_compute_what_tensors_compute(name: str) -> None:
    circuit = CIRCUITS[name]().double()
    x = torch.tensor(np.random.default_rng(0).integers(0, 2, size=(4, circuit.n_features)), dtype=torch.float64)
    x[1, 0] = x[2, :] = torch.nan
    roots = circuit.to_graph()
    expected = np.stack([evaluate(roots, row.tolist()) for row in x])
    np.testing.assert_allclose(circuit.log_likelihood(x).detach(), expected, rtol=1e-9, atol=1e-9)


def test_sharing_is_kept() -> None:
    roots = socratic.rat_spn(4, 3, n_sums=2, n_leaves=2, depth=2).to_graph().roots
    assert len(roots) == 3
    assert all(isinstance(root, Sum) and root.children is roots[0].children for root in roots)
    nodes = topological(roots)
    sums = [node for node in nodes if isinstance(node, Sum)]
    inner = [node for node in sums if node not in roots]
    assert len(inner) == 5 * 2 * 2  # repetitions, regions, sums
    assert len({id(node.children) for node in inner}) == 5 * 2
    assert sum(isinstance(node, Leaf) for node in nodes) == 5 * 4 * 2


def test_weights_of_nodes_sum_to_one() -> None:
    for node in topological(socratic.rat_spn(5, 2, n_sums=2, n_leaves=3, depth=2).to_graph()):
        if isinstance(node, Sum):
            assert math.fsum(node.weights) == pytest.approx(1.0, abs=1e-6)
            assert len(node.weights) == len(node.children)


def test_nodes_are_frozen_and_compare_by_identity() -> None:
    leaf = Leaf(0, Normal(0.0, 1.0))
    assert leaf != Leaf(0, Normal(0.0, 1.0))
    assert Product((leaf,)) != Product((leaf,))
    with pytest.raises(AttributeError):
        leaf.variable = 1  # type: ignore[misc]


def test_a_missing_value_is_marginalised() -> None:
    assert Leaf(1, Normal(0.0, 1.0)).log_density([0.5, math.nan]) == 0.0
