"""Intervals for the posterior: the truth is in them, on circuits and for likelihoods made to break them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

import socratic
from socratic import Graph, Leaf, Sum
from socratic.families import Bernoulli
from socratic.inference.posterior import expand_moments
from socratic.inference.posterior_bounds import (
    Bounds,
    ExpansionBounds,
    PosteriorBounds,
    bound_expansion,
    bound_posterior,
)
from tests.inference.graph.random_graphs import SHAPES, random_roots, random_rows
from tests.inference.test_moments import build
from tests.oracles import Enumeration, count_masks, enumerate_masks

RATES = (0.005, 0.05, 0.3, 0.6)
ROUNDING = 1e-9


def assert_within(bounds: Bounds, value: Tensor | np.ndarray) -> None:
    lower, upper = bounds
    assert (lower <= torch.as_tensor(value) + ROUNDING).all()
    assert (torch.as_tensor(value) <= upper + ROUNDING).all()


def width(bounds: Bounds) -> float:
    return float((bounds[1] - bounds[0]).mean())


@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_the_truth_of_every_mask_is_within(shape: str) -> None:
    """The enumerated posterior and the expansion of exact moments, from exact moments and from bounds."""
    widths: dict[float, list[float]] = {rate: [] for rate in RATES}
    bounded = 0
    for seed in range(20):
        graph = Graph(random_roots(shape, seed), dtype=torch.float64)
        masks, root_dropout = ("edge", "unit")[seed % 2], seed % 4 > 1
        if graph.n_classes < 2 or not 0 < count_masks(graph, masks, root_dropout) <= 10:
            continue
        x = random_rows(1, graph.n_features, seed)
        prior = np.random.default_rng(seed).dirichlet(np.ones(graph.n_classes))
        for rate in RATES:
            settings = {"dropout": rate, "masks": masks, "root_dropout": root_dropout}
            mean, std, _ = enumerate_masks(graph, x[0].tolist(), **settings).posterior(prior.tolist())
            exact, bounds = (socratic.tdi(graph, x, budget=budget, **settings) for budget in (None, 0))
            bounded += bounds.method == "bounds"
            expansion = exact.posterior(prior.tolist())
            for moments in (exact, bounds):
                of_truth = moments.posterior_bounds(prior.tolist())
                assert_within(of_truth.mean_bounds, mean)
                assert_within(of_truth.std_bounds, std)
                of_expansion = moments.posterior_bounds(prior.tolist(), of="expansion")
                assert_within(of_expansion.mean_bounds, expansion.mean)
                assert_within(of_expansion.std_bounds, expansion.std)
            widths[rate].append(width(bounds.posterior_bounds(prior.tolist()).mean_bounds))
    assert bounded > 0 or shape == "tree"
    assert 0 < np.median(widths[RATES[0]]) < 0.05  # they say something where dropout moves p(x) little


def random_likelihoods(seed: int) -> Enumeration:
    """A few outcomes, of classes that are independent or opposed, of many sizes or 0."""
    rng = np.random.default_rng(seed)
    n_outcomes, n_classes = int(rng.integers(2, 6)), int(rng.integers(2, 5))
    values = rng.uniform(0.5, 1.5, (n_outcomes, n_classes)) ** rng.choice([0.1, 1.0, 10.0])
    values *= rng.random(values.shape) > rng.choice([0.0, 0.3])
    values[0] = values[0].clip(0.1)  # every class lives sometimes
    return Enumeration(values, rng.dirichlet(np.full(n_outcomes, rng.choice([0.1, 1.0]))))


def bounds_of(likelihoods: Enumeration) -> PosteriorBounds:
    shares = torch.tensor(likelihoods.mean / likelihoods.mean.sum()).unsqueeze(0)
    covariance = torch.tensor(likelihoods.relative_covariance).unsqueeze(0)
    return bound_posterior(ExpansionBounds.of_exact(expand_moments(shares, covariance)), shares)


def test_any_distribution_of_likelihoods_is_within() -> None:
    """Also where classes exclude each other, or where everything is dead at times."""
    tight = 0
    for seed in range(600):
        likelihoods = random_likelihoods(seed)
        n_classes = likelihoods.values.shape[1]
        mean, std, _ = likelihoods.posterior(np.full(n_classes, 1 / n_classes).tolist())
        found = bounds_of(likelihoods)
        assert_within(found.mean_bounds, mean)
        assert_within(found.std_bounds, std)
        tight += width(found.mean_bounds) < 0.05
    assert tight > 50


def test_the_bound_of_the_mean_is_nearly_reached() -> None:
    """By an improbable class that one mask in twenty leaves alone."""
    likelihoods = Enumeration(np.array([[1.0, 1e-6], [0.0, 1e-6]]), np.array([0.95, 0.05]))
    mean, _, _ = likelihoods.posterior([0.5, 0.5])
    assert mean[1] == pytest.approx(0.05, abs=1e-5)
    assert float(bounds_of(likelihoods).mean_bounds[1][0, 1]) == pytest.approx(0.05 / 0.95, abs=1e-5)


def random_case(seed: int, n_classes: int) -> tuple[Tensor, Bounds]:
    rng = np.random.default_rng(seed)
    shares = torch.tensor(rng.dirichlet(np.ones(n_classes), 1))
    lower = torch.tensor(rng.uniform(0.0, 1.0, (1, n_classes)))
    return shares, (lower, lower + torch.tensor(rng.exponential(rng.choice([0.01, 1.0]), (1, n_classes))))


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_every_covariance_that_fits_the_bounds_is_within(n_classes: int) -> None:
    for seed in range(50):
        shares, (lower, upper) = random_case(seed, n_classes)
        known = ExpansionBounds.of_variances(shares, (lower, upper))
        rng = np.random.default_rng(seed)
        for spread in (0.0, 0.1, 1.0, 10.0):
            factor = torch.tensor(rng.random((200, n_classes, 2)) ** spread)  # correlations of at least 0
            factor = factor / factor.norm(dim=-1, keepdim=True)
            size = torch.sqrt(lower + (upper - lower) * torch.tensor(rng.integers(0, 2, (200, n_classes))))
            covariance = (factor @ factor.mT) * size.unsqueeze(-1) * size.unsqueeze(-2)
            mean, std, common = expand_moments(shares.expand(200, -1), covariance)
            assert_within(known.mean, mean)
            assert_within(known.std, std)
            assert (torch.sqrt(common) <= known.total + ROUNDING).all()


def test_bounds_of_two_classes_are_reached() -> None:
    """By some variances and covariance on a fine grid: no closer interval would do."""
    steps = torch.linspace(0.0, 1.0, 31, dtype=torch.float64)
    grid = torch.cartesian_prod(steps, steps, steps)
    for seed in range(10):
        shares, (lower, upper) = random_case(seed, 2)
        variances = lower + (upper - lower) * grid[:, :2]
        between = grid[:, 2] * variances.prod(-1).sqrt()
        covariance = torch.diag_embed(variances) + between.view(-1, 1, 1) * (1 - torch.eye(2))
        found = expand_moments(shares.expand(len(grid), -1), covariance)
        known = ExpansionBounds.of_variances(shares, (lower, upper))
        for values, bounds in ((found.mean, known.mean), (found.std, known.std)):
            torch.testing.assert_close(values.amin(0, keepdim=True), bounds[0], rtol=0, atol=0.02)
            torch.testing.assert_close(values.amax(0, keepdim=True), bounds[1], rtol=0, atol=0.02)


def test_an_expansion_that_is_known_is_both_of_its_bounds() -> None:
    circuit = build("balanced")
    moments = socratic.tdi(circuit, torch.zeros(1, 4, dtype=torch.float64), dropout=0.1)
    posterior, found = moments.posterior([0.7, 0.3]), moments.posterior_bounds([0.7, 0.3], of="expansion")
    for bound in found.mean_bounds:
        torch.testing.assert_close(bound, posterior.mean)
    for bound in found.std_bounds:
        torch.testing.assert_close(bound, posterior.std)
    assert found.of == "expansion"
    assert moments.posterior_bounds().of == "posterior"


@pytest.mark.parametrize("of", ["posterior", "expansion"])
def test_huge_variances_say_nothing_and_stay_probabilities(of: str) -> None:
    shares = torch.tensor([[0.2, 0.8]])
    known = ExpansionBounds.of_variances(shares, (torch.zeros(1, 2), torch.full((1, 2), 4e9)))
    found = bound_posterior(known, shares) if of == "posterior" else bound_expansion(known)
    assert found.mean_bounds[0].tolist() == [[0.0, 0.0]]
    assert found.mean_bounds[1].tolist() == [[1.0, 1.0]]
    assert found.std_bounds[0].tolist() == [[0.0, 0.0]]
    assert found.std_bounds[1].tolist() == [[0.5, 0.5]]


def shared_mixtures() -> Graph:
    """Classes that share a sum, and one that values other than 0 are impossible for."""
    shared = Sum((Leaf(0, Bernoulli.of(0.3)), Leaf(0, Bernoulli.of(0.6))), (0.5, 0.5))
    impossible = Leaf(0, Bernoulli.of(0.0))
    roots = (Sum((shared, impossible), (0.4, 0.6)), Sum((shared, impossible), (0.7, 0.3)), Sum((impossible,), (1.0,)))
    return Graph(roots, dtype=torch.float64)


@pytest.mark.parametrize("budget", [None, 0])
@torch.no_grad()
def test_masks_that_leave_no_class_alive_are_left_out(budget: int | None) -> None:
    graph, settings = shared_mixtures(), {"dropout": 0.3, "masks": "edge", "root_dropout": True}
    mean, std, dead = enumerate_masks(graph, [1.0], **settings).posterior([0.2, 0.3, 0.5])
    assert dead > 0
    assert mean[2] == 0
    found = socratic.tdi(graph, [[1.0]], budget=budget, **settings).posterior_bounds([0.2, 0.3, 0.5])
    assert_within(found.mean_bounds, mean)
    assert_within(found.std_bounds, std)


@pytest.mark.parametrize("of", ["posterior", "expansion"])
@torch.no_grad()
def test_an_impossible_row_gets_the_prior(of: str) -> None:
    graph = Graph(tuple(Sum((Leaf(0, Bernoulli.of(0.0)),), (1.0,)) for _ in range(2)), dtype=torch.float64)
    found = socratic.tdi(graph, [[1.0]]).posterior_bounds([0.3, 0.7], of=of)
    for bound in found.mean_bounds:
        torch.testing.assert_close(bound, torch.tensor([[0.3, 0.7]], dtype=torch.float64))
    assert not any(bound.any() for bound in found.std_bounds)


@torch.no_grad()
def test_a_single_class_is_certain() -> None:
    graph = Graph(shared_mixtures().roots[:1], dtype=torch.float64)
    for of in ("posterior", "expansion"):
        found = socratic.tdi(graph, [[1.0]], dropout=0.3, root_dropout=True, budget=0).posterior_bounds(of=of)
        assert [float(bound) for bound in (*found.mean_bounds, *found.std_bounds)] == [1.0, 1.0, 0.0, 0.0]


def test_gradients_are_finite() -> None:
    """Also where nothing is random, and deviations are 0."""
    for of, rate in itertools.product(("posterior", "expansion"), (0.0, 0.3)):
        graph = shared_mixtures()
        found = socratic.tdi(graph, [[1.0], [0.0]], dropout=rate, budget=0).posterior_bounds(of=of)
        torch.cat([*found.mean_bounds, *found.std_bounds]).sum().backward()
        assert graph.logits.grad is not None
        assert graph.logits.grad.isfinite().all()


def test_arguments_are_checked() -> None:
    circuit, x = build("balanced"), torch.zeros(1, 4, dtype=torch.float64)
    for kind in ("independent", "upper"):
        moments = socratic.tdi(circuit, x, covariance=kind)
        with pytest.raises(ValueError, match=f"covariance='{kind}' bounds variances on one side only, and an interval"):
            moments.posterior_bounds()
    moments = socratic.tdi(circuit, x)
    with pytest.raises(ValueError, match="of must be one of 'posterior', 'expansion'; got 'mean'"):
        moments.posterior_bounds(of="mean")
    with pytest.raises(ValueError, match=r"class_prior must sum to 1"):
        moments.posterior_bounds([0.5, 0.6])
