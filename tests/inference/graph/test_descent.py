"""Queries of graphs, where they differ from those of circuits; the other files ask both."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch
from scipy import stats

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.circuit.nodes import Node
from socratic.families import Bernoulli, Categorical, Gaussian
from tests.inference.queries.worlds import CIRCUIT_KINDS, EVIDENCE, NAN, PRIOR, make_circuit

ATTRIBUTES = {
    "expectation": ("mean", "variance", "class_probabilities"),
    "mpe": ("x", "classes", "log_likelihood", "log_bound"),
}


def assert_agree(circuit: socratic.Circuit, evidence: np.ndarray, **options: object) -> None:
    graph = circuit.to_graph()
    for name, attributes in ATTRIBUTES.items():
        ours, theirs = (getattr(socratic, name)(one, evidence, **options) for one in (graph, circuit))
        for attribute in attributes:
            torch.testing.assert_close(getattr(ours, attribute), getattr(theirs, attribute))
    rows = socratic.sample(circuit, len(evidence)).x
    rows[~torch.as_tensor(evidence).isnan()] = torch.nan
    ours, theirs = (socratic.conditional_log_likelihood(one, rows, evidence, **options) for one in (graph, circuit))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", CIRCUIT_KINDS)
@pytest.mark.parametrize("options", [{"class_prior": PRIOR}, {"class_index": [0, 1, 1, 0, 1]}])
def test_unrolled_circuits_agree_with_circuits(kind: str, options: dict[str, object]) -> None:
    circuit = make_circuit(kind, seed=4)
    assert_agree(circuit, EVIDENCE, **options)
    ours, theirs = (
        socratic.expectation(one, EVIDENCE, tables=range(4), **options) for one in (circuit.to_graph(), circuit)
    )
    torch.testing.assert_close(ours.probabilities, theirs.probabilities)


def test_unrolled_gaussian_circuits_agree_with_circuits() -> None:
    leaf = [Gaussian(), Categorical(3), Gaussian(0.01, 0.3), Gaussian(), Gaussian()]
    circuit = socratic.rat_spn(5, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2, leaf=leaf).double()
    evidence = np.random.default_rng(0).normal(size=(20, 5))
    evidence[:, 1] = 2.0
    evidence[np.random.default_rng(1).random(evidence.shape) < 0.6] = NAN
    assert_agree(circuit, evidence)


@pytest.mark.parametrize(
    ("root", "mean", "best"),
    [
        (Leaf(0, Gaussian.of(2.0, 0.25)), [2.0], [2.0]),
        (Product((Leaf(0, Gaussian.of(2.0, 0.25)), Leaf(1, Bernoulli.of(0.75)))), [2.0, 0.75], [2.0, 1.0]),
    ],
)
def test_roots_without_sums(root: Node, mean: list[float], best: list[float]) -> None:
    graph = Graph(root, dtype=torch.float64)
    evidence = np.full((1, len(mean)), NAN)
    np.testing.assert_allclose(socratic.expectation(graph, evidence).mean, [mean])
    found = socratic.mpe(graph, evidence)
    assert found.exact
    assert found.x.tolist() == [best]
    assert stats.kstest(socratic.sample(graph, 400).x[:, 0].numpy(), stats.norm(2.0, 0.5).cdf).pvalue > 1e-3


def test_classes_may_share_a_root() -> None:
    first, second = Leaf(0, Categorical.of((0.5, 0.5, 0.0))), Leaf(0, Categorical.of((0.0, 0.0, 1.0)))
    graph = Graph((first, first, second), dtype=torch.float64)
    found = socratic.expectation(graph, [[NAN], [0.0]], tables=[0], class_prior=[0.1, 0.3, 0.6])
    np.testing.assert_allclose(found.probabilities[0], [[0.2, 0.2, 0.6], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(found.class_probabilities, [[0.1, 0.3, 0.6], [0.25, 0.75, 0.0]])


def test_columns_without_leaves_have_no_distribution() -> None:
    graph = Graph(Leaf(1, Gaussian.of(2.0, 1.0)), n_features=4)
    evidence = np.array([[NAN, NAN, 7.0, NAN]])
    expected = socratic.expectation(graph, evidence)
    np.testing.assert_array_equal(expected.mean, [[NAN, 2.0, 7.0, NAN]])
    np.testing.assert_array_equal(expected.variance, [[NAN, 1.0, 0.0, NAN]])
    np.testing.assert_array_equal(socratic.mpe(graph, evidence).x, [[NAN, 2.0, 7.0, NAN]])
    for x in (socratic.sample(graph, 5).x, socratic.conditional_sample(graph, np.full((1, 4), NAN), 5).x[0]):
        assert x.isnan().tolist() == [[True, False, True, True]] * 5
    assert socratic.conditional_log_likelihood(graph, [[NAN, NAN, 7.0, NAN]], np.full((1, 4), NAN)).item() == 0.0
    with pytest.raises(ValueError, match="variable 2 has no leaves"):
        socratic.expectation(graph, evidence, tables=[2])


def test_families_that_meet_in_a_column() -> None:
    """A value that is 0 with probability 0.4 and Gaussian otherwise."""
    graph = Graph(Sum((Leaf(0, Bernoulli.of(0.0)), Leaf(0, Gaussian.of(10.0, 4.0))), (0.4, 0.6)), dtype=torch.float64)
    found = socratic.expectation(graph, [[NAN]])
    assert found.mean.item() == pytest.approx(6.0)
    assert found.variance.item() == pytest.approx(0.6 * (4.0 + 100.0) - 36.0)
    drawn = socratic.sample(graph, 2000).x.flatten().numpy()
    assert stats.binomtest(int((drawn == 0).sum()), 2000, 0.4).pvalue > 1e-3
    assert stats.kstest(drawn[drawn != 0], stats.norm(10.0, 2.0).cdf).pvalue > 1e-3
    best = socratic.mpe(graph, [[NAN]])
    assert best.x.item() == 0.0  # a probability of 0.4 against a density of 0.12
    assert not best.exact
    with pytest.raises(ValueError, match="finitely many values; variable 0 has more"):
        socratic.expectation(graph, [[NAN]], tables=[0])


def test_impossible_evidence_is_alone_in_having_no_answer() -> None:
    on, off = Bernoulli.of(1.0), Bernoulli.of(0.0)
    equal = Sum((Product((Leaf(0, on), Leaf(1, on))), Product((Leaf(0, off), Leaf(1, off)))), (0.5, 0.5))
    graph = Graph(Product((equal, Leaf(2, Bernoulli.of(0.5)))))
    evidence = np.array([[1.0, 0.0, NAN], [1.0, NAN, NAN]])
    expected = socratic.expectation(graph, evidence, tables=[2])
    assert expected.mean[0].isnan().all()
    assert expected.probabilities[2][0].isnan().all()
    assert expected.mean[1].tolist() == [1.0, 1.0, 0.5]
    drawn = socratic.conditional_sample(graph, evidence, 20)
    assert drawn.classes.tolist() == [[-1] * 20, [0] * 20]
    assert drawn.x[0, :, 2].isnan().all()
    assert (drawn.x[1, :, 1] == 1.0).all()
    best = socratic.mpe(graph, evidence)
    assert best.classes.tolist() == [-1, 0]
    assert best.log_likelihood[0].item() == -math.inf
    assert best.x[1, :2].tolist() == [1.0, 1.0]
    given = socratic.conditional_log_likelihood(graph, [[1.0, NAN, 1.0]], evidence)
    assert given.isnan().tolist() == [True, False]


def wide_graph(n_features: int) -> Graph:
    """A mixture of two products over many columns, with sums that the products share."""
    rng = np.random.default_rng(0)

    def leaf(variable: int) -> Leaf:
        return Leaf(variable, Gaussian.of(float(rng.normal()), float(rng.uniform(0.5, 1.0))))

    shared = [Sum((leaf(v), leaf(v)), (0.4, 0.6)) for v in range(n_features // 2)]
    own = [[leaf(v) for v in range(n_features // 2, n_features)] for _ in range(2)]
    return Graph(Sum(tuple(Product((*shared, *leaves)) for leaves in own), (0.3, 0.7)))


def test_float32_thousands_of_nats_below_zero() -> None:
    graph = wide_graph(300)
    evidence = torch.full((2, 300), 9.0)
    evidence[:, 100:] = torch.nan
    evidence[1, 150:200] = 8.0
    found = socratic.expectation(graph, evidence)
    drawn = socratic.conditional_sample(graph, evidence, 500)
    best = socratic.mpe(graph, evidence)
    graph.double()
    assert graph(evidence).max().item() < -2000
    exact = socratic.expectation(graph, evidence)
    torch.testing.assert_close(found.mean.double(), exact.mean, rtol=0, atol=1e-3)
    torch.testing.assert_close(found.variance.double(), exact.variance, rtol=0, atol=1e-3)
    error = (drawn.x.double().mean(1) - exact.mean) / (exact.variance / 500).sqrt()
    assert error[evidence.isnan()].abs().max().item() < 5.0  # of 350
    torch.testing.assert_close(best.x.double(), socratic.mpe(graph, evidence).x)


def test_large_numbers_keep_their_variance_in_float32() -> None:
    node: Node = Sum((Leaf(0, Gaussian.of(50000.0, 1e-4)), Leaf(0, Gaussian.of(50000.5, 1e-4))), (0.5, 0.5))
    for _ in range(200):  # shares are rounded at each sum
        node = Sum((node, node), (0.3, 0.7))
    graph = Graph(node)
    found = socratic.expectation(graph, [[NAN]])
    assert found.mean.item() == pytest.approx(50000.25, abs=5e-3)
    assert found.variance.item() == pytest.approx(0.0626, rel=1e-3)


def test_deep_chains_do_not_recurse() -> None:
    """Each variable comes one sum and one product below the one before."""
    n_features = sys.getrecursionlimit() + 100
    node: Node = Leaf(0, Bernoulli.of(0.3))
    for variable in range(1, n_features):
        leaves = [Leaf(variable, Bernoulli.of(0.0)), Leaf(variable, Bernoulli.of(1.0))]
        node = Sum(tuple(Product((leaf, node)) for leaf in leaves), (0.4, 0.6))
    graph = Graph(node)
    evidence = np.full((1, n_features), NAN)
    assert not socratic.sample(graph, 3).x.isnan().any()
    expected = np.full(n_features, 0.6)
    expected[0] = 0.3
    np.testing.assert_allclose(socratic.expectation(graph, evidence).mean[0], expected, atol=1e-4)
    best = socratic.mpe(graph, evidence)
    assert best.exact
    assert best.x.tolist() == [[0.0] + [1.0] * (n_features - 1)]


def test_draws_depend_on_the_seed_alone() -> None:
    graph = wide_graph(10)
    evidence = torch.full((2, 10), torch.nan)
    for draw in (
        lambda seed: socratic.sample(graph, 4, seed=seed).x,
        lambda seed: socratic.conditional_sample(graph, evidence, 4, seed=seed).x,
    ):
        assert torch.equal(draw(3), draw(3))
        assert not torch.equal(draw(3), draw(4))
