"""Moments over Dirichlet weights against quadrature and sampling, in float64."""

from __future__ import annotations

import itertools
import re
from collections import Counter

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Sum, WeightPosterior
from socratic.families import Categorical, Gaussian
from tests.inference.circuits import Shape, peaky_circuit
from tests.inference.dirichlet import parameters_of, quadrature, sampled
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows

# (features, depth, repetitions, sums, leaves, classes, product)
CASES: dict[str, Shape] = {
    "two-children": (4, 2, 1, 2, 2, 2, "element-wise"),
    "three-children": (4, 2, 1, 3, 3, 2, "element-wise"),
    "root-of-repetitions": (3, 2, 2, 2, 2, 2, "element-wise"),
    "deep": (5, 3, 1, 1, 1, 2, "all-pairs"),
    "all-pairs": (2, 1, 1, 2, 2, 2, "all-pairs"),
    "correlated-pairs": (4, 2, 1, 2, 2, 1, "all-pairs"),
    "branches": (3, 2, 3, 1, 2, 1, "all-pairs"),
    "no-split": (3, 0, 2, 2, 3, 2, "all-pairs"),
}


def build(case: str, seed: int = 0, n_rows: int = 20) -> tuple[socratic.Circuit, WeightPosterior, np.ndarray]:
    """A circuit, its weight posterior after some rows, and rows to ask about: some like those, one far away."""
    circuit = peaky_circuit(CASES[case], seed)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, circuit.n_features))
    posterior = socratic.weight_posterior(circuit, x, rng.integers(0, circuit.n_classes, n_rows))
    asked = rng.normal(size=(3, circuit.n_features))
    asked[1] *= 5.0
    asked[2, 0] = np.nan
    return circuit, posterior, asked


def of_graph(circuit: socratic.Circuit, posterior: WeightPosterior) -> tuple[Graph, WeightPosterior]:
    """The graph of a circuit, and the same visits of its sums, which are found by their weights."""
    graph = circuit.to_graph()
    visits_of: dict[tuple[float, ...], float] = {}
    for weights, visits in zip(circuit.weights().layers, posterior.visits[:-1], strict=True):
        rows = weights.flatten(0, 1).tolist()
        visits_of |= {tuple(row): value for row, value in zip(rows, visits.flatten().tolist(), strict=True)}
    for root, value in zip(graph.roots, posterior.visits[-1].tolist(), strict=True):
        assert isinstance(root, Sum)
        visits_of[root.weights] = value
    nodes = [graph.nodes[number] for number in graph.sum_numbers.tolist()]
    visits = torch.tensor([visits_of[node.weights] for node in nodes if isinstance(node, Sum)], dtype=torch.float64)
    return graph, WeightPosterior((visits,), posterior.prior_strength, posterior.worth)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("prior_strength", [1.0, 0.1])
def test_moments_equal_quadrature(case: str, prior_strength: float) -> None:
    circuit, posterior, x = build(case)
    posterior = posterior.tempered(prior_strength=prior_strength, worth=0.3)
    graph, same = of_graph(circuit, posterior)
    with torch.no_grad():
        exact, of_nodes = socratic.moments(circuit, x, posterior), socratic.moments(graph, x, same)
        lower = socratic.moments(circuit, x, posterior, covariance="independent").relative_variance
        upper = socratic.moments(circuit, x, posterior, covariance="upper").relative_variance
    for row in range(len(x)):
        truth = quadrature(graph, x[row].tolist(), same)
        np.testing.assert_allclose(exact.log_mean[row], np.log(truth.mean), rtol=0, atol=1e-9)
        for found in (exact, of_nodes):
            np.testing.assert_allclose(found.relative_covariance[row], truth.relative_covariance, rtol=1e-9, atol=1e-9)
        variance = np.diag(truth.relative_covariance)
        assert (lower[row].numpy() <= variance * (1 + 1e-9) + 1e-12).all()
        assert (upper[row].numpy() >= variance * (1 - 1e-9) - 1e-12).all()
    assert exact.method == "layered"


