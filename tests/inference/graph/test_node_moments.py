"""Moments of every node against enumeration of every mask."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows
from tests.oracles import Enumeration, count_masks, enumerate_masks

SETTINGS = list(itertools.product(("edge", "unit"), (False, True)))


def of_every_node(graph: Graph, row: list[float], dropout: float, masks: str, root_dropout: bool) -> Enumeration:
    """The values of all nodes under every mask. Masks are numbered from the roots, whose rules they follow."""
    return enumerate_masks(graph, row, dropout, masks, root_dropout, outputs=graph.nodes)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("masks", "root_dropout"), SETTINGS)
def test_every_node_equals_enumeration(shape: str, masks: str, root_dropout: bool) -> None:
    methods: Counter[str] = Counter()
    for seed in range(30):
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        if not 0 < count_masks(graph, masks, root_dropout) <= 9:
            continue
        x = random_rows(1, graph.n_features, seed)
        truth = of_every_node(graph, x[0].tolist(), 0.3, masks, root_dropout)
        settings = {"dropout": 0.3, "masks": masks, "root_dropout": root_dropout}
        with torch.no_grad():
            found = socratic.node_moments(graph, x, **settings)
            bounds = socratic.node_moments(graph, x, budget=0, **settings)
            roots = socratic.tdi(graph, x, **settings)
        methods[found.method] += 1
        variance = np.diag(truth.relative_covariance)
        np.testing.assert_allclose(found.log_mean[0], np.log(truth.mean), rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.relative_variance[0], variance, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(bounds.log_mean, found.log_mean)
        lower, upper = (side[0].numpy() for side in bounds.variance_bounds)
        assert (lower <= variance * (1 + 1e-9) + 1e-12).all()
        assert (upper >= variance * (1 - 1e-9) - 1e-12).all()
        known = ~bounds.relative_variance[0].isnan().numpy()  # where both bounds meet
        np.testing.assert_allclose(bounds.relative_variance[0][known], variance[known], rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(found.log_mean[:, graph.root_numbers], roots.log_mean)
        torch.testing.assert_close(found.relative_variance[:, graph.root_numbers], roots.relative_variance)
    assert methods.total() > 1
    assert methods.keys() <= {"tree", "structured", "multiset"}
    assert (methods["tree"] == methods.total()) == (shape == "tree")


def test_rows_are_apart() -> None:
    graph = Graph(random_roots("crossing", 3))
    x = random_rows(4, graph.n_features, 0)
    whole = socratic.node_moments(graph, x)
    assert whole.log_mean.shape == whole.relative_variance.shape == (4, graph.n_nodes)
    one = socratic.node_moments(graph, x[2:3])
    torch.testing.assert_close(whole.relative_variance[2:3], one.relative_variance)


def test_arguments_are_checked() -> None:
    graph = Graph(random_roots("tree", 0))
    x = random_rows(1, graph.n_features, 0)
    with pytest.raises(ValueError, match="masks must be one of 'edge', 'unit'"):
        socratic.node_moments(graph, x, masks="node")
    with pytest.raises(ValueError, match=r"dropout must be a number in \[0, 1\)"):
        socratic.node_moments(graph, x, dropout=1.0)
    with pytest.raises(ValueError, match="budget must be a whole number"):
        socratic.node_moments(graph, x, budget=-1)


def test_only_graphs_have_nodes() -> None:
    graph = Graph(random_roots(SHAPES[0], 0))
    x = np.zeros((1, graph.n_features))
    with pytest.raises(ValueError, match=r"circuit must be a Circuit or Graph; got a \w+: wrap it, Graph\(node\)"):
        socratic.node_moments(graph.roots[0], x)
    with pytest.raises(ValueError, match=r"not nodes to be told apart; pass circuit.to_graph\(\)"):
        socratic.node_moments(socratic.rat_spn(4, 2, depth=1, n_repetitions=1), x)
