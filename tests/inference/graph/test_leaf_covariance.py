"""Leaves of a graph that err together, against enumeration of every mask and every way they can err, in float64."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.families import Gaussian
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows
from tests.oracles import Enumeration, count_masks, enumerate_masks

COINS_A_VARIABLE = 2
MAX_BITS = 13


def variables_of(graph: Graph) -> np.ndarray:
    return np.array([leaf.variable for leaf in graph.leaves.nodes])


def random_factors(graph: Graph, seed: int, smallest: float = -0.45) -> np.ndarray:
    """How much each coin moves each leaf, (L, coins): every variable has coins of its own."""
    own = np.arange(graph.n_features * COINS_A_VARIABLE) // COINS_A_VARIABLE == variables_of(graph)[:, None]
    return own * np.random.default_rng(seed).uniform(smallest, 0.45, own.shape)


def enumerate_all(graph: Graph, row: np.ndarray, factors: np.ndarray, **settings: object) -> Enumeration:
    coins = {
        id(leaf): [(coin, float(size)) for coin, size in enumerate(sizes)]
        for leaf, sizes in zip(graph.leaves.nodes, factors, strict=True)
    }
    return enumerate_masks(graph, row.tolist(), **settings, leaf_coins=coins)


def covariance_of(factors: np.ndarray) -> torch.Tensor:
    return torch.tensor(factors @ factors.T)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("masks", "root_dropout"), [("edge", False), ("unit", True)])
def test_moments_equal_enumeration(shape: str, masks: str, root_dropout: bool) -> None:
    methods: Counter[str] = Counter()
    settings = {"dropout": 0.3, "masks": masks, "root_dropout": root_dropout}
    for seed in itertools.count():
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        if count_masks(graph, masks, root_dropout) + COINS_A_VARIABLE * graph.n_features > MAX_BITS:
            continue
        x = random_rows(1, graph.n_features, seed)
        factors = random_factors(graph, seed)
        truth = enumerate_all(graph, x[0], factors, **settings)
        with torch.no_grad():
            found = socratic.tdi(graph, x, leaf_covariance=covariance_of(factors), **settings)
        np.testing.assert_allclose(found.log_mean[0], np.log(truth.mean), rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.relative_covariance[0], truth.relative_covariance, rtol=1e-9, atol=1e-12)
        methods[found.method] += 1
        if methods.total() == 12:
            break
    assert methods.keys() <= {"tree", "structured", "multiset"}
    assert methods["multiset"] == 0 or shape == "crossing"


def crossing(roots: int = 1) -> Graph:
    """Partitions {0, 1}, {2} and {0}, {1, 2}, over sums of one variable that share their leaves."""
    leaves = [(Leaf(v, Gaussian.of(0.0, 1.0)), Leaf(v, Gaussian.of(1.5, 0.5))) for v in range(3)]
    a, b, c = (Sum(pair, (0.3, 0.7)) for pair in leaves)
    d, e, f = (Sum(pair, (0.8, 0.2)) for pair in leaves)
    left, right = Sum((Product((a, b)),), (1.0,)), Sum((Product((e, f)),), (1.0,))
    parts = (Product((left, c)), Product((d, right)))
    return Graph([Sum(parts, (0.4 + 0.1 * n, 0.6 - 0.1 * n)) for n in range(roots)], dtype=torch.float64)


def test_only_second_moments_of_leaves_matter_even_where_partitions_cross() -> None:
    """Coins mixed by a rotation have other fourth moments, and the same covariance."""
    graph, x = crossing(), np.array([[0.3, -0.2, 1.0]])
    factors = random_factors(graph, 0)
    turn = np.kron(np.eye(3), [[0.6, 0.8], [-0.8, 0.6]])
    settings = {"dropout": 0.3, "masks": "unit", "root_dropout": False}
    one, other = (enumerate_all(graph, x[0], mixed, **settings) for mixed in (factors, factors @ turn))
    fourth = [float(run.probability @ (run.values[:, 0] - run.mean[0]) ** 4) for run in (one, other)]
    assert abs(fourth[0] / fourth[1] - 1) > 1e-3
    found = socratic.tdi(graph, x, leaf_covariance=covariance_of(factors), **settings)
    assert found.method == "multiset"
    for truth in (one, other):
        np.testing.assert_allclose(found.relative_covariance[0].detach(), truth.relative_covariance, rtol=1e-9)


def test_a_tree_of_correlated_leaves_is_none() -> None:
    """By hand: r' R r, with R of the leaves, and what is uncorrelated stays a tree."""
    leaves = tuple(Leaf(0, Gaussian.of(mean, 1.0)) for mean in (0.0, 1.0, 3.0))
    graph = Graph(Sum(leaves, (0.5, 0.3, 0.2)), dtype=torch.float64)
    covariance = torch.tensor([[0.3, -0.1, 0.0], [-0.1, 0.2, 0.0], [0.0, 0.0, 0.1]], dtype=torch.float64)
    found = socratic.tdi(graph, [[0.4]], leaf_covariance=covariance)
    shares = torch.tensor([0.5, 0.3, 0.2]) * torch.tensor([np.exp(leaf.log_density([0.4])) for leaf in leaves])
    shares = (shares / shares.sum()).double()
    torch.testing.assert_close(found.relative_variance[0, 0], shares @ covariance @ shares)
    assert found.method == "structured"
    apart = socratic.tdi(graph, [[0.4]], leaf_covariance=covariance.diagonal().diag())
    assert apart.method == "tree"
    variances = socratic.tdi(graph, [[0.4]], leaf_variance=covariance.diagonal())
    assert torch.equal(apart.relative_covariance, variances.relative_covariance)