def test_more_points_of_the_quadrature_change_nothing() -> None:
    circuit, posterior, x = build("deep")
    graph, same = of_graph(circuit, posterior)
    few, many = (quadrature(graph, x[0].tolist(), same, n_points) for n_points in (2, 5))
    np.testing.assert_allclose(few.relative_covariance, many.relative_covariance, rtol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_graphs_of_every_shape_equal_quadrature(shape: str) -> None:
    methods: Counter[str] = Counter()
    for seed in itertools.count():
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        visits = torch.as_tensor(np.random.default_rng(seed).gamma(0.5, 10.0, graph.n_sums))
        posterior = WeightPosterior((visits,), prior_strength=0.5)
        sticks = sum(len(alpha) - 1 for alpha in parameters_of(graph, posterior).values())
        if not 0 < sticks <= 12:
            continue
        x = random_rows(1, graph.n_features, seed)
        truth = quadrature(graph, x[0].tolist(), posterior)
        variance = np.diag(truth.relative_covariance)
        with torch.no_grad():
            exact = socratic.moments(graph, x, posterior)
            bounds = socratic.moments(graph, x, posterior, budget=0)
        np.testing.assert_allclose(exact.log_mean[0], np.log(truth.mean), rtol=0, atol=1e-9)
        np.testing.assert_allclose(exact.relative_covariance[0], truth.relative_covariance, rtol=1e-9, atol=1e-9)
        if bounds.variance_bounds is not None:
            lower, upper = (part[0].numpy() for part in bounds.variance_bounds)
            assert (lower <= variance * (1 + 1e-9) + 1e-12).all()
            assert (upper >= variance * (1 - 1e-9) - 1e-12).all()
        methods[exact.method] += 1
        if methods.total() == 20:
            break
    assert methods["tree"] == 20 or methods["structured"] + methods["multiset"] >= 5, methods


@pytest.mark.parametrize("case", ["three-children", "root-of-repetitions", "correlated-pairs"])
def test_moments_agree_with_samples(case: str) -> None:
    """|z| < 4 for means and all covariances, over 100,000 sampled weights."""
    circuit, posterior, x = build(case, seed=1)
    graph, same = of_graph(circuit, posterior)
    exact = socratic.moments(circuit, x, posterior)
    for row in range(len(x)):
        values = sampled(graph, x[row].tolist(), same, 100_000) / exact.log_mean[row].exp().detach().numpy()
        error = values - 1.0
        products = error[:, :, None] * error[:, None, :]
        expected = exact.relative_covariance[row].detach().numpy()
        for sample, mean in ((values, np.ones(values.shape[1])), (products, expected)):
            z = (sample.mean(0) - mean) / (sample.std(0) / np.sqrt(len(sample)))
            assert (np.abs(z) < 4.0).all(), z


def test_variances_are_never_negative_and_vanish_with_visits() -> None:
    circuit, posterior, x = build("correlated-pairs")
    before = torch.full((len(x), 1), torch.inf, dtype=torch.float64)
    for worth in (0.0, 1.0, 10.0, 1e3, 1e6, 1e9):
        variance = socratic.moments(circuit, x, posterior.tempered(worth=worth)).relative_variance
        assert (variance >= 0.0).all()
        assert (variance < before).all()
        before = variance
    assert (before < 1e-6).all()


@pytest.mark.parametrize("covariance", ["exact", "independent", "upper"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_children_that_are_all_alike_leave_no_variance(covariance: str, dtype: torch.dtype) -> None:
    """Whatever the weights are, a sum of equal values has that value: the two terms of the formula cancel."""
    circuit = socratic.rat_spn(6, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2).to(dtype)
    posterior = socratic.weight_posterior(circuit, torch.randn(5, 6), [0, 1, 2, 0, 1])
    moments = socratic.moments(circuit, torch.full((2, 6), torch.nan), posterior, covariance=covariance)
    variance = moments.relative_variance
    assert (variance >= 0.0).all()
    assert (variance < 50 * torch.finfo(dtype).eps).all()


def test_weights_of_zero_and_dead_sums_have_no_variance() -> None:
    near, far = (Leaf(0, Gaussian.of(mean, 1.0)) for mean in (0.0, 3.0))
    graph = Graph((Sum((near, far), (1.0, 0.0)), Sum((near, far), (0.5, 0.5))), dtype=torch.float64)
    posterior = WeightPosterior((torch.tensor([3.0, 1.0], dtype=torch.float64),))
    moments = socratic.moments(graph, [[3.0], [0.5]], posterior)
    assert (moments.relative_variance[:, 0] == 0.0).all()
    for row, value in enumerate((3.0, 0.5)):
        truth = quadrature(graph, [value], posterior)
        np.testing.assert_allclose(moments.relative_covariance[row].detach(), truth.relative_covariance, atol=1e-12)

    circuit, posterior, x = build("root-of-repetitions")
    with torch.no_grad():
        for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
            layer.logits[:, :, 0] = -torch.inf
    graph, same = of_graph(circuit, posterior)
    moments = socratic.moments(circuit, x, posterior)
    for row in range(len(x)):
        truth = quadrature(graph, x[row].tolist(), same)
        np.testing.assert_allclose(
            moments.relative_covariance[row].detach(), truth.relative_covariance, rtol=1e-9, atol=1e-9
        )


def test_a_class_that_is_dead_has_no_variance() -> None:
    """Discrete values can be impossible under one class and possible under another."""
    nothing, something = Leaf(0, Categorical.of([1.0, 0.0])), Leaf(0, Categorical.of([0.5, 0.5]))
    graph = Graph((Sum((nothing, nothing), (0.5, 0.5)), Sum((something, nothing), (0.5, 0.5))), dtype=torch.float64)
    posterior = WeightPosterior((torch.zeros(2, dtype=torch.float64),))
    moments = socratic.moments(graph, [[1.0]], posterior)
    assert moments.log_mean[0, 0] == -torch.inf
    assert moments.relative_covariance[0, 0].tolist() == [0.0, 0.0]
    assert moments.relative_covariance[0, 1, 1].item() == pytest.approx(0.5)  # Beta(1/2, 1/2)


@pytest.mark.parametrize("covariance", ["exact", "independent", "upper"])
def test_gradients_equal_finite_differences(covariance: str) -> None:
    circuit, posterior, x = build("root-of-repetitions")
    query = _Moments(circuit, posterior, covariance)
    logits = {name: value.detach().clone() for name, value in query.named_parameters() if name.endswith("logits")}

    def covariances(*values: torch.Tensor) -> torch.Tensor:
        changed = dict(zip(logits, values, strict=True))
        found = torch.func.functional_call(query, changed, (torch.tensor(x),))
        assert isinstance(found, torch.Tensor)
        return found

    assert torch.autograd.gradcheck(covariances, [value.requires_grad_() for value in logits.values()])


class _Moments(torch.nn.Module):
    def __init__(self, circuit: socratic.Circuit, posterior: WeightPosterior, covariance: str) -> None:
        super().__init__()
        self.circuit, self.posterior, self.covariance = circuit, posterior, covariance

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return socratic.moments(self.circuit, x, self.posterior, covariance=self.covariance).relative_covariance


@pytest.mark.parametrize("n_features", [784, 3072])
def test_float32_keeps_its_digits_in_many_variables(n_features: int) -> None:
    circuit = socratic.rat_spn(n_features, 3, n_sums=3, n_leaves=3, depth=5, n_repetitions=2, seed=1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, n_features, generator=generator)
    posterior = socratic.weight_posterior(circuit, x[:4], [0, 1, 2, 0], prior_strength=100.0)
    with torch.no_grad():
        single = socratic.moments(circuit, x, posterior)
        double = socratic.moments(circuit.double(), x.double(), posterior)
    assert not single.relative_covariance.isnan().any()
    torch.testing.assert_close(single.relative_covariance.double(), double.relative_covariance, rtol=1e-3, atol=1e-6)


def test_chunks_and_tiles_do_not_change_results() -> None:
    circuit, posterior, _ = build("branches")
    x = np.random.default_rng(0).normal(size=(7, 3))
    whole, parts = (socratic.moments(circuit, x, posterior, chunk_size=size) for size in (None, 2))
    torch.testing.assert_close(whole.relative_covariance, parts.relative_covariance)


def test_tdi_is_moments_over_dropout() -> None:
    circuit, _, x = build("branches")
    masks = socratic.Dropout(0.3, "unit", root=True)
    moments, tdi = (
        socratic.moments(circuit, x, masks),
        socratic.tdi(circuit, x, dropout=0.3, masks="unit", root_dropout=True),
    )
    assert torch.equal(moments.relative_covariance, tdi.relative_covariance)
    assert tdi.doubt == masks


def test_what_is_no_doubt_of_the_circuit_is_refused() -> None:
    circuit, posterior, x = build("branches")
    with pytest.raises(ValueError, match=r"doubt must be Dropout\(rate, ...\) or a WeightPosterior, .*; got a float"):
        socratic.moments(circuit, x, 0.2)
    with pytest.raises(
        ValueError, match=re.escape("doubt must be the weight posterior of this circuit, whose sums have")
    ):
        socratic.moments(build("deep")[0], np.zeros((1, 5)), posterior)
    with pytest.raises(ValueError, match="prior_strength must be above 0"):
        posterior.tempered(prior_strength=0.0)
    with pytest.raises(ValueError, match="worth must be a finite number of at least 0; got -1"):
        posterior.tempered(worth=-1)
    with pytest.raises(ValueError, match="visits must be finite and at least 0"):
        WeightPosterior((torch.tensor([-1.0]),))
