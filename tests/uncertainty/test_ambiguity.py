"""Rows are left unanswered so that of the others no more than a chosen share is wrong."""

from __future__ import annotations

from dataclasses import astuple
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from socratic.uncertainty.ambiguity import Ambiguity, familiar_rows_needed
from socratic.uncertainty.conformal import Conformal, rows_needed


def smallest_risk(confidence: np.ndarray, correct: np.ndarray, asked: float) -> float:
    """The same by trying every threshold that answers the row."""
    below = confidence[confidence < asked]
    found = []
    for threshold in (-np.inf, asked, *below, *np.nextafter(below, 2.0)):
        answered = confidence >= threshold
        found.append((1 + int((answered & ~correct).sum())) / (1 + int(answered.sum())))
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
    """All of ten rows are surer than one that was wrong."""
    ambiguity = Ambiguity.fit(np.linspace(0.5, 1.0, 11), np.arange(11) > 0)
    np.testing.assert_allclose(ambiguity.risk([0.51, 0.55, 0.9, 1.0, 2.0]), 1 / 11)
    assert ambiguity.smallest_risk() == pytest.approx(1 / 11)
    np.testing.assert_allclose(ambiguity.risk([0.5, 0.1]), 2 / 12)
    assert ambiguity.risk([np.nan]).tolist() == [1.0]
    assert ambiguity.answered(0.2) == (1.0, 1 / 11)
    assert ambiguity.answered(0.1) == (10 / 11, 0.0)
    assert ambiguity.answered(0.09) is None


@pytest.mark.parametrize(("risk", "n_rows"), [(0.05, 19), (0.01, 99), (0.1, 9), (0.5, 1), (0.3, 3)])
def test_so_many_rows_are_needed(risk: float, n_rows: int) -> None:
    assert rows_needed(risk) == n_rows
    smallest = [Ambiguity.fit(np.arange(n) / n, np.ones(n, dtype=bool)).smallest_risk() for n in (n_rows - 1, n_rows)]
    assert smallest[0] > risk >= smallest[1]


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
    assert risks.tolist() == [0.05, 0.05, 0.05]
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


def all_counts(n_rows: int, n_kinds: int) -> np.ndarray:
    """Every way (M, n_kinds) to divide rows among kinds."""
    bars = np.array(list(combinations(range(n_rows + n_kinds - 1), n_kinds - 1)))
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n_rows + n_kinds - 1)])
    return np.diff(edges) - 1


@pytest.mark.parametrize("shape", ["surer is better", "surer is worse", "equal", "any"])
@pytest.mark.parametrize(("n_rows", "risk"), [(4, 0.3), (7, 0.3), (7, 0.2), (9, 0.45)])
def test_the_mean_error_is_at_most_the_risk_by_enumeration(n_rows: int, risk: float, shape: str) -> None:
    """Rows of three confidences, right or wrong: the mean over all calibrations, each as often as it occurs."""
    rng, largest = np.random.default_rng(n_rows), 0.0
    confidence, correct = np.repeat([0.5, 0.7, 0.9], 2), np.tile([True, False], 3)
    counts = all_counts(n_rows, 6)
    ways = np.array([factorial(n_rows) / np.prod([factorial(count) for count in each]) for each in counts])
    answered = np.array([
        Ambiguity.fit(np.repeat(confidence, each), np.repeat(correct, each)).risk(confidence[::2]) <= risk
        for each in counts
    ])  # fmt: skip
    for _ in range(30):
        share, wrong = rng.dirichlet(np.ones(3)), rng.uniform(0.0, 2.0 * risk, 3)
        if shape != "any":
            wrong = {"equal": np.full(3, wrong[0]), "surer is better": -np.sort(-wrong)}.get(shape, np.sort(wrong))
        chance = np.stack([share * (1.0 - wrong), share * wrong], 1).ravel()
        happens = ways * np.prod(chance**counts, 1)
        assert happens.sum() == pytest.approx(1.0)
        errors = answered @ (share * wrong) / np.maximum(answered @ share, 1e-300)
        largest = max(largest, float(happens @ errors))
    assert largest <= risk
    assert largest > 0.25 * risk  # and it is not kept by answering nothing