def test_each_row_may_have_covariances_of_its_own() -> None:
    """Also where leaves are correlated in one row only; chunks do not matter."""
    graph, x = crossing(2), random_rows(3, 3, 0)
    own = torch.stack([covariance_of(random_factors(graph, seed)) * (seed != 1) for seed in range(3)])
    together = socratic.tdi(graph, x, leaf_covariance=own, chunk_size=2)
    for row in range(3):
        alone = socratic.tdi(graph, x[row : row + 1], leaf_covariance=own[row])
        torch.testing.assert_close(together.relative_covariance[row], alone.relative_covariance[0])


def test_the_posterior_is_that_of_the_moments() -> None:
    graph, x = crossing(2), random_rows(3, 3, 0)
    covariance = covariance_of(random_factors(graph, 0))
    posterior = socratic.dropout_posterior(graph, x, dropout=0.1, leaf_covariance=covariance, class_prior=[0.3, 0.7])
    expected = socratic.tdi(graph, x, dropout=0.1, leaf_covariance=covariance).posterior([0.3, 0.7])
    assert posterior.method == "expansion"
    assert torch.equal(posterior.mean, expected.mean)
    assert torch.equal(posterior.std, expected.std)
    certain = socratic.tdi(graph, x, dropout=0.1).posterior([0.3, 0.7])
    assert not torch.equal(posterior.std, certain.std)


