"""Samples against exact probabilities, by tests whose p-values must be uniform over many seeds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

import socratic
from socratic.families import Binomial, Categorical, Gaussian
from socratic.memory import Budget
from tests.inference.queries.worlds import EVIDENCE, KINDS, PRIOR, make_world

N_SEEDS = 40


def assert_uniform(p_values: list[float]) -> None:
    """None is too small after Bonferroni's correction, and together they are spread evenly."""
    assert min(p_values) > 1e-3 / len(p_values)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def chi_square(counts: np.ndarray, probability: np.ndarray) -> float:
    """p-value of the counts; states of few expected draws are taken together."""
    expected = probability * counts.sum()
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    kept = expected > 0
    assert counts[~kept].sum() == 0
    return float(stats.chisquare(counts[kept], expected[kept] * counts.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("class_index", [None, 1])
def test_completions_have_the_conditional_probabilities(kind: str, class_index: int | None) -> None:
    world = make_world(kind, seed=2)
    prior = PRIOR if class_index is None else np.eye(2)[class_index]
    options = {"class_prior": PRIOR} if class_index is None else {"class_index": class_index}
    n_rows = 4  # the last row of evidence has nothing to draw
    p_values: list[list[float]] = [[] for _ in range(n_rows)]
    for seed in range(N_SEEDS):
        drawn = socratic.conditional_sample(world.circuit, EVIDENCE, 300, seed=seed, **options)
        assert drawn.x.shape == (len(EVIDENCE), 300, 4)
        assert torch.equal(drawn.x[-1], torch.as_tensor(EVIDENCE[-1]).expand(300, 4))
        for row in range(n_rows):
            counts = np.array([(drawn.x[row].numpy() == state).all(1).sum() for state in world.states])
            p_values[row].append(chi_square(counts, world.given(EVIDENCE[row], prior)))
    for of_row in p_values:
        assert_uniform(of_row)


def test_classes_come_from_their_posterior() -> None:
    world = make_world("all-pairs", seed=3)
    exact = socratic.expectation(world.circuit, EVIDENCE, class_prior=PRIOR).class_probabilities.numpy()
    p_values = []
    for seed in range(N_SEEDS):
        classes = socratic.conditional_sample(world.circuit, EVIDENCE, 300, class_prior=PRIOR, seed=seed).classes
        ones = classes.double().sum(1).int().tolist()
        p_values.append([stats.chisquare([300 - k, k], 300 * exact[row]).pvalue for row, k in enumerate(ones)])
    # Few counts make few different p-values: judge their size alone.
    assert np.min(p_values) > 1e-3 / np.size(p_values)


def test_gaussian_completions_follow_their_conditional_distribution() -> None:
    """Kolmogorov-Smirnov against the integral of the conditional density."""
    leaf = [Gaussian(), Categorical(3), Gaussian(0.01, 0.3), Binomial(5)]
    circuit = socratic.rat_spn(4, 2, n_sums=3, n_leaves=3, depth=2, n_repetitions=2, leaf=leaf, seed=1).double()
    evidence = np.array([[np.nan, 2.0, np.nan, 1.0], [np.nan, np.nan, 0.9, np.nan]])
    grid = np.linspace(-8, 8, 4001)
    for row, variable in [(0, 0), (0, 2), (1, 0)]:
        asked = np.full((len(grid), 4), np.nan)
        asked[:, variable] = grid
        density = socratic.conditional_log_likelihood(circuit, asked, evidence[[row]]).exp().detach().numpy()
        cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
        p_values = []
        for seed in range(N_SEEDS):
            drawn = socratic.conditional_sample(circuit, evidence[[row]], 500, seed=seed).x[0, :, variable]
            p_values.append(float(stats.kstest(drawn.numpy(), lambda v, c=cumulative: np.interp(v, grid, c)).pvalue))
        assert_uniform(p_values)


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
def test_samples_have_the_circuits_probabilities(product: str) -> None:
    """Chi-square over all states of a small discrete circuit, class by class."""
    leaf = ["bernoulli", Categorical(3), Binomial(2)]
    circuit = socratic.rat_spn(
        3, 2, n_sums=2, n_leaves=2, depth=2, n_repetitions=2, leaf=leaf, product=product
    ).double()
    states = np.array(list(itertools.product(range(2), range(3), range(3))))
    for class_index in range(2):
        expected = circuit.log_likelihood(states)[:, class_index].exp().detach().numpy()
        p_values = []
        for seed in range(N_SEEDS):
            rows = socratic.sample(circuit, 500, class_index=class_index, seed=seed).x.numpy()
            p_values.append(chi_square(np.array([(rows == state).all(1).sum() for state in states]), expected))
        assert_uniform(p_values)


def test_samples_depend_on_the_seed_alone() -> None:
    circuit = socratic.rat_spn(5, 2, n_sums=2, n_leaves=2, depth=2)
    assert torch.equal(socratic.sample(circuit, 4, seed=3).x, socratic.sample(circuit, 4, seed=3).x)
    assert not torch.equal(socratic.sample(circuit, 4, seed=3).x, socratic.sample(circuit, 4, seed=4).x)
    evidence = torch.full((3, 5), torch.nan)
    evidence[:, 0] = 0.5
    drawn = [socratic.conditional_sample(circuit, evidence, 2, seed=seed).x for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0][0], drawn[0][1])  # equal evidence, different draws
    assert torch.equal(drawn[0][..., 0], torch.full((3, 2), 0.5))


@pytest.mark.parametrize("kind", ["all-pairs", "two shapes", "graph"])
def test_draws_do_not_depend_on_how_many_are_made_at_a_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = make_world(kind, seed=2).circuit
    evidence = EVIDENCE.repeat(5, 0)
    whole = socratic.conditional_sample(circuit, evidence, 6, class_prior=PRIOR, seed=1)
    for chunk_size in (1, 4, 100):
        parts = socratic.conditional_sample(circuit, evidence, 6, class_prior=PRIOR, seed=1, chunk_size=chunk_size)
        assert torch.equal(parts.x, whole.x)
        assert torch.equal(parts.classes, whole.classes)
    fewer = socratic.conditional_sample(circuit, evidence[:8], 2, class_prior=PRIOR, seed=1)
    assert torch.equal(fewer.x, whole.x[:8, :2])
    drawn = socratic.sample(circuit, 50, seed=1)
    monkeypatch.setattr("socratic.inference.queries.sampling.rows_at_a_time", lambda *_: 7)
    assert torch.equal(socratic.sample(circuit, 50, seed=1).x, drawn.x)
    assert torch.equal(socratic.sample(circuit, 30, seed=1).x, drawn.x[:30])


def test_samples_have_the_asked_shapes_and_classes() -> None:
    circuit = socratic.rat_spn(5, 2, n_sums=2, n_leaves=2, depth=2)
    assert socratic.sample(circuit, 0).x.shape == (0, 5)
    drawn = socratic.sample(circuit, 3, class_index=torch.tensor([0, 1, 1]))
    assert drawn.x.shape == (3, 5)
    assert drawn.classes.tolist() == [0, 1, 1]
    assert socratic.sample(circuit, 500, class_prior=[0.0, 1.0]).classes.unique().tolist() == [1]
    assert socratic.conditional_sample(circuit, torch.zeros(2, 5), 0).x.shape == (2, 0, 5)
    with pytest.raises(ValueError, match="class_index must be between 0 and 1; got 2"):
        socratic.sample(circuit, 3, class_index=2)
    with pytest.raises(ValueError, match="n_samples must be a whole number of at least 0; got -1"):
        socratic.sample(circuit, -1)


@pytest.mark.parametrize("kind", ["all-pairs", "graph"])
def test_small_chunks_and_many_draws(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of every kind: rows in chunks, draws in blocks, sums in parts."""
    monkeypatch.setattr("socratic.memory._TERMS", Budget(64, 64))
    monkeypatch.setattr("socratic.inference.queries.sampling.rows_at_a_time", lambda *_: 7)
    world = make_world(kind, seed=2)
    drawn = socratic.conditional_sample(world.circuit, EVIDENCE.repeat(3, 0), 40, class_prior=PRIOR, chunk_size=2)
    assert not drawn.x.isnan().any()
    known = torch.as_tensor(EVIDENCE.repeat(3, 0)).unsqueeze(1).expand_as(drawn.x)
    assert torch.equal(drawn.x[~known.isnan()], known[~known.isnan()])
    counts = np.array([(drawn.x[3:6].flatten(0, 1).numpy() == state).all(1).sum() for state in world.states])
    assert chi_square(counts, world.given(EVIDENCE[1], PRIOR)) > 1e-3
