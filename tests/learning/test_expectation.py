"""Expected statistics against enumeration, the same for circuits and graphs; steps that leave what must stay."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.families import Bernoulli, Gaussian
from socratic.learning import Rows, initialise_leaves
from socratic.learning.expectation import CircuitMaximiser, GraphMaximiser, maximiser_of
from tests.learning.test_em import density, mixed, rows_of


def tiny() -> Graph:
    """Two states, each a sum over two Bernoulli products that share a leaf."""
    shared = Leaf(1, Bernoulli.of(0.3))
    parts = [Product((Leaf(0, Bernoulli.of(p)), shared)) for p in (0.2, 0.9)]
    parts.append(Product((Leaf(0, Bernoulli.of(0.5)), Leaf(1, Bernoulli.of(0.8)))))
    inner = Sum(tuple(parts[:2]), (0.6, 0.4))
    return Graph(Sum((inner, parts[2]), (0.7, 0.3)), dtype=torch.float64)


def test_expected_counts_equal_enumeration() -> None:
    graph = tiny()
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0], [1.0, math.nan], [math.nan, math.nan]], dtype=torch.float64)
    weight = torch.tensor([1.0, 2.0, 1.0, 0.5], dtype=torch.float64)
    found = GraphMaximiser(graph, Rows(x, torch.zeros(4), weight), 0.0).expect(Rows(x, torch.zeros(4), weight))
    # The three ways from the root to a product: their weights, and the chances of their leaves.
    ways = [(0.7 * 0.6, (0.2, 0.3)), (0.7 * 0.4, (0.9, 0.3)), (0.3, (0.5, 0.8))]
    share = torch.zeros(3, dtype=torch.float64)
    log_likelihood = 0.0
    for row, copies in zip(x.tolist(), weight.tolist(), strict=True):
        values = []
        for weight_of_way, chances in ways:
            factors = [
                1.0 if math.isnan(value) else chance if value else 1.0 - chance
                for value, chance in zip(row, chances, strict=True)
            ]
            values.append(weight_of_way * math.prod(factors))
        share += copies * torch.tensor(values) / sum(values)
        log_likelihood += copies * math.log(sum(values))
    edges = {"inner": share[:2].tolist(), "root": [float(share[0] + share[1]), float(share[2])]}
    assert found.log_likelihood == pytest.approx(log_likelihood)
    assert found.weight == 4.5
    assert found.edges[0].tolist() == pytest.approx([*edges["inner"], *edges["root"]])


def test_expected_counts_are_derivatives() -> None:
    """Of the log-likelihood in the logarithms of the weights, by finite differences."""
    circuit = density().double()
    rows = rows_of(mixed(20).double())
    found = CircuitMaximiser(circuit, rows, 0.0).expect(rows)
    layer = circuit.inner_layers()[0]
    flow = found.edges[0].sum(-1, keepdim=True)  # what flows through each sum
    expected = found.edges[0] - flow * torch.softmax(layer.logits.detach(), -1)  # a logit also moves the other weights
    h = 1e-5
    for place in [(0, 0, 0), (1, 2, 4), (0, 1, 8)]:
        values = []
        for sign in (1.0, -1.0):
            with torch.no_grad():
                layer.logits[place] += sign * h
                values.append(float(circuit.log_likelihood(rows.x).sum()))
                layer.logits[place] -= sign * h
        assert (values[0] - values[1]) / (2 * h) == pytest.approx(float(expected[place]), abs=1e-5)


def test_circuits_and_graphs_take_the_same_step() -> None:
    x = mixed(80).double()
    circuit = density().double()
    initialise_leaves(circuit, x)
    graph = circuit.to_graph()
    before = circuit.log_likelihood(x).detach()
    for model in (circuit, graph):
        for _ in range(3):
            maximiser = maximiser_of(model, rows_of(x), 0.5)
            maximiser.maximise(maximiser.expect(rows_of(x)))
    assert float((circuit.log_likelihood(x) - before).detach().mean()) > 0.05
    # Smoothing counts sums, and the class root's branches are sums of their own in a circuit alone.
    torch.testing.assert_close(circuit.log_likelihood(x), graph.log_likelihood(x), atol=0.02, rtol=0.02)


def test_every_step_of_a_graph_raises_the_likelihood() -> None:
    x = mixed(200).double()
    graph = density().double().to_graph()
    maximiser = GraphMaximiser(graph, rows_of(x), 1e-6)
    values = []
    for _ in range(15):
        statistics = maximiser.expect(rows_of(x))
        values.append(statistics.log_likelihood)
        maximiser.maximise(statistics)
    assert all(later > earlier - 1e-6 for earlier, later in itertools.pairwise(values))
    assert values[-1] > values[0] + 10.0


def test_edges_that_are_none_stay_none() -> None:
    circuit = density()
    with torch.no_grad():
        circuit.inner_layers()[0].logits[0, 0, 1:] = -torch.inf
    maximiser = maximiser_of(circuit, rows_of(mixed(50)), 1.0)
    maximiser.maximise(maximiser.expect(rows_of(mixed(50))))
    assert torch.softmax(circuit.inner_layers()[0].logits[0, 0], -1).tolist() == [1.0] + [0.0] * 8


def test_leaves_without_rows_become_their_columns() -> None:
    graph = Graph(Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(500.0, 1.0))), (0.5, 0.5)))
    x = torch.tensor([[-1.0], [1.0], [2.0]])
    maximiser = maximiser_of(graph, rows_of(x), 0.1)
    maximiser.maximise(maximiser.expect(rows_of(x)))
    alone = graph.leaves.distributions()[1].parameters
    assert alone == {"mean": pytest.approx(2 / 3, abs=1e-2), "variance": pytest.approx(14 / 9, rel=1e-2)}


def test_statistics_of_batches_average() -> None:
    circuit = socratic.rat_spn(4, 1, n_sums=2, n_leaves=2, depth=1, n_repetitions=1, leaf="gaussian").double()
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)).double()
    maximiser = maximiser_of(circuit, rows_of(x), 0.0)
    whole, part = maximiser.expect(rows_of(x)), maximiser.expect(rows_of(x[:10]))
    moved = whole.moved_towards(part, 0.25)
    assert moved.weight == pytest.approx(40.0)
    torch.testing.assert_close(moved.leaves[0], 0.75 * whole.leaves[0] + 0.25 * 4.0 * part.leaves[0])
