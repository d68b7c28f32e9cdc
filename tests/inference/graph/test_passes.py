"""Sampled dropout on graphs against enumeration and exact moments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Sum
from socratic.families import Bernoulli, Gaussian
from tests.inference.graph.random_graphs import random_roots, random_rows
from tests.oracles import enumerate_masks

SETTINGS = list(itertools.product(("edge", "unit"), (False, True)))


@pytest.mark.parametrize(("masks", "root_dropout"), SETTINGS)
def test_passes_have_the_exact_moments(masks: str, root_dropout: bool) -> None:
    graph = Graph(random_roots("crossing", 5), dtype=torch.float64)
    x = random_rows(3, graph.n_features, 0)
    settings = {"dropout": 0.25, "masks": masks, "root_dropout": root_dropout}
    with torch.no_grad():
        moments = socratic.tdi(graph, x, **settings)
    assert moments.method != "bounds"
    n_passes = 600
    passes = torch.stack(list(socratic.sample_log_likelihoods(graph, x, n_passes=n_passes, **settings)))
    relative = torch.exp(passes - moments.log_mean)
    score = (relative.mean(0) - 1.0) / torch.sqrt(moments.relative_variance / n_passes)
    assert score.abs().max() < 4.5
    deviation = relative - 1.0
    covariance = torch.einsum("pnc,pnd->ncd", deviation, deviation) / n_passes
    torch.testing.assert_close(covariance, moments.relative_covariance, rtol=0.35, atol=0.1)


@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_the_posterior_is_conditional_on_a_live_class(masks: str) -> None:
    leaves = [Leaf(0, Bernoulli.of(p)) for p in (0.1, 0.5, 0.9)]
    graph = Graph(
        (Sum(tuple(leaves[:2]), (0.5, 0.5)), Sum(tuple(leaves[1:]), (0.3, 0.7))),
        dtype=torch.float64,
    )
    mean, std, dead = enumerate_masks(graph, [1.0], 0.6, masks, True).posterior([0.3, 0.7])
    found = socratic.monte_carlo_dropout(
        graph, [[1.0]], dropout=0.6, masks=masks, root_dropout=True, class_prior=[0.3, 0.7], n_passes=1000
    )
    assert found.dead is not None
    np.testing.assert_allclose(found.mean[0], mean, atol=0.05)
    np.testing.assert_allclose(found.std[0], std, atol=0.05)
    assert float(found.dead[0]) == pytest.approx(dead, abs=0.05)


def test_masks_depend_on_the_seed_alone() -> None:
    graph = Graph(random_roots("structured", 1))
    x = random_rows(6, graph.n_features, 0)
    settings = {"dropout": 0.3, "leaf_dropout": 0.1, "n_passes": 20}
    whole = socratic.monte_carlo_dropout(graph, x, seed=3, **settings)
    alone = socratic.monte_carlo_dropout(graph, x[2:3], seed=3, **settings)
    chunks = socratic.monte_carlo_dropout(graph, x, seed=3, chunk_size=2, **settings)
    other = socratic.monte_carlo_dropout(graph, x, seed=4, **settings)
    torch.testing.assert_close(alone.mean, whole.mean[2:3])
    torch.testing.assert_close(chunks.mean, whole.mean)
    assert not torch.equal(other.mean, whole.mean)


def test_a_dropped_leaf_is_marginalised() -> None:
    graph = Graph(Leaf(0, Gaussian.of(0.0, 1.0)))
    values = set(torch.cat(list(socratic.sample_log_likelihoods(graph, [[2.0]], leaf_dropout=0.5))).flatten().tolist())
    assert values == {0.0, graph.log_likelihood([[2.0]]).item()}


def test_training_draws_masks_for_each_row() -> None:
    graph = Graph(random_roots("structured", 0), dtype=torch.float64)
    row = random_rows(1, graph.n_features, 1)
    x = np.repeat(row, 4000, axis=0)
    generator = torch.Generator().manual_seed(0)
    found = socratic.training_log_likelihood(graph, x, dropout=0.3, root_dropout=True, generator=generator)
    moments = socratic.tdi(graph, row, dropout=0.3, masks="unit", root_dropout=True)
    relative = torch.exp(found - moments.log_mean)
    score = (relative.mean(0) - 1.0) / torch.sqrt(moments.relative_variance[0] / len(x))
    assert score.abs().max() < 4.5
    found.sum().backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in graph.parameters())


def test_without_dropout_training_sees_the_likelihood() -> None:
    graph = Graph(random_roots("ancestor", 1))
    x = random_rows(5, graph.n_features, 1)
    found = socratic.training_log_likelihood(graph, x, generator=torch.Generator())
    torch.testing.assert_close(found, graph.log_likelihood(x))


def test_the_posterior_by_every_method() -> None:
    graph = socratic.rat_spn(6, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2).double().to_graph()
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    expansion = socratic.dropout_posterior(graph, x, dropout=0.05, method="expansion")
    assert expansion.method == "expansion"
    sampled = socratic.dropout_posterior(graph, x, dropout=0.05, method="monte-carlo", n_passes=500)
    torch.testing.assert_close(expansion.mean, sampled.mean, atol=0.05, rtol=0)
    balanced = socratic.dropout_posterior(graph, x, dropout=0.05)
    assert balanced.method == "monte-carlo"
    torch.testing.assert_close(balanced.mean, sampled.mean, atol=0.05, rtol=0)
    assert socratic.dropout_posterior(graph, x, dropout=0.05, leaf_variance=0.1).method == "expansion"
    with pytest.raises(ValueError, match="a Graph has no regions to follow; use 'expansion', 'monte-carlo' or 'auto'"):
        socratic.dropout_posterior(graph, x, method="log-moments")


def test_bounds_have_no_expansion() -> None:
    graph = socratic.rat_spn(8, 2, n_sums=8, n_leaves=8, depth=3, n_repetitions=1).to_graph()
    x = torch.randn(2, 8)
    assert socratic.tdi(graph, x, masks="unit").method == "bounds"
    with pytest.raises(ValueError, match="these moments are bounds"):
        socratic.dropout_posterior(graph, x, masks="unit", method="expansion")


@pytest.mark.slow
@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_balanced_passes_are_closer(masks: str) -> None:
    graph = socratic.rat_spn(6, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2).double().to_graph()
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    truth = socratic.monte_carlo_dropout(graph, x, masks=masks, n_passes=3000, seed=99).mean
    errors = {}
    for balanced in (False, True):
        runs = [
            socratic.monte_carlo_dropout(graph, x, masks=masks, n_passes=31, balanced=balanced, seed=seed).mean
            for seed in range(8)
        ]
        errors[balanced] = float(torch.stack([(run - truth).abs().mean() for run in runs]).mean())
    assert errors[True] < 0.85 * errors[False]
