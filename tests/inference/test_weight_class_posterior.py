"""The class posterior over weights: its ways agree with each other, and with samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import socratic
from socratic import Posterior
from socratic.inference import posterior_methods
from tests.inference.test_weight_moments import CASES, build, of_graph

PARTS = ("mean", "std", "entropy", "mutual_information", "log_density_std")


def assert_close(one: Posterior, other: Posterior, **tolerance: float) -> None:
    for name in PARTS:
        torch.testing.assert_close(getattr(one, name), getattr(other, name), **tolerance)


@pytest.mark.parametrize("case", CASES)
def test_graphs_give_what_layers_give(case: str) -> None:
    circuit, posterior, x = build(case)
    graph, same = of_graph(circuit, posterior)
    for method in ("log-moments", "log-normal", "expansion"):
        with torch.no_grad():
            layered = socratic.class_posterior(circuit, x, posterior, method=method)
            of_nodes = socratic.class_posterior(graph, x, same, method=method)
        assert layered.method == of_nodes.method == method
        assert_close(layered, of_nodes, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("case", ["three-children", "root-of-repetitions", "correlated-pairs"])
def test_all_ways_agree_where_variances_are_small(case: str) -> None:
    circuit, posterior, x = build(case)
    doubt = posterior.tempered(prior_strength=300.0)
    with torch.no_grad():
        truth = socratic.class_posterior(circuit, x, doubt, method="monte-carlo", n_passes=600)
        for method in ("auto", "log-moments", "log-normal", "expansion"):
            found = socratic.class_posterior(circuit, x, doubt, method=method)
            assert_close(found, truth, rtol=0.25, atol=2e-3)
            if method == "auto":
                assert found.method == "log-moments"


@pytest.mark.parametrize("method", ["log-moments", "log-normal"])
def test_doubt_goes_to_nothing_as_visits_grow(method: str) -> None:
    circuit, posterior, x = build("root-of-repetitions")
    plain = torch.softmax(circuit.log_likelihood(torch.as_tensor(x)).detach(), dim=-1)
    before = torch.inf
    for worth in (1.0, 1e2, 1e4, 1e6):
        found = socratic.class_posterior(circuit, x, posterior.tempered(worth=worth), method=method)
        doubt = float(found.mutual_information.detach().max())
        assert 0.0 <= doubt < before
        before = doubt
    assert before < 1e-5
    torch.testing.assert_close(found.mean.detach(), plain, rtol=1e-2, atol=1e-4)


def test_auto_samples_rows_that_are_far_from_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, posterior, x = build("root-of-repetitions")
    with torch.no_grad():
        smooth = socratic.class_posterior(circuit, x, posterior, method="log-moments")
        sampled = socratic.class_posterior(
            circuit, x, posterior, method="monte-carlo", n_passes=posterior_methods.N_FAR_PASSES
        )
        monkeypatch.setattr(posterior_methods, "FAR_CURVATURE", -1.0)
        found = socratic.class_posterior(circuit, x, posterior)
    assert found.method == "log-moments, monte-carlo where far from linear"
    assert_close(found, sampled)
    assert not torch.equal(found.std, smooth.std)


def test_a_graph_whose_moments_cost_too_much_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.inference.graph.moments.DEFAULT_BUDGET", 1)
    graph, posterior = of_graph(*build("correlated-pairs")[:2])
    found = socratic.class_posterior(graph, np.zeros((2, 4)), posterior)
    assert found.method == "monte-carlo"
    with pytest.raises(ValueError, match="method='log-moments' is not possible here: following what nodes share takes"):
        socratic.class_posterior(graph, np.zeros((2, 4)), posterior, method="log-moments")


def test_gradients_of_log_moments_equal_finite_differences() -> None:
    circuit, posterior, x = build("two-children")
    inputs = torch.tensor(x[:2], requires_grad=True)

    def doubt(rows: torch.Tensor) -> torch.Tensor:
        found = socratic.class_posterior(circuit, rows, posterior, method="log-moments")
        return torch.cat([found.mean.flatten(), found.std.flatten(), found.mutual_information])

    assert torch.autograd.gradcheck(doubt, inputs, eps=1e-6, atol=1e-5)


@pytest.mark.parametrize("n_features", [784, 3072])
def test_far_rows_of_many_variables_stay_finite(n_features: int) -> None:
    """Where relative variances leave the range of their type, logarithms do not."""
    circuit = socratic.rat_spn(n_features, 3, n_sums=3, n_leaves=3, depth=5, n_repetitions=2, seed=1)
    generator = torch.Generator().manual_seed(0)
    x = 5.0 * torch.randn(4, n_features, generator=generator)
    posterior = socratic.weight_posterior(circuit, x[:3] / 5.0, [0, 1, 2])
    with torch.no_grad():
        single = socratic.class_posterior(circuit, x, posterior, method="log-moments")
        double = socratic.class_posterior(circuit.double(), x.double(), posterior, method="log-moments")
    assert_close(
        Posterior(
            *(None if part is None or isinstance(part, str) else part.double() for part in vars(single).values())
        ),
        double,
        rtol=1e-2,
        atol=1e-4,
    )


def test_sums_far_below_their_region_keep_their_noise() -> None:
    """A root without weight on the children that a row fits lives on values that float32 cannot square."""
    circuit, posterior, x = build("three-children")
    x = 4.0 + 0.1 * np.nan_to_num(x)
    with torch.no_grad():
        for group in circuit.leaves.leaf_groups():
            group.values["mean"][:, 0] = 4.0
            group.values["mean"][:, 1:] = torch.tensor([-3.0, -3.5])
        for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
            layer.logits[:, 1:, 0] = -torch.inf
        double = socratic.class_posterior(circuit, x, posterior, method="log-moments", class_prior=[0.0, 1.0])
        single = socratic.class_posterior(circuit.float(), x, posterior, method="log-moments", class_prior=[0.0, 1.0])
    assert double.log_density_std is not None
    assert single.log_density_std is not None
    assert (double.log_density_std > 0.05).all()
    torch.testing.assert_close(single.log_density_std.double(), double.log_density_std, rtol=1e-2, atol=1e-3)


def test_uncertain_leaves_add_to_the_doubt() -> None:
    circuit, posterior, x = build("two-children")
    found = []
    for model, doubt in ((circuit, posterior), of_graph(circuit, posterior)):
        with torch.no_grad():
            certain = socratic.class_posterior(model, x, doubt, method="log-moments")
            doubtful = socratic.class_posterior(model, x, doubt, leaf_variance={1: 0.3})
        assert doubtful.method == "log-moments"
        assert doubtful.log_density_std is not None
        assert certain.log_density_std is not None
        assert (doubtful.log_density_std > certain.log_density_std).all()
        found.append(doubtful)
    assert_close(*found, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="method='monte-carlo' samples masks or weights only"):
        socratic.class_posterior(circuit, x, posterior, leaf_variance=0.3, method="monte-carlo")


@pytest.mark.parametrize("kind", ["circuit", "graph"])
def test_a_class_that_no_row_had_is_the_most_doubtful(kind: str) -> None:
    circuit, _, x = build("root-of-repetitions")
    model = circuit if kind == "circuit" else circuit.to_graph()
    rows = np.tile(x, (20, 1))
    doubt = socratic.weight_posterior(model, rows, torch.zeros(len(rows), dtype=torch.long))
    with torch.no_grad():
        spread = socratic.moments(model, x, doubt).relative_variance
        found = socratic.class_posterior(model, x, doubt)
    assert (spread[:, 1:] > spread[:, :1]).all()
    torch.testing.assert_close(found.mean.sum(1), torch.ones(len(x), dtype=found.mean.dtype))
    assert found.mutual_information.isfinite().all()


def test_a_row_without_values_leaves_no_doubt_beside_the_prior() -> None:
    circuit, doubt, x = build("root-of-repetitions")
    prior = torch.linspace(1.0, 2.0, circuit.n_classes, dtype=torch.float64)
    prior /= prior.sum()
    with torch.no_grad():
        found = socratic.class_posterior(circuit, np.full_like(x, np.nan), doubt, class_prior=prior)
    torch.testing.assert_close(found.mean, prior.expand_as(found.mean))
    assert found.mutual_information.max() < 1e-9
    assert found.std.max() < 1e-5


def test_rows_very_far_away_have_a_deviation_that_does_not_jump() -> None:
    """Log-likelihoods of -1e18 leave no digits for a deviation of some nats, unless it is taken apart from them."""
    circuit, posterior, x = build("two-children")
    x = np.nan_to_num(x) + 1.0
    with torch.no_grad():
        found = [
            socratic.class_posterior(circuit, x * size, posterior, method="log-moments").log_density_std
            for size in (1e7, 1e8, 1e9)
        ]
    for deviation in found:
        assert deviation is not None
        assert found[0] is not None
        torch.testing.assert_close(deviation, found[0], rtol=0.1, atol=0.0)
        assert (deviation < 100.0).all()
