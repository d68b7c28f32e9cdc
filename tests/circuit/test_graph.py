from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph
from socratic.circuit.nodes import Leaf, Product, Sum
from socratic.families import Bernoulli, Binomial, Categorical, Gaussian
from tests.oracles import enumerate_masks, evaluate, topological

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
    assert len({id(root.children) for root in roots if isinstance(root, Sum)}) == 1
    nodes = topological(roots)
    sums = [node for node in nodes if isinstance(node, Sum)]
    inner = [node for node in sums if node not in roots]
    assert len(inner) == 5 * 2 * 2  # repetitions, regions, sums
    assert len({id(node.children) for node in inner}) == 5 * 2
    assert sum(isinstance(node, Leaf) for node in nodes) == 5 * 4 * 2


def test_children_of_weight_zero_are_unrolled() -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=1, n_repetitions=1).double()
    with torch.no_grad():
        circuit.root_branches()[0].logits[0, 1, :3] = -torch.inf
    graph = circuit.to_graph()
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(graph(x), circuit(x))


def test_weights_of_nodes_sum_to_one() -> None:
    for node in topological(socratic.rat_spn(5, 2, n_sums=2, n_leaves=3, depth=2).to_graph()):
        if isinstance(node, Sum):
            assert math.fsum(node.weights) == pytest.approx(1.0, abs=1e-6)
            assert len(node.weights) == len(node.children)


def test_nodes_are_frozen_and_compare_by_identity() -> None:
    leaf = Leaf(0, Gaussian.of(0.0, 1.0))
    assert leaf != Leaf(0, Gaussian.of(0.0, 1.0))
    assert Product((leaf,)) != Product((leaf,))
    with pytest.raises(AttributeError):
        leaf.variable = 1  # type: ignore[misc]


def test_a_missing_value_is_marginalised() -> None:
    assert Leaf(1, Gaussian.of(0.0, 1.0)).log_density([0.5, math.nan]) == 0.0


def small() -> tuple[Sum, Sum]:
    shared = Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 2.0))), (0.25, 0.75))
    part = Product((shared, Leaf(1, Bernoulli.of(0.3))))
    other = Product((shared, Leaf(1, Bernoulli.of(0.6))))
    return Sum((part, other), (0.5, 0.5)), Sum((other, part), (0.1, 0.9))


def test_sizes() -> None:
    graph = Graph(small(), n_features=4)
    assert (graph.n_features, graph.n_classes, graph.n_nodes, graph.n_leaves) == (4, 2, 9, 4)
    assert (graph.n_sums, graph.n_edges) == (3, 6)
    assert graph.n_parameters == 6 + 2 * 2 + 2
    assert graph.dtype == torch.float32
    assert Graph(small(), dtype=torch.float64).dtype == torch.float64
    assert Graph(small()).double().log_likelihood([[0.0, 1.0]]).dtype == torch.float64
    assert Graph(small()[0]).n_classes == 1
    assert "n_nodes=9" in repr(graph)


def test_roots_are_the_given_ones_until_a_parameter_changes() -> None:
    given = small()
    graph = Graph(given)
    assert all(found is root for found, root in zip(graph.roots, given, strict=True))
    assert graph.double().roots[0] is given[0]
    assert copy.deepcopy(graph).roots[0] is given[0]
    with torch.no_grad():
        graph.logits.add_(torch.arange(6.0))
    changed = graph.roots
    assert changed[0] is not given[0]
    assert graph.roots[0] is changed[0]  # and stay until the next change
    assert given[0].weights == (0.5, 0.5)
    again = Graph(changed, dtype=torch.float64)
    x = [[0.3, 1.0], [math.nan, 0.0]]
    torch.testing.assert_close(again(x), graph(x))
    for masks in ("edge", "unit"):  # what was shared still is
        torch.testing.assert_close(
            socratic.tdi(again, x, masks=masks).relative_covariance,
            socratic.tdi(graph, x, masks=masks).relative_covariance,
        )


def test_a_graph_keeps_the_type_and_the_columns_of_its_circuit() -> None:
    circuit = socratic.rat_spn(5, 2, n_sums=2, n_leaves=2, depth=1).double()
    graph = circuit.to_graph()
    assert graph.dtype == torch.float64
    assert graph.n_features == 5
    assert graph.n_classes == 2


def test_children_may_be_lists() -> None:
    leaves = [Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 1.0))]
    graph = Graph([Sum(leaves, [0.5, 0.5])])
    assert graph.n_nodes == 3


def test_children_of_weight_zero_keep_their_masks_and_change_nothing_else() -> None:
    """Under unit masks sums over the same children share masks, also where one of them does not use a child."""
    leaves = tuple(Leaf(0, Gaussian.of(mean, 1.0)) for mean in (0.0, 1.0, 2.0))
    roots = (Sum(leaves, (0.5, 0.5, 0.0)), Sum(leaves, (0.2, 0.3, 0.5)))
    graph = Graph(roots, dtype=torch.float64)
    x = torch.tensor([[0.3], [2.0]], dtype=torch.float64)
    without = Graph(Sum(leaves[:2], (0.5, 0.5)), dtype=torch.float64)
    torch.testing.assert_close(graph.log_likelihood(x)[:, :1], without.log_likelihood(x))
    graph.log_likelihood(x).sum().backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in graph.parameters())
    with torch.no_grad():
        moments = socratic.tdi(graph, x, dropout=0.3, masks="unit", root_dropout=True)
    for row in range(2):
        exact = enumerate_masks(graph.roots, x[row].tolist(), 0.3, "unit", True)
        np.testing.assert_allclose(moments.relative_covariance[row].numpy(), exact.relative_covariance, atol=1e-9)


def test_scopes_are_the_variables_below() -> None:
    a, b = Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(2, Gaussian.of(0.0, 1.0))
    graph = Graph(Sum((Product((a, b)), Product((b, a))), (0.5, 0.5)))
    assert graph.scopes() == [0b001, 0b100, 0b101, 0b101, 0b101]
