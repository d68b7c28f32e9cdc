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


@pytest.mark.parametrize("scores", [(1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 1.0, 2.0, 2.0, 2.0), (7.0,) * 5])
def test_over_all_orders_p_values_are_exactly_uniform_and_independent(scores: tuple[float, ...]) -> None:
    """Of two calibration rows and three new ones: every box of a grid has the probability of its volume."""
    edges = np.linspace(0.0, 1.0, 7)
    total, orders = np.zeros((6, 6, 6)), list(itertools.permutations(scores))
    for order in orders:
        start, new = np.array(order[:2]), np.array(order[2:])
        # A p-value is uniform between what it is for u = 0 and for u = 1.
        low, high = (Ranks(start).p_values(new, np.full(3, u)) for u in (0.0, 1.0))
        inside = np.diff(np.clip((edges - low[:, None]) / (high - low)[:, None], 0.0, 1.0))
        total += np.einsum("i,j,k->ijk", *inside) / len(orders)
    np.testing.assert_allclose(total, 1.0 / 6**3, rtol=1e-12)


def test_damaged_places_are_refused() -> None:
    with pytest.raises(ValueError, match="ascending places, each with a count above 0"):
        Ranks.restored(np.array([2, 1]), np.array([1, 1]))
