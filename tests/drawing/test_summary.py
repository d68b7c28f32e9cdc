from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.families import Bernoulli, Gaussian
from tests.inference.graph.random_graphs import SHAPES, random_roots
from tests.oracles import topological


def test_counts_of_a_graph() -> None:
    for shape in SHAPES:
        graph = Graph(random_roots(shape, 7))
        found = socratic.summary(graph)
        nodes = topological(graph)
        assert found.n_leaves == sum(isinstance(node, Leaf) for node in nodes)
        assert found.n_products == sum(isinstance(node, Product) for node in nodes)
        assert found.n_sums == sum(isinstance(node, Sum) for node in nodes)
        assert found.n_nodes == len(nodes)
        assert found.n_edges == sum(len(node.children) for node in nodes if not isinstance(node, Leaf))
        assert found.n_weights == sum(len(node.children) for node in nodes if isinstance(node, Sum))
        for masks, (method, reason) in found.methods.items():
            moments = socratic.tdi(graph, torch.full((1, graph.n_features), torch.nan), masks=masks)
            assert (method, reason) == (moments.method, moments.reason)


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
@pytest.mark.parametrize(("n_features", "depth", "n_repetitions"), [(4, 2, 1), (7, 2, 3), (5, 1, 2), (6, 3, 2)])
def test_a_circuit_is_counted_without_unrolling(product: str, n_features: int, depth: int, n_repetitions: int) -> None:
    circuit = socratic.rat_spn(
        n_features, 3, n_sums=3, n_leaves=3, depth=depth, n_repetitions=n_repetitions, product=product
    )
    expected = socratic.summary(circuit.to_graph(), methods=False)
    found = socratic.summary(circuit, methods=False)
    assert found == dataclasses.replace(expected, kind="Circuit", n_parameters=circuit.n_parameters)


def test_mixed_families_are_counted_apart() -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=1, leaf=["gaussian", "bernoulli"] * 2)
    found, expected = (socratic.summary(model).leaves for model in (circuit, circuit.to_graph()))
    assert found == expected
    assert set(found) == {"gaussian", "bernoulli"}


def test_the_text_is_aligned() -> None:
    dry, wet = Leaf(1, Bernoulli.of(0.1)), Leaf(1, Bernoulli.of(0.8))
    day = Leaf(0, Gaussian.of(0.0, 1.0))
    graph = Graph(Sum((Product((day, dry)), Product((day, wet))), (0.5, 0.5)))
    lines = repr(socratic.summary(graph)).splitlines()
    assert lines[0] == "Graph"
    assert "    leaves         3 (1 gaussian, 2 bernoulli)" in lines
    assert "  edges            6 (2 with a weight)" in lines
    assert "  scopes           3, of 1 to 2 columns" in lines
    assert lines[-1].startswith("  TDI, unit masks  tree: no two nodes that meet share anything random")
    assert str(socratic.summary(graph)) == repr(socratic.summary(graph))


def test_bounds_are_announced() -> None:
    graph = socratic.rat_spn(8, 2, n_sums=8, n_leaves=8, depth=3, n_repetitions=1).to_graph()
    method, reason = socratic.summary(graph).methods["unit"]
    assert method == "bounds"
    assert "budget" in reason


def test_a_tensor_circuit_is_layered() -> None:
    circuit = socratic.rat_spn(8, 2)
    moments = socratic.tdi(circuit, torch.zeros(1, 8))
    assert set(socratic.summary(circuit).methods.values()) == {(moments.method, moments.reason)}


def test_a_single_leaf() -> None:
    found = socratic.summary(Graph(Leaf(0, Gaussian.of(0.0, 1.0))))
    assert (found.n_nodes, found.n_levels, found.n_edges) == (1, 1, 0)


@pytest.mark.parametrize("function", [socratic.summary, socratic.draw])
def test_nodes_must_be_wrapped(function: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"got a Leaf: wrap it, Graph\(node\)"):
        function(Leaf(0, Gaussian.of(0.0, 1.0)))
    with pytest.raises(ValueError, match="circuit must be a Circuit or Graph; got a str"):
        function("circuit")