@pytest.mark.parametrize("n_features", [4, 8])
@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
def test_an_unrolled_circuit_agrees_with_its_layers(n_features: int, masks: str, product: str) -> None:
    """Regions of one and of two variables; a region's leaf is the product of its variables' leaves."""
    circuit = socratic.rat_spn(n_features, 2, n_sums=2, n_leaves=2, depth=2, product=product).double()
    graph = circuit.to_graph()
    generator = torch.Generator().manual_seed(0)
    of_graph = torch.zeros(graph.n_leaves, graph.n_leaves, dtype=torch.float64)
    place = {(leaf.variable, str(leaf.distribution)): i for i, leaf in enumerate(graph.leaves.nodes)}
    of_circuit = []
    for scope, distributions in zip(circuit.leaves.scopes, circuit.leaves.distributions(), strict=True):
        region = torch.ones(2, 2, dtype=torch.float64)
        for variable in scope:
            factor = 0.6 * torch.rand(2, 2, dtype=torch.float64, generator=generator) - 0.3
            numbers = torch.tensor([place[variable, str(distributions[variable][index])] for index in range(2)])
            of_graph[numbers.unsqueeze(1), numbers] = factor @ factor.T
            region = region * (1.0 + factor @ factor.T)
        of_circuit.append(region - 1.0)
    x = torch.randn(3, n_features, dtype=torch.float64, generator=generator)
    settings = {"dropout": 0.3, "masks": masks}
    layered = socratic.tdi(circuit, x, leaf_covariance=torch.stack(of_circuit), **settings)
    unrolled = socratic.tdi(graph, x, leaf_covariance=of_graph, **settings)
    assert unrolled.method == "structured"
    torch.testing.assert_close(unrolled.relative_covariance, layered.relative_covariance, rtol=1e-9, atol=1e-12)


def test_bounds_hold_for_leaves_that_err_together() -> None:
    for seed, shape in itertools.product(range(6), SHAPES):
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        x = random_rows(2, graph.n_features, seed)
        covariance = covariance_of(random_factors(graph, seed, smallest=0.0))
        exact, bounds = (socratic.tdi(graph, x, leaf_covariance=covariance, budget=budget) for budget in (None, 0))
        if bounds.variance_bounds is None:
            assert bounds.method == "tree"
            continue
        lower, upper = bounds.variance_bounds
        assert (lower <= exact.relative_variance * (1 + 1e-9)).all()
        assert (exact.relative_variance <= upper * (1 + 1e-9)).all()


def test_bounds_are_refused_where_they_need_not_hold() -> None:
    graph = crossing()
    opposed = torch.zeros(6, 6)
    opposed[0, 1] = opposed[1, 0] = -0.1
    opposed += 0.2 * torch.eye(6)
    assert variables_of(graph)[0] == variables_of(graph)[1]
    assert socratic.tdi(graph, [[0.0, 0.0, 0.0]], leaf_covariance=opposed).method == "multiset"
    with pytest.raises(ValueError, match=r"leaf_covariance must be at least 0 where moments are bounds \(following"):
        socratic.tdi(graph, [[0.0, 0.0, 0.0]], leaf_covariance=opposed, budget=1)


def test_leaves_that_exclude_each_other_keep_moments_finite() -> None:
    """A relative covariance of -1: one of two leaves is 0 whenever the other is not."""
    graph, x = crossing(), np.array([[0.3, -0.2, 1.0]])
    variables = torch.tensor(variables_of(graph))
    sign = torch.where(torch.arange(6) % 2 == 0, 1.0, -1.0)
    covariance = torch.outer(sign, sign) * (variables == variables.unsqueeze(1))
    found = socratic.tdi(graph.float(), x, leaf_covariance=covariance)
    wide = socratic.tdi(graph.double(), x, leaf_covariance=covariance.double())
    torch.testing.assert_close(found.relative_covariance.double(), wide.relative_covariance, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_is_named() -> None:
    graph, x = crossing(), [[0.0, 0.0, 0.0]]
    other = int(np.flatnonzero(variables_of(graph) == 1)[0])
    linked = torch.eye(6)
    linked[0, other] = linked[other, 0] = 0.25
    message = rf"products take as independent; got 0\.25 between leaf 0 \(variable 0\) and leaf {other} \(variable 1\)"
    with pytest.raises(ValueError, match=message):
        socratic.tdi(graph, x, leaf_covariance=linked)
    with pytest.raises(ValueError, match=r"leaf_covariance must broadcast to \(1, 6, 6\) \(rows, leaves in the order"):
        socratic.tdi(graph, x, leaf_covariance=torch.eye(2))
