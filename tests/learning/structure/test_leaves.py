"""Leaves: maximum likelihood, kept sane by the whole column."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian
from socratic.learning.structure.leaves import LeafFitter

FAMILIES: list[Family] = [Gaussian(), Bernoulli(), Categorical(3), Binomial(4)]
WHOLE = np.array([[0.0, 0, 0, 0], [10.0, 1, 1, 4], [np.nan, np.nan, np.nan, np.nan], [20.0, 1, 1, 2]])


def fitter(smoothing: float = 1.0, min_variance: float = 0.01) -> LeafFitter:
    return LeafFitter(WHOLE, FAMILIES, min_variance=min_variance, smoothing=smoothing)


def test_known_values_are_fitted() -> None:
    values = np.array([4.0, np.nan, 8.0])
    assert fitter().fit(values, 0).distribution == Gaussian.of(6.0, 4.0)
    assert fitter(smoothing=0.0).fit(np.array([1, 1, 0, np.nan, 1]), 1).distribution == Bernoulli.of(0.75)
    assert fitter(smoothing=0.0).fit(np.array([2, 2, 0, 1]), 2).distribution == Categorical.of((0.25, 0.25, 0.5))
    assert fitter(smoothing=0.0).fit(np.array([4.0, 1.0, np.nan]), 3).distribution == Binomial.of(4, 0.625)


def test_smoothing_adds_rows_like_the_whole_column() -> None:
    found = fitter(smoothing=2.0).fit(np.array([0.0, 0.0]), 2).distribution
    # The whole column has the counts 1, 2, 0, and 1 is added to each.
    np.testing.assert_allclose(found.parameters["probabilities"], np.array([2 + 2 / 3, 1, 1 / 3]) / 4)


def test_variances_have_a_floor_relative_to_the_column() -> None:
    found = fitter().fit(np.array([3.0, 3.0]), 0).distribution
    assert found.parameters["variance"] == pytest.approx(0.01 * np.array([0.0, 10.0, 20.0]).var())


def test_outliers_do_not_set_the_floor() -> None:
    values = np.append(np.random.default_rng(0).normal(size=500), 1e9)
    leaves = LeafFitter(values[:, None], [Gaussian()], min_variance=0.01, smoothing=1.0)
    found = leaves.fit(np.zeros(3), 0).distribution
    assert 0.005 < found.parameters["variance"] < 0.015


@pytest.mark.parametrize("column", range(4))
def test_nothing_known_means_the_whole_column(column: int) -> None:
    assert fitter().fit(np.array([np.nan]), column) is not None
    everything = fitter(smoothing=0.0).fit(np.array([np.nan]), column).distribution
    likely = fitter(smoothing=1e12).fit(WHOLE[:, column], column).distribution
    if everything.family.name != "gaussian":
        assert everything.log_density(1.0) == pytest.approx(likely.log_density(1.0))
    else:
        assert everything.parameters == {"mean": 10.0, "variance": pytest.approx(200 / 3)}


def test_constant_and_empty_columns_have_unit_scale() -> None:
    x = np.column_stack([np.full(9, 0.1 + 0.2), np.full(9, np.nan)])
    leaves = LeafFitter(x, [Gaussian()] * 2, min_variance=0.01, smoothing=1.0)
    assert leaves.fit(x[:, 0], 0).distribution.parameters == {"mean": pytest.approx(0.3), "variance": 0.01}
    assert leaves.fit(x[:, 1], 1).distribution == Gaussian.of(0.0, 1.0)


def test_mixtures_are_preferred_where_there_are_two_clusters() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=400), np.concatenate([rng.normal(size=200), 6 + rng.normal(size=200)])
    leaves = LeafFitter(np.column_stack([one, two]), [Gaussian()] * 2, min_variance=0.01, smoothing=1.0)
    assert not leaves.prefers_mixture(one, (one > 0).astype(int), 0)
    assert leaves.prefers_mixture(two, (two > 3).astype(int), 1)
    assert not leaves.prefers_mixture(two, np.zeros(400, dtype=int), 1)
    counts = rng.binomial(20, np.where(rng.random(400) < 0.5, 0.1, 0.8))
    whole = LeafFitter(counts[:, None].astype(float), [Binomial(20)], min_variance=0.01, smoothing=1.0)
    assert whole.prefers_mixture(counts.astype(float), (counts > 9).astype(int), 0)
    even = rng.binomial(20, 0.5, 400).astype(float)
    assert not whole.prefers_mixture(even, (even > 9).astype(int), 0)


@pytest.mark.parametrize("unit", [1e-30, 1e-15, 1.0, 1e100])
def test_a_column_is_constant_relative_to_its_values(unit: float) -> None:
    values = unit * np.array([1.0, 2.0, 3.0])
    whole = np.stack([values, np.full(3, 0.1 * unit)], axis=1)
    varied, constant = (
        LeafFitter(whole, [Gaussian()] * 2, min_variance=0.01, smoothing=1.0).fit(whole[:, column], column).distribution
        for column in (0, 1)
    )
    # No smaller than the smallest variance of a graph.
    smallest = 2.0**-126
    assert varied.parameters["mean"] == pytest.approx(2 * unit)
    assert varied.parameters["variance"] == pytest.approx(max(2 / 3 * unit**2, smallest))
    assert constant.parameters == {"mean": pytest.approx(0.1 * unit), "variance": 0.01}
