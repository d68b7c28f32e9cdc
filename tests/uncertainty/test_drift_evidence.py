"""The test martingale: as defined, fair, and quick to find changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from socratic.uncertainty.drift_evidence import N_BETS, Evidence, log_densities

LIMIT = math.log(100.0)


def wealth_by_definition(p_values: np.ndarray) -> list[float]:
    """What sleeps, and over all rows to wake at and all bets, the products of densities since then."""
    density = np.exp(log_densities(p_values))
    asleep = 1.0 / np.log2(np.arange(len(p_values) + 1) + 2.0)
    found = []
    for end in range(1, len(p_values) + 1):
        awake = sum((asleep[t] - asleep[t + 1]) * density[t:end].prod(0).mean() for t in range(end))
        found.append(math.log(asleep[end] + awake))
    return found


def test_every_bet_is_fair() -> None:
    u = (np.arange(20_000) + 0.5) / 20_000
    low, step = 0.5 * u**10, 5.0 * u**9 / len(u)  # fine near the ends, where some densities are infinite
    total = sum(np.exp(log_densities(p)).T @ step for p in (low, 1.0 - low))
    np.testing.assert_allclose(total, np.ones(N_BETS), atol=2e-3)


def test_wealth_is_as_defined() -> None:
    p_values = np.random.default_rng(0).beta(0.5, 1.0, size=60)
    evidence, found = Evidence(LIMIT), []
    for p_value in p_values:
        evidence.add(np.array([p_value]))
        found.append(evidence.log_wealth)
    np.testing.assert_allclose(found, wealth_by_definition(p_values), rtol=1e-9)
    assert evidence.peak == pytest.approx(max(found))
    assert evidence.alarm == next(row for row, log_wealth in enumerate(found) if log_wealth >= LIMIT)


def test_batches_make_no_difference() -> None:
    p_values = np.random.default_rng(1).random(500)
    p_values[300:] /= 3.0
    together, parts = Evidence(LIMIT), Evidence(LIMIT)
    together.add(p_values)
    for part in np.split(p_values, [0, 1, 7, 290, 320, 499]):
        parts.add(part)
    (bets, values), (others, known) = together.to_state(), parts.to_state()
    np.testing.assert_allclose(bets, others, rtol=1e-9)
    assert values == pytest.approx(known)
    assert together.alarm is not None
    assert 250 < (together.since or 0) < 350


def test_the_start_is_the_best_one_of_a_bet() -> None:
    p_values = np.random.default_rng(2).random(300)
    p_values[200:] **= 3.0
    evidence = Evidence(LIMIT)
    evidence.add(p_values)
    assert evidence.alarm is not None
    logs = log_densities(p_values[: evidence.alarm + 1])
    rows = np.arange(len(logs))
    asleep = 1.0 / np.log2(np.arange(len(logs) + 1) + 2.0)
    held = np.log(asleep[:-1] - asleep[1:])[:, None] + np.cumsum(logs[::-1], 0)[::-1]
    assert evidence.since == rows[np.unravel_index(held.argmax(), held.shape)[0]]
    assert evidence.rising


@pytest.mark.parametrize("p_value", [0.0, 1e-320, 1.0])
def test_extreme_p_values_are_finite(p_value: float) -> None:
    evidence = Evidence(LIMIT)
    evidence.add(np.full(100, p_value))
    assert math.isfinite(evidence.log_wealth)
    assert evidence.rising is (p_value < 0.5)
    evidence.add(np.empty(0))
    assert evidence.n_rows == 100


def test_less_unusual_rows_are_a_change_too() -> None:
    evidence = Evidence(LIMIT)
    evidence.add(np.random.default_rng(3).beta(3.0, 1.0, 200))
    assert evidence.alarm is not None
    assert evidence.rising is False


def test_uniform_p_values_raise_few_alarms() -> None:
    alarms = 0
    for seed in range(200):
        evidence = Evidence(math.log(10.0))  # one in ten is permitted
        evidence.add(np.random.default_rng(seed).random(1000))
        alarms += evidence.alarm is not None
    assert alarms <= 20
