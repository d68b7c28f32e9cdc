"""Rows are left unanswered so that of the others no more than a chosen share is wrong."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest

from socratic.uncertainty.ambiguity import CONFIDENCE, Ambiguity, error_bound, needed_rows
from socratic.uncertainty.conformal import Conformal


def smallest_risk(confidence: np.ndarray, correct: np.ndarray, asked: float) -> float:
    """The same by trying every threshold that answers the row."""
    below = confidence[confidence < asked]
    found = []
    for threshold in (-np.inf, asked, *below, *np.nextafter(below, 2.0)):
        answered = confidence >= threshold
        errors = np.array([float((answered & ~correct).sum())])
        found.append(float(error_bound(errors, np.array([float(answered.sum())]), len(confidence))[0]))
    return min(found)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_risks_are_those_of_the_best_threshold(seed: int, tied: bool) -> None:
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.5, 1.0, rng.integers(1, 40))
    confidence = confidence.round(1) if tied else confidence
    correct = rng.random(len(confidence)) < confidence
    asked = np.concatenate([confidence, rng.uniform(0.4, 1.1, 20), [0.0, 1.0]])
    expected = [smallest_risk(confidence, correct, each) for each in asked]
    np.testing.assert_allclose(Ambiguity.fit(confidence, correct).risk(asked), expected, rtol=1e-14)


def test_by_hand() -> None:
    """Without errors the bound for k rows is the r with (1 - r)^k = .1; all ten are surer than one that was wrong."""
    ambiguity = Ambiguity.fit(np.linspace(0.5, 1.0, 11), np.arange(11) > 0)
    expected = 1.0 - 0.1 ** (1 / 10)
    np.testing.assert_allclose(ambiguity.risk([0.51, 0.55, 0.9, 1.0, 2.0]), expected)
    assert ambiguity.smallest_risk() == pytest.approx(expected)
    assert ambiguity.risk([0.5, 0.1])[0] == ambiguity.risk([0.1])[0] > expected
    assert ambiguity.risk([np.nan]).tolist() == [1.0]
    assert ambiguity.answered(0.25) == (10 / 11, 0.0)
    assert ambiguity.answered(0.2) is None


@pytest.mark.parametrize(("risk", "n_rows"), [(0.05, 45), (0.01, 230), (0.1, 22), (0.5, 4)])
def test_so_many_rows_are_needed(risk: float, n_rows: int) -> None:
    assert needed_rows(risk) == n_rows
    smallest = [Ambiguity.fit(np.arange(n) / n, np.ones(n, dtype=bool)).smallest_risk() for n in (n_rows - 1, n_rows)]
    assert smallest[0] > risk >= smallest[1]


def test_many_rows_are_tried_some_at_a_time() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.uniform(size=5000)
    correct = rng.random(5000) < confidence**0.3
    found = Ambiguity.fit(confidence, correct).risk(confidence)
    order = np.argsort(confidence)
    assert (np.diff(found[order]) <= 0).all()
    told = Ambiguity.fit(confidence, correct).answered(0.1)
    bound = error_bound(np.cumsum(~correct[order][::-1]).astype(float), np.arange(1.0, 5001.0), 5000.0)
    largest = np.flatnonzero(bound <= 0.1).max() + 1
    assert told is not None
    assert largest - 10 <= told.coverage * 5000 <= largest


def test_unfamiliar_rows_do_not_count() -> None:
    confidence, correct = np.array([0.6, 0.7, 0.8, 0.9]), np.array([True, False, True, False])
    ambiguity = Ambiguity.fit(confidence, correct, p_value=[0.5, 0.04, 0.5, 0.05])
    asked = np.linspace(0.5, 1.0, 11)
    np.testing.assert_array_equal(
        ambiguity.risk(asked, rate=0.05), Ambiguity.fit(confidence[[0, 2]], correct[[0, 2]]).risk(asked)
    )
    np.testing.assert_array_equal(ambiguity.risk(asked), Ambiguity.fit(confidence, correct).risk(asked))


def test_without_calibration_rows_everything_is_ambiguous() -> None:
    nothing = Ambiguity.fit([], np.array([], dtype=bool))
    assert nothing.risk([0.0, 0.5, 1.0]).tolist() == [1.0, 1.0, 1.0]
    assert nothing.smallest_risk() == 1.0
    assert nothing.answered(0.9) is None


def test_one_threshold_for_all_rows_if_no_row_is_surer_than_another() -> None:
    risks = Ambiguity.fit(np.full(39, 0.8), np.arange(39) > 0).risk([0.1, 0.8, 0.9])
    assert risks[0] == risks[1] < 0.15
    assert risks[2] == risks[1]
    assert Ambiguity.fit([0.5, 0.6], [False, False]).risk([0.5, 0.6]).tolist() == [1.0, 1.0]


def test_only_proportions_of_weights_matter_and_weight_0_counts_nothing() -> None:
    rng = np.random.default_rng(0)
    confidence, asked = rng.uniform(size=50), rng.uniform(size=20)
    correct, weight = rng.random(50) < confidence, rng.uniform(0.1, 2.0, 50)
    weighted = Ambiguity.fit(confidence, correct, weight).risk(asked)
    np.testing.assert_allclose(Ambiguity.fit(confidence, correct, 7.0 * weight).risk(asked), weighted, rtol=1e-12)
    equal = Ambiguity.fit(confidence, correct, np.full(50, 3.0)).risk(asked)
    np.testing.assert_allclose(equal, Ambiguity.fit(confidence, correct).risk(asked), rtol=1e-12)
    kept = Ambiguity.fit(confidence[:30], correct[:30]).risk(asked)
    some = Ambiguity.fit(confidence, correct, np.repeat([1.0, 0.0], [30, 20])).risk(asked)
    np.testing.assert_allclose(some, kept, rtol=1e-12)


@pytest.mark.parametrize("risk", [0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("n_rows", [20, 40, 80, 170, 400, 2000])
def test_the_bound_holds_for_all_numbers_of_rows_at_once(n_rows: int, risk: float) -> None:
    """The probability that rows wrong with a probability ``risk`` have a lower bound for some number of them.

    It is computed exactly, row by row: ``left[e]`` is the probability of e errors and no such bound so far.
    """
    left, failed, n_low = np.eye(n_rows + 1)[0], 0.0, 0  # n_low: with fewer errors than that, the bound is too low
    for k in range(1, n_rows + 1):
        left = left * (1.0 - risk) + np.append(0.0, left[:-1]) * risk
        while error_bound(np.array([float(n_low)]), np.array([float(k)]), float(n_rows))[0] < risk:
            n_low += 1
        failed += left[:n_low].sum()
        left[:n_low] = 0.0
    assert failed <= 1.0 - CONFIDENCE
    if n_rows * risk > 8:
        assert failed >= 0.05  # and it is not held by being too wide


@pytest.mark.parametrize("n_rows", [60, 600])
@pytest.mark.parametrize("sharpness", [0.5, 1.0, 4.0])
def test_the_promise_is_kept(n_rows: int, sharpness: float) -> None:
    """A row is wrong with a probability of .4 (1 - c)^sharpness at a confidence c, spread evenly over [0, 1].

    Above a threshold of 1 - s the error is .4 s^sharpness / (sharpness + 1).
    """
    rng, risk, errors = np.random.default_rng(n_rows), 0.1, []
    for _ in range(100):
        confidence = rng.uniform(size=n_rows)
        correct = rng.random(n_rows) >= 0.4 * (1.0 - confidence) ** sharpness
        grid = np.linspace(0.0, 1.0, 1001)
        answered = Ambiguity.fit(confidence, correct).risk(grid) <= risk
        share = 1.0 - grid[answered].min(initial=1.0)
        errors.append(0.4 * share**sharpness / (sharpness + 1.0))
    kept = np.mean(np.array(errors) <= risk)
    assert kept >= CONFIDENCE - 3 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / len(errors))
    if n_rows == 600 and sharpness >= 1.0:
        assert np.mean(errors) > 0.4 * risk  # and it is not kept by answering nothing


def test_the_promise_is_kept_among_familiar_rows() -> None:
    """Surest rows are the most unusual ones here, and wrong half the time: they are refused, and do not count."""
    rng, risk, errors = np.random.default_rng(1), 0.1, []
    for _ in range(200):
        confidence = rng.uniform(size=400)
        wrong = np.where(confidence > 0.9, 0.5, 0.3 * (0.9 - confidence))
        correct = rng.random(400) >= wrong
        p_value = Conformal.fit(confidence).p_value(confidence)
        ambiguity = Ambiguity.fit(confidence, correct, p_value=p_value)
        grid = np.linspace(0.0, 1.0, 1001)
        answered = (ambiguity.risk(grid, rate=0.1) <= risk) & (Conformal.fit(confidence).p_value(grid) > 0.1)
        chance = np.where(grid > 0.9, 0.5, 0.3 * (0.9 - grid))
        errors.append(chance[answered].mean() if answered.any() else 0.0)
    assert np.mean(np.array(errors) <= risk) >= CONFIDENCE - 0.05


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 0.6], [1, 0]), r"correct must hold a boolean for each of 2 rows; got int64 of shape \(2,\)"),
        (([0.5, 0.6], [True]), r"correct must hold a boolean for each of 2 rows; got bool of shape \(1,\)"),
        (([0.5, np.nan], [True, True]), "confidence must hold no NaN; got 1 among 2 numbers"),
        (([0.5], [True], [-1.0]), "the weights of confidence must be finite and at least 0"),
        (([0.5], [True], None, [0.1, 0.2]), r"p_value must hold a number for each of 1 rows; got shape \(2,\)"),
    ],
)
def test_what_cannot_be_calibrated_on(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Ambiguity.fit(*arguments)


def test_it_is_what_it_was_made_of() -> None:
    ambiguity = Ambiguity.fit([0.9, 0.5], [True, False], [1.0, 3.0], [0.2, 0.6])
    again = Ambiguity.fit(*(getattr(ambiguity, name) for name in ("confidence", "correct", "weight", "p_value")))
    for one, other in zip(astuple(ambiguity), astuple(again), strict=True):
        np.testing.assert_array_equal(one, other)