@pytest.mark.parametrize("n_rows", [60, 600])
@pytest.mark.parametrize("sharpness", [0.5, 1.0, 4.0])
def test_the_promise_is_kept(n_rows: int, sharpness: float) -> None:
    """A row is wrong with a probability of .4 (1 - c)^sharpness at a confidence c, spread evenly over [0, 1].

    Above a threshold of 1 - s the error is .4 s^sharpness / (sharpness + 1).
    """
    rng, risk, errors = np.random.default_rng(n_rows), 0.1, []
    for _ in range(400):
        confidence = rng.uniform(size=n_rows)
        correct = rng.random(n_rows) >= 0.4 * (1.0 - confidence) ** sharpness
        grid = np.linspace(0.0, 1.0, 1001)
        answered = Ambiguity.fit(confidence, correct).risk(grid) <= risk
        share = 1.0 - grid[answered].min(initial=1.0)
        errors.append(0.4 * share**sharpness / (sharpness + 1.0))
    assert np.mean(errors) <= risk + 3 * np.std(errors) / np.sqrt(len(errors))
    if n_rows == 600:
        assert np.mean(errors) > 0.75 * risk  # and it is not kept by answering nothing


def test_the_promise_is_kept_among_familiar_rows() -> None:
    """Surest rows are the most unusual ones here, and wrong half the time: they are refused, and do not count."""
    rng, risk, errors = np.random.default_rng(1), 0.1, []
    for _ in range(400):
        confidence = rng.uniform(size=400)
        wrong = np.where(confidence > 0.9, 0.5, 0.3 * (0.9 - confidence))
        correct = rng.random(400) >= wrong
        p_value = Conformal.fit(confidence).p_value(confidence)
        ambiguity = Ambiguity.fit(confidence, correct, p_value=p_value)
        grid = np.linspace(0.0, 1.0, 1001)
        answered = (ambiguity.risk(grid, rate=0.1) <= risk) & (Conformal.fit(confidence).p_value(grid) > 0.1)
        chance = np.where(grid > 0.9, 0.5, 0.3 * (0.9 - grid))
        errors.append(chance[answered].mean() if answered.any() else 0.0)
    assert np.mean(errors) <= risk + 3 * np.std(errors) / np.sqrt(len(errors))


def answered_by_search(ambiguity: Ambiguity, asked: np.ndarray, risk: float, start: int, level: float) -> np.ndarray:
    """Which rows (N,) one search answers, set by set as it is described."""
    answered = np.zeros(len(asked), dtype=bool)
    enough = int(np.argmax(binom.cdf(start, np.arange(2000), risk) <= level))
    thresholds = np.unique(ambiguity.confidence)[::-1]
    for place, threshold in enumerate(thresholds):
        inside = ambiguity.confidence >= threshold
        n_rows, n_wrong = int(inside.sum()), int((inside & ~ambiguity.correct).sum())
        if n_rows < enough:
            continue
        if not (n_wrong <= start or (answered.any() and binom.cdf(n_wrong, n_rows, risk) <= level)):
            break
        answered |= asked > (thresholds[place + 1] if place + 1 < len(thresholds) else -np.inf)
    return answered


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("n_rows", "start"), [(70, 0), (200, 1), (500, 3), (1600, 8)])
def test_risks_with_a_confidence_are_those_of_the_search_or_of_all_rows(n_rows: int, start: int, tied: bool) -> None:
    rng = np.random.default_rng(n_rows)
    for sharpness in (0.3, 1.0, 4.0):
        confidence = rng.uniform(size=n_rows)
        confidence = confidence.round(1) if tied else confidence
        correct = rng.random(n_rows) >= 0.4 * (1.0 - confidence) ** sharpness
        ambiguity, asked = Ambiguity.fit(confidence, correct), np.append(confidence, [-1.0, 0.5, 2.0])
        risks = ambiguity.risk(asked, risk_confidence=0.9)
        for risk in (0.03, 0.06, 0.1, 0.2, 0.35, 0.6):
            level = 0.05 if start else 0.1
            expected = answered_by_search(ambiguity, asked, risk, start, level)
            all_pass = bool(start) and binom.cdf((~correct).sum(), n_rows, risk) <= level
            np.testing.assert_array_equal(risks <= risk, expected | all_pass)


