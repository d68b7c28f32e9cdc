"""TDI on graphs against enumeration of every mask, in float64: exact to 1e-9 wherever it says so."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.families import Bernoulli, Gaussian
from tests.inference.graph.appendix_b import AppendixB
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows
from tests.oracles import count_masks, enumerate_masks

SETTINGS = list(itertools.product(("edge", "unit"), (False, True)))
N_CIRCUITS = 14
"""For each of 4 shapes and 4 settings: 224 circuits."""
MAX_MASKS = 10


def circuits(shape: str, number: int, masks: str, root_dropout: bool) -> list[tuple[Graph, np.ndarray]]:
    """Circuits that are small enough, other ones for every setting, each with one row."""
    found: list[tuple[Graph, np.ndarray]] = []
    for seed in itertools.count(1000 * number):
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        if 0 < count_masks(graph, masks, root_dropout) <= MAX_MASKS:
            found.append((graph, random_rows(1, graph.n_features, seed)))
        if len(found) == N_CIRCUITS:
            return found
    raise AssertionError


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("number", "masks", "root_dropout"), [(i, *setting) for i, setting in enumerate(SETTINGS)])
def test_moments_equal_enumeration_and_bounds_hold(shape: str, number: int, masks: str, root_dropout: bool) -> None:
    methods: Counter[str] = Counter()
    for place, (graph, x) in enumerate(circuits(shape, number, masks, root_dropout)):
        settings = {"dropout": (0.2, 0.6)[place % 2], "masks": masks, "root_dropout": root_dropout}
        truth = enumerate_masks(graph, x[0].tolist(), **settings)
        variance = np.diag(truth.relative_covariance)
        with torch.no_grad():
            exact = socratic.tdi(graph, x, **settings)
            lower, upper = (
                socratic.tdi(graph, x, covariance=kind, **settings).relative_variance[0].numpy()
                for kind in ("independent", "upper")
            )
            bounds = socratic.tdi(graph, x, budget=0, **settings)
        np.testing.assert_allclose(exact.log_mean[0], np.log(truth.mean), rtol=0, atol=1e-9)
        np.testing.assert_allclose(exact.relative_covariance[0], truth.relative_covariance, rtol=1e-9, atol=1e-9)
        assert (lower <= variance * (1 + 1e-9) + 1e-12).all()
        assert (upper >= variance * (1 - 1e-9) - 1e-12).all()
        methods[exact.method] += 1
        if exact.method == "tree":  # needs no budget, and a tree is what the lower bound is exact for
            assert bounds.method == "tree"
            np.testing.assert_allclose(lower, variance, rtol=1e-9, atol=1e-12)
        else:
            assert bounds.method == "bounds"
            assert bounds.variance_bounds is not None
            np.testing.assert_allclose(bounds.variance_bounds[0][0], lower)
            np.testing.assert_allclose(bounds.variance_bounds[1][0], upper)
            np.testing.assert_array_equal(bounds.log_mean, exact.log_mean)
    assert methods.keys() <= {"tree", "structured", "multiset"}
    assert methods["tree"] == N_CIRCUITS if shape == "tree" else methods["structured"] > 0
    assert methods["multiset"] == 0 or shape == "crossing"


def crossing() -> Graph:
    """Two partitions of three variables that cross: {0, 1}, {2} and {0}, {1, 2}, over shared sums of one variable."""
    singles = [
        Sum(
            (Leaf(v, Gaussian.of(0.0, 1.0)), Leaf(v, Gaussian.of(1.5, 0.5))),
            (0.3, 0.7),
        )
        for v in range(3)
    ]
    left = Sum((Product((singles[0], singles[1])),), (1.0,))
    right = Sum((Product((singles[1], singles[2])),), (1.0,))
    return Graph(
        Sum((Product((left, singles[2])), Product((singles[0], right))), (0.4, 0.6)),
        dtype=torch.float64,
    )


@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_crossing_partitions_need_multisets(masks: str) -> None:
    graph = crossing()
    x = [[0.3, -0.2, 1.0]]
    moments = socratic.tdi(graph, x, dropout=0.3, masks=masks, root_dropout=True)
    truth = enumerate_masks(graph, x[0], 0.3, masks, True)
    assert moments.method == "multiset"
    np.testing.assert_allclose(moments.relative_covariance[0].detach(), truth.relative_covariance, rtol=1e-9)


def test_random_crossing_circuits_include_multisets() -> None:
    found = Counter(
        socratic.tdi(graph, x, dropout=0.2).method for graph, x in circuits("crossing", 0, "edge", root_dropout=False)
    )
    assert found["multiset"] > 0


def test_a_child_that_occurs_twice_has_two_masks() -> None:
    child = Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 1.0))), (0.5, 0.5))
    graph = Graph((Sum((child, child), (0.3, 0.7)), Sum((child, child), (0.6, 0.4))), dtype=torch.float64)
    for masks, root_dropout in SETTINGS:
        moments = socratic.tdi(graph, [[0.4]], dropout=0.3, masks=masks, root_dropout=root_dropout)
        truth = enumerate_masks(graph, [0.4], 0.3, masks, root_dropout)
        np.testing.assert_allclose(moments.relative_covariance[0].detach(), truth.relative_covariance, rtol=1e-9)


def test_one_root_for_two_classes_makes_them_equal() -> None:
    root = Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 1.0))), (0.5, 0.5))
    moments = socratic.tdi(Graph((root, root)), [[0.4]], dropout=0.3, root_dropout=True)
    assert moments.method == "structured"
    assert (moments.relative_covariance == moments.relative_covariance[0, 0, 0]).all()
    assert moments.relative_covariance[0, 0, 0] > 0


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
@pytest.mark.parametrize(("masks", "root_dropout"), SETTINGS)
def test_an_unrolled_circuit_has_the_moments_of_its_tensors(product: str, masks: str, root_dropout: bool) -> None:
    circuit = socratic.rat_spn(6, 3, n_sums=2, n_leaves=2, depth=2, n_repetitions=2, product=product).double()
    x = torch.randn(4, 6, dtype=torch.float64)
    x[1, :3] = torch.nan
    settings = {"dropout": 0.3, "masks": masks, "root_dropout": root_dropout}
    found, expected = socratic.tdi(circuit.to_graph(), x, **settings), socratic.tdi(circuit, x, **settings)
    assert found.method == "structured"
    assert expected.method == "layered"
    torch.testing.assert_close(found.log_mean, expected.log_mean, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.relative_covariance, expected.relative_covariance, rtol=1e-9, atol=1e-12)


def test_agrees_with_the_algorithm_of_the_paper() -> None:
    """Edge masks everywhere: trees and unrolled circuits that are too large to enumerate."""
    roots = [
        socratic.rat_spn(4, 2, n_sums=2, n_leaves=3, depth=2, n_repetitions=1).double().to_graph().roots,
        *(random_roots(shape, seed) for shape in ("tree", "structured", "ancestor") for seed in range(12)),
    ]
    for number, given in enumerate(roots):
        graph = Graph(given, dtype=torch.float64)
        x = random_rows(1, graph.n_features, number)
        reference = AppendixB(given, x[0].tolist(), 0.25)
        with torch.no_grad():
            moments = socratic.tdi(graph, x, dropout=0.25, root_dropout=True)
        for a, b in itertools.product(range(graph.n_classes), repeat=2):
            scale = reference.expectation(given[a]) * reference.expectation(given[b])
            found = moments.relative_covariance[0, a, b].item()
            assert found == pytest.approx(reference.covariance(given[a], given[b]) / scale, rel=1e-9, abs=1e-9)
            assert moments.log_mean[0, a].item() == pytest.approx(math.log(reference.expectation(given[a])))


@pytest.mark.parametrize("shape", SHAPES)
def test_uncertain_leaves(shape: str) -> None:
    """Each leaf is a fair coin around its density, tossed in the enumeration beside the masks."""
    tested = 0
    for seed in range(40):
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        if count_masks(graph, "edge", False) + graph.n_leaves > 12:
            continue
        tested += 1
        x = random_rows(1, graph.n_features, seed)
        size = np.random.default_rng(seed).uniform(0.1, 0.5, graph.n_leaves)
        coins = {id(node): [(number, float(size[number]))] for number, node in enumerate(graph.nodes[: graph.n_leaves])}
        truth = enumerate_masks(graph, x[0].tolist(), 0.3, "edge", False, leaf_coins=coins)
        moments = socratic.tdi(graph, x, dropout=0.3, leaf_variance=torch.tensor(size**2))
        np.testing.assert_allclose(
            moments.relative_covariance[0].detach(), truth.relative_covariance, rtol=1e-9, atol=1e-12
        )
        upper = socratic.tdi(graph, x, dropout=0.3, leaf_variance=torch.tensor(size**2), covariance="upper")
        assert (upper.relative_variance >= moments.relative_variance * (1 - 1e-9)).all()
    assert tested > 1


@pytest.mark.parametrize("budget", [None, 0])
def test_float32_is_close_to_float64(budget: int | None) -> None:
    for shape, seed in itertools.product(SHAPES, range(5)):
        roots = random_roots(shape, seed)
        rows = random_rows(3, Graph(roots).n_features, seed)
        narrow, wide = (
            socratic.tdi(Graph(roots, dtype=t), rows, budget=budget) for t in (torch.float32, torch.float64)
        )
        torch.testing.assert_close(narrow.log_mean.double(), wide.log_mean, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(
            narrow.relative_covariance.double(), wide.relative_covariance, rtol=1e-4, atol=1e-6, equal_nan=True
        )


def test_digits_are_kept_where_densities_are_tiny() -> None:
    """3,000 variables, a log-density of about -1e5: float32 alone would have no digits left for responsibilities."""
    centre = torch.linspace(-1, 1, 3000).tolist()
    parts = [
        Product(tuple(Leaf(v, Gaussian.of(c + shift, 1.0)) for v, c in enumerate(centre)))
        for shift in (0.0, 1e-4, -2e-4)
    ]
    root = Sum((Sum(tuple(parts), (0.2, 0.5, 0.3)),), (1.0,))
    x = torch.full((1, 3000), 8.0)
    narrow, wide = (socratic.tdi(Graph(root, dtype=t), x) for t in (torch.float32, torch.float64))
    torch.testing.assert_close(narrow.relative_variance.double(), wide.relative_variance, rtol=1e-3, atol=0)


def test_without_dropout_nothing_is_random() -> None:
    graph = crossing()
    moments = socratic.tdi(graph, [[0.0, 0.0, 0.0]], dropout=0.0, root_dropout=True)
    assert torch.equal(moments.log_mean, graph.log_likelihood([[0.0, 0.0, 0.0]]))
    assert not moments.relative_covariance.any()
    assert moments.method == "tree"


def test_a_graph_without_masks_is_certain() -> None:
    graph = Graph(Product((Leaf(0, Bernoulli.of(0.2)), Leaf(1, Bernoulli.of(0.7)))))
    moments = socratic.tdi(graph, [[1.0, 0.0]], dropout=0.5, root_dropout=True)
    assert not moments.relative_covariance.any()


def test_dead_classes_have_relative_moments_of_zero() -> None:
    impossible = Sum((Leaf(0, Bernoulli.of(0.0)), Leaf(0, Bernoulli.of(0.0))), (0.5, 0.5))
    possible = Sum((Leaf(0, Bernoulli.of(0.4)), Leaf(0, Bernoulli.of(0.5))), (0.5, 0.5))
    graph = Graph((Sum((impossible, impossible), (0.5, 0.5)), Sum((impossible, possible), (0.5, 0.5))))
    moments = socratic.tdi(graph, [[1.0]], dropout=0.5)
    assert moments.log_mean[0, 0] == -math.inf
    assert moments.relative_covariance.isfinite().all()
    assert moments.relative_covariance[0, 0, 0] == 0
    assert moments.posterior().mean.isfinite().all()


@pytest.mark.parametrize("budget", [None, 0])
def test_chunks_do_not_change_results(budget: int | None) -> None:
    graph = Graph(random_roots("crossing", 3))
    x = random_rows(7, graph.n_features, 0)
    whole, parts = socratic.tdi(graph, x, budget=budget), socratic.tdi(graph, x, budget=budget, chunk_size=3)
    torch.testing.assert_close(whole.log_mean, parts.log_mean)
    torch.testing.assert_close(whole.relative_covariance, parts.relative_covariance, equal_nan=True)
    empty = socratic.tdi(graph, x[:0], budget=budget)
    assert empty.relative_covariance.shape == (0, graph.n_classes, graph.n_classes)


@pytest.mark.parametrize("shape", ["tree", "crossing"])
def test_gradients_are_those_of_finite_differences(shape: str) -> None:
    graph = Graph(random_roots(shape, 1), dtype=torch.float64)
    x = torch.tensor(random_rows(2, graph.n_features, 1))

    def query(logits: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(graph, {"logits": logits}, (x,))

    assert torch.autograd.gradcheck(query, (graph.logits,))
    moments = socratic.tdi(graph, x, dropout=0.3)
    moments.relative_variance.sum().backward()
    assert graph.logits.grad is not None
    step = 1e-6
    with torch.no_grad():
        expected = torch.zeros_like(graph.logits)
        for edge in range(graph.n_edges):
            sides = []
            for sign in (1, -1):
                graph.logits[edge] += sign * step
                sides.append(socratic.tdi(graph, x, dropout=0.3).relative_variance.sum())
                graph.logits[edge] -= sign * step
            expected[edge] = (sides[0] - sides[1]) / (2 * step)
    torch.testing.assert_close(graph.logits.grad, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["independent", "upper"])
def test_a_bound_that_was_asked_for_is_called_one(kind: str) -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=2)
    for model in (circuit, circuit.to_graph()):
        moments = socratic.tdi(model, torch.zeros(1, 4), covariance=kind)
        assert moments.method == kind
        assert moments.reason == f"covariance='{kind}' was asked for"
        assert moments.variance_bounds is None


def test_bounds_give_no_posterior_and_no_covariance() -> None:
    moments = socratic.tdi(crossing(), [[0.0, 0.0, 0.0]], budget=3)
    assert moments.method == "bounds"
    assert "budget of 3 terms" in moments.reason
    assert moments.relative_covariance.isnan().all()
    with pytest.raises(
        ValueError, match=r"no single posterior; use posterior_bounds for intervals, monte_carlo_dropout,"
    ):
        moments.posterior()


def test_variances_that_are_cut_off_are_announced() -> None:
    node: Leaf | Sum = Leaf(0, Gaussian.of(0.0, 1.0))
    for _ in range(60):
        node = Sum((node,), (1.0,))
    with pytest.warns(RuntimeWarning, match=r"use graph\.double\(\)"):
        socratic.tdi(Graph(node), [[0.0]], dropout=0.5)


def test_arguments_are_checked() -> None:
    graph, x = crossing(), [[0.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match=r"leaf_variance must broadcast to \(1, 6\)"):
        socratic.tdi(graph, x, leaf_variance=torch.ones(5))
    with pytest.raises(ValueError, match="leaf_variance must hold finite numbers of at least 0"):
        socratic.tdi(graph, x, leaf_variance=-1.0)
    with pytest.raises(ValueError, match="budget must be a whole number of at least 0"):
        socratic.tdi(graph, x, budget=-1)
    with pytest.raises(ValueError, match="budget is for graphs"):
        socratic.tdi(socratic.rat_spn(3, 2, depth=1), x, budget=10)


def test_the_reason_is_the_budget_only_where_a_larger_one_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.inference.graph.plan.MOST_BITS", 1)
    moments = socratic.tdi(crossing(), [[0.0, 0.0, 0.0]])
    assert moments.method == "bounds"
    assert moments.reason == "who shares what takes more memory than is allowed, whatever the budget"


def test_a_graph_keeps_few_plans() -> None:
    graph = crossing()
    for budget in range(20):
        socratic.tdi(graph, [[0.0, 0.0, 0.0]], budget=budget)
    assert len(graph.derived) <= 8
    latest = list(graph.derived)[-1]
    kept = graph.derived[latest]
    socratic.tdi(graph, [[0.0, 0.0, 0.0]], budget=19)
    assert graph.derived[latest] is kept
