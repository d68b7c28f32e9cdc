"""Rows are left unanswered so that of the others no more than a chosen share is wrong."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from socratic.uncertainty.ambiguity import Ambiguity


def smallest_risk(confidence: np.ndarray, correct: np.ndarray, asked: float) -> float:
    """The same by trying every threshold that answers the row."""
    thresholds = [-np.inf, asked, *confidence[confidence < asked], *np.nextafter(confidence[confidence < asked], 2.0)]
    return min(
        ((~correct & (confidence >= threshold)).sum() + 1) / ((confidence >= threshold).sum() + 1)
        for threshold in thresholds
    )


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
    ambiguity = Ambiguity.fit([0.5, 0.6, 0.7, 0.8, 0.9], [False, False, True, True, True])
    assert ambiguity.risk([0.5, 0.55, 0.6, 0.65, 0.7, 0.9]).tolist() == [3 / 6, 2 / 5, 2 / 5, 1 / 4, 1 / 4, 1 / 4]
    assert ambiguity.risk([0.99, 0.1, np.nan]).tolist() == [1 / 4, 3 / 6, 1.0]
    assert ambiguity.smallest_risk() == 1 / 4
    told = ambiguity.answered(0.4)
    assert told is not None
    assert (told.coverage, told.error) == (4 / 5, 1 / 4)
    assert ambiguity.answered(0.2) is None


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
    ambiguity = Ambiguity.fit(np.full(39, 0.8), np.arange(39) > 0)
    assert ambiguity.risk([0.1, 0.8, 0.9]).tolist() == [0.05, 0.05, 0.05]


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


@pytest.mark.parametrize("n_wrong", [0, 1, 7, 60])
def test_bounds_are_those_of_the_binomial(n_wrong: int) -> None:
    told = Ambiguity.fit(np.full(60, 0.9), np.arange(60) >= n_wrong).answered(1.0)
    assert told is not None
    assert (told.coverage, told.error) == (1.0, n_wrong / 60)
    if n_wrong:
        assert binom.sf(n_wrong - 1, 60, told.low) == pytest.approx(0.025)
    else:
        assert told.low == 0.0
    if n_wrong < 60:
        assert binom.cdf(n_wrong, 60, told.high) == pytest.approx(0.025)
    else:
        assert told.high == 1.0


@pytest.mark.parametrize("n_rows", [19, 40, 300])
@pytest.mark.parametrize("sharpness", [1.0, 4.0])
def test_the_promise_is_kept(n_rows: int, sharpness: float) -> None:
    """A row is wrong with a probability of .4 (1 - c)^sharpness at a confidence c, spread evenly over [0, 1].

    The share of rows answered wrongly, divided by that of calibration rows answered, is at most the risk on average.
    """
    rng, risk, found = np.random.default_rng(n_rows), 0.1, []
    for _ in range(1500):
        confidence = rng.uniform(size=n_rows)
        correct = rng.random(n_rows) >= 0.4 * (1.0 - confidence) ** sharpness
        grid = (np.arange(2000) + 0.5) / 2000
        answered = Ambiguity.fit(confidence, correct).risk(grid) <= risk
        n_answered = (Ambiguity.fit(confidence, correct).risk(confidence) <= risk).sum()
        wrong = (0.4 * (1.0 - grid) ** sharpness * answered).mean()
        found.append(wrong / ((n_answered + 1) / (n_rows + 1)))
    assert np.mean(found) <= risk + 3 * np.std(found) / np.sqrt(len(found))
    if n_rows == 300:
        assert np.mean(found) >= 0.75 * risk  # and it is not kept by answering nothing


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