def test_a_confidence_by_hand() -> None:
    """Of 60 rows without an error, 45 would do for a risk of 5 %: 0.95^45 < 0.1 < 0.95^44."""
    ambiguity = Ambiguity.fit(np.arange(60) / 60, np.ones(60, dtype=bool))
    np.testing.assert_allclose(ambiguity.risk([-1.0, 0.5, 2.0], risk_confidence=0.9), 1.0 - 0.1 ** (1 / 60))
    assert ambiguity.smallest_risk(risk_confidence=0.99) == pytest.approx(1.0 - 0.01 ** (1 / 60))
    assert ambiguity.answered(0.05, risk_confidence=0.9) == (1.0, 0.0)
    assert ambiguity.answered(0.05, risk_confidence=0.99) is None
    assert ambiguity.risk([np.nan], risk_confidence=0.9).tolist() == [1.0]
    assert Ambiguity.fit([], np.array([], dtype=bool)).smallest_risk(risk_confidence=0.9) == 1.0
    assert Ambiguity.fit([0.5, 0.6], [False, False]).risk([0.6], risk_confidence=0.9).tolist() == [1.0]


@pytest.mark.parametrize(
    ("risk", "confidence", "n_rows"), [(0.05, 0.9, 45), (0.05, None, 19), (0.01, 0.9, 299), (0.3, 0.99, 13)]
)
def test_so_many_rows_are_needed_for_a_confidence(risk: float, confidence: float | None, n_rows: int) -> None:
    assert familiar_rows_needed(risk, confidence) == n_rows
    enough = [
        Ambiguity.fit(np.arange(n) / n, np.ones(n, dtype=bool)).smallest_risk(risk_confidence=confidence) <= risk
        for n in (n_rows - 1, n_rows)
    ]
    assert enough == [False, True]


@pytest.mark.parametrize("shape", ["surer is better", "surer is worse", "equal", "any"])
@pytest.mark.parametrize(("n_rows", "risk", "confidence"), [(7, 0.3, 0.7), (9, 0.45, 0.9), (11, 0.3, 0.8)])
def test_so_many_calibrations_keep_the_risk_by_enumeration(
    n_rows: int, risk: float, confidence: float, shape: str
) -> None:
    """Rows of three confidences, so that most are tied: the chance of a calibration that answers with more errors."""
    rng, largest = np.random.default_rng(n_rows), 0.0
    values, correct = np.repeat([0.5, 0.7, 0.9], 2), np.tile([True, False], 3)
    counts = all_counts(n_rows, 6)
    ways = np.array([factorial(n_rows) / np.prod([factorial(count) for count in each]) for each in counts])
    answered = np.array([
        Ambiguity.fit(np.repeat(values, each), np.repeat(correct, each)).risk(values[::2], 0.0, confidence) <= risk
        for each in counts
    ])  # fmt: skip
    for _ in range(60):
        share, wrong = rng.dirichlet(np.ones(3)), rng.uniform(0.0, 2.0 * risk, 3)
        if shape != "any":
            wrong = {"equal": np.full(3, wrong[0]), "surer is better": -np.sort(-wrong)}.get(shape, np.sort(wrong))
        chance = np.stack([share * (1.0 - wrong), share * wrong], 1).ravel()
        happens = ways * np.prod(chance**counts, 1)
        errors = answered @ (share * wrong) / np.maximum(answered @ share, 1e-300)
        largest = max(largest, float(happens[errors > risk * (1.0 + 1e-12)].sum()))
    assert largest <= 1.0 - confidence
    assert shape == "surer is worse" or largest > 0.25 * (1.0 - confidence)  # it is not kept by answering nothing


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("n_rows", [60, 200, 600])
@pytest.mark.parametrize("sharpness", [0.5, 1.0, 4.0])
def test_the_promise_with_a_confidence_is_kept(n_rows: int, sharpness: float, repeated: bool) -> None:
    """As below, and also where a quarter of the rows have one confidence of ten."""
    rng, risk, broken, shares = np.random.default_rng(n_rows), 0.1, [], []
    fresh = rng.uniform(size=20_000)
    fresh = np.where(rng.random(len(fresh)) < 0.25, fresh.round(1), fresh) if repeated else fresh
    chance = 0.4 * (1.0 - fresh) ** sharpness
    for _ in range(300):
        confidence = rng.choice(fresh, n_rows)
        correct = rng.random(n_rows) >= 0.4 * (1.0 - confidence) ** sharpness
        answered = Ambiguity.fit(confidence, correct).risk(fresh, risk_confidence=0.9) <= risk
        shares.append(answered.mean())
        broken.append(bool(answered.any()) and chance[answered].mean() > risk)
    assert np.mean(broken) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / len(broken))
    if n_rows == 600 and sharpness >= 1.0:
        assert np.mean(shares) > 0.4 * (chance[np.argsort(-fresh)].cumsum() <= risk * np.arange(1, 20_001)).mean()


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
