"""Log-likelihoods of graphs against evaluation node by node."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.families import Gaussian
from socratic.memory import Budget
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows
from tests.oracles import evaluate


@pytest.mark.parametrize("shape", SHAPES)
def test_batches_equal_nodes(shape: str) -> None:
    for seed in range(10):
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        x = random_rows(4, graph.n_features, seed)
        expected = np.stack([evaluate(graph, row.tolist()) for row in x])
        np.testing.assert_allclose(graph(x).detach(), expected, rtol=1e-9, atol=1e-9)


def test_a_model_of_missing_rows_is_normalised() -> None:
    graph = Graph(random_roots("crossing", 0), dtype=torch.float64)
    x = torch.full((1, graph.n_features), torch.nan)
    torch.testing.assert_close(graph(x), torch.zeros(1, graph.n_classes, dtype=torch.float64))


def test_tiles_and_chunks_do_not_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = socratic.rat_spn(6, 2, n_sums=3, n_leaves=3, depth=2, n_repetitions=2).to_graph()
    x = torch.randn(7, 6)
    whole, moments = graph.log_likelihood(x), socratic.tdi(graph, x)
    monkeypatch.setattr("socratic.memory._GATHERED", Budget(50, 50))
    torch.testing.assert_close(graph.log_likelihood(x, chunk_size=2), whole)
    torch.testing.assert_close(socratic.tdi(graph, x).relative_covariance, moments.relative_covariance)


def test_gradients_reach_every_parameter() -> None:
    graph = Graph(random_roots("structured", 4), dtype=torch.float64)
    x = torch.tensor(random_rows(5, graph.n_features, 0), requires_grad=True)
    names, values = zip(*graph.named_parameters(), strict=True)

    def query(*parameters: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(graph, dict(zip(names, parameters, strict=True)), (x.detach(),))

    assert torch.autograd.gradcheck(query, values)


def test_products_of_one_child() -> None:
    """They are their child, in gradients and expectations, too."""
    plain = Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 2.0))), (0.4, 0.6))
    wrapped = Product((Sum((Product((Product((plain.children[0],)),)), plain.children[1]), plain.weights),))
    graphs = [Graph(root, dtype=torch.float64) for root in (plain, wrapped)]
    found = []
    for graph in graphs:
        graph.log_likelihood([[0.3], [-1.0]]).sum().backward()
        expected = socratic.expectation(graph, [[torch.nan]])
        found.append([*(value.grad for value in graph.parameters()), expected.mean, expected.variance])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert float(found[1][-2]) == pytest.approx(0.6)


def test_training_moves_towards_the_data() -> None:
    components = tuple(Product((Leaf(0, Gaussian.of(m, 1.0)), Leaf(1, Gaussian.of(-m, 1.0)))) for m in (-1.0, 0.0, 1.0))
    graph = Graph(Sum(components, (0.2, 0.3, 0.5)))
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0)) * 0.5 + torch.tensor([3.0, -2.0])
    optimiser = torch.optim.Adam(graph.parameters(), lr=0.1)
    for _ in range(100):
        loss = -graph(x).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss < 1.7  # the entropy of the data's distribution is 1.45
    assert all(sum(node.weights) == pytest.approx(1.0) for node in graph.roots if isinstance(node, Sum))


@pytest.mark.slow
def test_a_chain_of_100_000_nodes() -> None:
    deep(100_000)


def test_a_deep_chain() -> None:
    """Deeper than Python's stack."""
    deep(1200)


def deep(n_nodes: int) -> None:
    other = Leaf(0, Gaussian.of(1.0, 1.0))
    node: Leaf | Sum = Leaf(0, Gaussian.of(0.0, 1.0))
    for number in range(n_nodes):
        node = Sum((node, other), (0.5, 0.5)) if number % 2 else Sum((node,), (1.0,))
    graph = Graph((node, Sum((node, other), (0.5, 0.5))), dtype=torch.float64)
    x = [[0.3]]
    with torch.no_grad():
        assert float(graph(x)[0, 0]) == pytest.approx(Gaussian.of(1.0, 1.0).log_density(0.3))
        moments = socratic.tdi(graph, x, dropout=1e-3, budget=10**6)
        assert moments.method == "structured"
        assert moments.relative_covariance.isfinite().all()
        assert len(list(socratic.sample_log_likelihoods(graph, x, n_passes=1))) == 1
