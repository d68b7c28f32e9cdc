"""What estimators promise of the rows they refuse, and that they say when they cannot keep it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from socratic.errors import CalibrationWarning
from socratic.estimators import CircuitClassifier, CircuitOutlierDetector

QUICK: dict[str, Any] = {"n_epochs": 4, "n_sums": 3, "n_repetitions": 2}
RATE = 0.05


def blobs(n: int, seed: int, n_columns: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, n_columns)) + y[:, None], y


def fitted(kind: type, n: int, seed: int, weight: np.ndarray | None = None, n_columns: int = 4, **settings: Any) -> Any:
    x, y = blobs(n, seed, n_columns)
    return kind(**{**QUICK, "random_state": seed, **settings}).fit(x, y, sample_weight=weight)


def refused(model: Any, x: np.ndarray) -> np.ndarray:
    return model.reject(x) if isinstance(model, CircuitClassifier) else model.predict(x) == -1


both = pytest.mark.parametrize("kind", [CircuitClassifier, CircuitOutlierDetector])


@both
def test_without_calibration_rows_fit_and_reject_say_so(kind: type) -> None:
    message = r"no rows were held out to calibrate on, and rejection_rate=0\.05 needs at least 19"
    with pytest.warns(CalibrationWarning, match=message):
        model = fitted(kind, 89, 0)
    assert model.calibrated_ is False
    with pytest.warns(CalibrationWarning, match=message):
        refused(model, blobs(20, 1)[0])


@both
def test_too_few_calibration_rows_are_counted(kind: type) -> None:
    """Even the most unusual row has a p-value above the rate."""
    with pytest.warns(CalibrationWarning, match=r"rows were held out to calibrate on, .* needs at least 49: no row is"):
        model = fitted(kind, 120, 0, rejection_rate=0.02)
    assert model.calibrated_ is False
    with pytest.warns(CalibrationWarning, match="no row is refused"):
        assert not refused(model, blobs(20, 1)[0] + 100.0).any()


def test_a_hundred_rows_are_too_few_for_a_classifier() -> None:
    with pytest.warns(CalibrationWarning, match=r"14 rows were held out .*rejection_rate=0\.05 needs at least 19"):
        model = fitted(CircuitClassifier, 100, 0)
    model.set_params(rejection_rate=0.1)  # for which they are enough
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.calibrated_
        assert model.reject(blobs(20, 1)[0] + 100.0).all()
        fitted(CircuitClassifier, 145, 0)


def test_rows_of_unequal_weight_are_worth_fewer() -> None:
    weight = np.where(np.arange(300) % 10 == 0, 100.0, 1.0)
    with pytest.warns(CalibrationWarning, match=r"40 rows \(worth \d\.\d by their weights\) were held out"):
        fitted(CircuitClassifier, 300, 0, weight)


WEIGHTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "none": lambda rng, n: np.ones(n),
    "five": lambda rng, n: np.full(n, 5.0),
    "whole": lambda rng, n: rng.integers(0, 6, n).astype(float),
    "any": lambda rng, n: rng.exponential(size=n),
}


def check_rate_is_kept(kind: type, weights: str, **settings: Any) -> None:
    """Over some samples the refused share of fresh rows exceeds the rate by no more than its standard error allows.

    Ten columns, of which a model learns its training rows by heart: copies among the calibration rows would show.
    """
    shares = []
    for seed in range(10):
        weight = WEIGHTS[weights](np.random.default_rng(100 + seed), 400)
        model = fitted(kind, 400, seed, weight, n_columns=10, **settings)
        shares.append(refused(model, blobs(2000, 200 + seed, 10)[0]).mean())
    assert 0.0 < np.mean(shares) <= RATE + 3 * np.std(shares) / np.sqrt(len(shares))


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_rate_is_kept_whatever_rows_weigh(weights: str) -> None:
    check_rate_is_kept(CircuitOutlierDetector, weights, n_epochs=20, n_sums=8)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["none", "five", "whole"])
def test_classifiers_keep_the_rate_whatever_rows_weigh(weights: str) -> None:
    check_rate_is_kept(CircuitClassifier, weights, structure="learnspn", dropout=0.1)


@both
def test_weights_train_as_copies_do_if_nothing_is_held_out(kind: type) -> None:
    x, y = blobs(60, 0)
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, len(x))
    copied = rng.permutation(np.repeat(np.arange(len(x)), weight))
    settings: dict[str, Any] = {**QUICK, "random_state": 0, "calibration_fraction": 0.0, "validation_fraction": 0.0}
    with pytest.warns(CalibrationWarning):
        weighted = kind(**settings).fit(x, y, sample_weight=weight)
    with pytest.warns(CalibrationWarning):
        repeated = kind(**settings).fit(x[copied], y[copied])
    np.testing.assert_array_equal(weighted.score_samples(x), repeated.score_samples(x))
