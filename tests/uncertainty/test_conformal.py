"""Conformal p-values: the guarantee, ties and weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socratic.uncertainty.conformal import Conformal, on_grid


@pytest.mark.parametrize(("n", "alpha"), [(19, 0.05), (19, 0.1), (30, 0.1), (100, 0.05), (7, 0.05)])
def test_known_rows_are_rejected_as_often_as_promised(n: int, alpha: float) -> None:
    rng = np.random.default_rng(0)
    n_trials, n_new = 4000, 5
    rejected = [
        (Conformal.fit(rng.normal(size=n)).p_value(rng.normal(size=n_new)) <= alpha).mean() for _ in range(n_trials)
    ]
    promised = np.floor(alpha * (n + 1) + 1e-9) / (n + 1)
    error = np.std(rejected) / np.sqrt(n_trials)  # the new rows of a trial share their calibration rows
    assert abs(np.mean(rejected) - promised) <= 4 * error + 1e-12


def test_ties_are_rejected_less_often() -> None:
    rng = np.random.default_rng(1)
    rejected = [
        (Conformal.fit(rng.integers(0, 4, 50)).p_value(rng.integers(0, 4, 5)) <= 0.3).mean() for _ in range(2000)
    ]
    assert np.mean(rejected) <= 0.3
    np.testing.assert_allclose(
        Conformal.fit([1.0, 1.0, 2.0]).p_value([0.0, 1.0, 1.5, 2.0, 3.0]), [1, 1, 0.5, 0.5, 0.25]
    )


@pytest.mark.parametrize("weight", [1.0, 5.0, 0.1])
def test_equal_weights_change_nothing(weight: float) -> None:
    rng = np.random.default_rng(2)
    scores, new = rng.normal(size=19).round(1), rng.normal(size=100).round(1)
    weighted, plain = Conformal.fit(scores, np.full(19, weight)), Conformal.fit(scores)
    np.testing.assert_array_equal(weighted.p_value(new), plain.p_value(new))
    assert weighted.reaches(0.05)
    assert weighted.threshold(0.05) == plain.threshold(0.05) == on_grid(scores.max())


@pytest.mark.parametrize("kind", ["whole", "exponential"])
@pytest.mark.parametrize(("n", "alpha"), [(30, 0.1), (60, 0.05), (10, 0.3)])
def test_the_guarantee_holds_under_weights(kind: str, n: int, alpha: float) -> None:
    """Copies of a row are no new evidence: counted as such they would refuse up to twice as many rows."""
    rng = np.random.default_rng(3)
    rejected = []
    for _ in range(4000):
        weights = rng.integers(0, 6, n) if kind == "whole" else rng.exponential(size=n)
        rejected.append((Conformal.fit(rng.normal(size=n), weights).p_value(rng.normal(size=5)) <= alpha).mean())
    error = np.std(rejected) / np.sqrt(len(rejected))
    assert np.mean(rejected) <= alpha * (1 + 2 / n) + 3 * error


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.5, 0.99])
def test_thresholds_agree_with_p_values(alpha: float) -> None:
    rng = np.random.default_rng(4)
    for n in (5, 19, 20, 59, 99):
        conformal = Conformal.fit(rng.normal(size=n), rng.integers(1, 4, n))
        new = rng.normal(size=200)
        np.testing.assert_array_equal(on_grid(new) > conformal.threshold(alpha), conformal.p_value(new) <= alpha)
        assert conformal.reaches(alpha) == (conformal.p_value([99.0])[0] <= alpha)


def test_without_calibration_rows_nothing_is_unusual() -> None:
    np.testing.assert_array_equal(Conformal.fit([]).p_value([-np.inf, 0.0, np.inf]), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(Conformal.fit([1.0, 2.0], [0.0, 0.0]).p_value([3.0]), [1.0])
    assert Conformal.fit([1.0]).p_value([]).shape == (0,)


def test_infinite_and_missing_scores() -> None:
    conformal = Conformal.fit([0.0, 1.0, np.inf])
    np.testing.assert_allclose(conformal.p_value([-np.inf, 2.0, np.inf, np.nan]), [1.0, 0.5, 0.5, 0.25])


@pytest.mark.parametrize(
    ("scores", "weights", "message"),
    [
        ([[1.0]], None, r"scores must have the shape \(n,\); got \(1, 1\)"),
        ([1.0, np.nan], None, "scores must hold no NaN; got 1 among 2 numbers"),
        ([1.0, 2.0], [1.0], r"the weights of scores must have the shape \(2,\), like them; got \(1,\)"),
        ([1.0, 2.0], [1.0, -2.0], "the weights of scores must be finite and at least 0; got a minimum of -2"),
    ],
)
def test_bad_arguments_are_named(scores: list[float], weights: list[float] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Conformal.fit(scores, weights)


def means(x: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """The model of each fold: the mean of the rows of the others, (K,)."""
    return np.array([x[folds != fold].mean() for fold in range(folds.max() + 1)])


@pytest.mark.parametrize(("n", "alpha"), [(20, 0.05), (50, 0.1), (120, 0.01)])
def test_cross_fitted_rows_are_rejected_about_as_often_as_promised(n: int, alpha: float) -> None:
    """Rows are as unusual as they are far from a mean, which is that of other folds."""
    rng = np.random.default_rng(5)
    rejected = []
    for _ in range(1500):
        x, new, folds = rng.normal(size=n), rng.normal(size=20), rng.permutation(n) % 5
        centres = means(x, folds)
        conformal = Conformal.fit(np.abs(x - centres[folds]), folds=folds)
        rejected.append((conformal.p_value(np.abs(new - centres[:, None]).mean(0)) <= alpha).mean())
    promised = np.floor(alpha * (n + 1) + 1e-9) / (n + 1)
    error = np.std(rejected) / np.sqrt(len(rejected))
    assert abs(np.mean(rejected) - promised) <= 4 * error + 0.1 * alpha


def test_p_values_are_counted() -> None:
    """Against the formula, row by row."""
    rng = np.random.default_rng(6)
    scores, weights, folds = rng.normal(size=30).round(1), rng.integers(1, 4, 30).astype(float), rng.permutation(30) % 3
    conformal = Conformal.fit(scores, weights, folds)
    worth = weights * weights.sum() / (weights**2).sum()
    new = rng.normal(size=50).round(1)
    expected = [(1 + worth[on_grid(scores) >= score].sum()) / (1 + worth.sum()) for score in on_grid(new)]
    np.testing.assert_allclose(conformal.p_value(new), expected)
    again = Conformal.from_arrays(conformal.to_arrays())
    np.testing.assert_array_equal(again.p_value(new), conformal.p_value(new))
    assert again.n_folds == 3
    assert again.worth == pytest.approx(worth.sum())


def test_equal_rows_of_several_folds_are_as_unusual_as_a_new_row_like_them() -> None:
    scores, folds, twins = [3.0, 5.0, 5.0, 1.0, 2.0], [0, 1, 1, 0, 1], [0, 0, 0, 1, 2]
    conformal = Conformal.fit(scores, folds=folds, twins=twins)
    np.testing.assert_array_equal(conformal.scores, [1.0, 2.0, 4.0, 4.0, 4.0])
    np.testing.assert_array_equal(np.sort(conformal.own), [1.0, 2.0, 3.0, 5.0, 5.0])
    assert conformal.p_value([np.mean([3.0, 5.0])]) == pytest.approx([4 / 6])


def test_rows_that_every_model_has_seen_count_as_more_unusual_than_anything() -> None:
    conformal = Conformal.fit(np.append(np.arange(38.0), [0.5]), folds=np.append(np.zeros(38, dtype=int), [-1]))
    assert conformal.p_value([1e6]) == pytest.approx([2 / 40])
    assert conformal.reaches(0.05)
    assert not Conformal.fit([0.0] * 20, folds=[0] * 18 + [-1] * 2).reaches(0.1)
    assert conformal.threshold(0.05) == 37.0


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=30), st.integers(0, 2**32 - 1))
def test_rounding_changes_no_p_value(scores: list[float], seed: int) -> None:
    """Scores of the same rows, evaluated in other company, differ in their last bits."""
    values = on_grid(np.clip(scores, -1e100, 1e100))
    rng = np.random.default_rng(seed)
    conformal = Conformal.fit(values * (1.0 + 1e-13 * rng.uniform(-1.0, 1.0, len(values))))
    asked = values * (1.0 + 1e-13 * rng.uniform(-1.0, 1.0, len(values)))
    np.testing.assert_array_equal(conformal.p_value(asked), conformal.p_value(values))
    assert (conformal.p_value(values) * (len(values) + 1) >= 2 - 1e-9).all()  # each ties with itself
    np.testing.assert_array_equal(on_grid(values), values)


def test_the_grid_is_far_below_what_scores_tell() -> None:
    scores = np.array([0.0, 1e-6, 1.0, 300.0, -7e3, np.inf, -np.inf, np.nan])
    error = np.abs(on_grid(scores)[:5] - scores[:5])
    assert (error <= np.maximum(np.abs(scores[:5]), 1.0) * 2.0**-17).all()
    np.testing.assert_array_equal(on_grid(scores)[5:], scores[5:])


@pytest.mark.parametrize("folds", [[0, 1], [0, -2, 1], [0.5, 1.0, 0.0]])
def test_folds_are_numbers_of_rows(folds: list[float]) -> None:
    with pytest.raises(ValueError, match="folds must number the fold of each of 3 scores from 0 on; got"):
        Conformal.fit([1.0, 2.0, 3.0], folds=folds)
