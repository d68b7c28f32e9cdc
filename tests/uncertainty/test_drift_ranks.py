"""Ranks among all scores so far: as defined, uniform and independent, whatever the scores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from socratic.uncertainty.drift_ranks import Ranks


def by_definition(start: np.ndarray, scores: np.ndarray, uniform: np.ndarray) -> list[float]:
    """P-values by comparing every score with all before it."""
    known, found = [-np.inf if np.isnan(score) else score for score in start], []
    for score, u in zip(np.where(np.isnan(scores), -np.inf, scores), uniform, strict=True):
        above, equal = (sum(compare(other, score) for other in known) for compare in (np.greater, np.equal))
        found.append((above + u * (equal + 1)) / (len(known) + 1))
        known.append(score)
    return found


@pytest.mark.parametrize("n_start", [0, 1, 40])
def test_p_values_are_as_defined(n_start: int) -> None:
    rng = np.random.default_rng(n_start)
    values = np.array([-np.inf, -1e9, -2.0, -1e-300, -0.0, 0.0, 1e-12, 1.0, 1.5, 700.0, np.inf, np.nan])
    values[0] = -1e12  # minus infinity and missing are told apart, which the definition here does not
    start, scores, u = rng.choice(values, n_start), rng.choice(values, 400), rng.random(400)
    np.testing.assert_allclose(Ranks(start).p_values(scores, u), by_definition(start, scores, u))


def test_a_missing_value_is_below_all_others() -> None:
    ranks = Ranks(np.array([-np.inf]))
    assert ranks.p_values(np.array([np.nan]), np.array([0.0])).tolist() == [0.5]  # one is above it, of two


def test_the_order_of_numbers_is_kept() -> None:
    numbers = np.sort(np.concatenate([sign * 10.0 ** np.arange(-300, 300, 0.01) for sign in (-1, 1)]))
    assert (np.diff(Ranks(numbers).places) > 0).all()
    assert len(Ranks(numbers).places) == len(numbers)


def test_batches_make_no_difference() -> None:
    rng = np.random.default_rng(0)
    scores, u = rng.normal(size=1000), rng.random(1000)
    whole, parts = Ranks(scores[:50]), Ranks(scores[:50])
    together = whole.p_values(scores, u)
    split = [parts.p_values(scores[a:b], u[a:b]) for a, b in itertools.pairwise([0, 0, 1, 130, 131, 999, 1000])]
    np.testing.assert_array_equal(together, np.concatenate(split))
    np.testing.assert_array_equal(whole.places, parts.places)
    np.testing.assert_array_equal(whole.counts, parts.counts)
    assert whole.n_scores == 1050


def test_memory_is_bounded() -> None:
    ranks = Ranks(np.empty(0))
    for seed in range(10):
        scores = np.random.default_rng(seed).gamma(5.0, size=20_000)
        ranks.p_values(scores, np.zeros(20_000))
    assert ranks.n_scores == 200_000
    assert len(ranks.places) < 12_000  # about a thousand for each doubling


@pytest.mark.parametrize("tied", [False, True])
def test_p_values_are_uniform_and_independent_with_three_calibration_rows(tied: bool) -> None:
    rng = np.random.default_rng(5)
    found = []
    for _ in range(1800):
        scores = rng.exponential(size=5)
        scores = np.floor(2 * scores) if tied else scores
        found.append(Ranks(scores[:3]).p_values(scores[3:], rng.random(2)))
    first, second = np.array(found).T
    counts = np.histogram2d(first, second, 3, [[0, 1], [0, 1]])[0]
    expected = 1800 / 9
    assert ((counts - expected) ** 2 / expected).sum() < 26.1  # chi-squared of 8 degrees, one time in a thousand
