"""The unit of a column changes nothing that is decided about rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from socratic.estimators import CircuitClassifier, CircuitDensity, CircuitGuard, CircuitOutlierDetector

ROWS, LABELS = load_iris(return_X_y=True)
FACTORS = np.array([1e-3, 1e3, 10.0, 0.37])
SHIFTS = np.array([0.0, -2000.0, 5.0, 0.0])
FEW: dict[str, Any] = {"n_epochs": 3, "n_sums": 3, "n_repetitions": 2, "random_state": 0}


def in_other_units(rows: np.ndarray) -> np.ndarray:
    """The same rows, measured otherwise."""
    return rows * FACTORS + SHIFTS


def classifier(rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    model = CircuitClassifier(structure="random", **FEW).fit(rows, LABELS)
    return lambda new: np.column_stack([model.answer(new).uncertainty.p_value, model.predict_proba(new)])


def detector(rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return CircuitOutlierDetector(structure="random", **FEW).fit(rows).p_value


def learned(rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return CircuitOutlierDetector(structure="learnspn", random_state=0).fit(rows).p_value


def guard(rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    model = make_pipeline(SimpleImputer(), StandardScaler(), GaussianNB()).fit(rows[::2], LABELS[::2])
    density = CircuitDensity(structure="random", **FEW)
    guard = CircuitGuard(model, density=density, rejection_rate=0.2, random_state=0)
    return guard.fit(rows[1::2], unseen=True).p_value


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("fit", [classifier, detector, learned, guard])
@pytest.mark.filterwarnings("ignore::socratic.errors.CalibrationWarning")
def test_p_values_do_not_depend_on_units(
    fit: Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]], missing: float
) -> None:
    rng = np.random.default_rng(0)
    new = ROWS + rng.normal(scale=0.3, size=ROWS.shape)
    rows = np.where(rng.random(ROWS.shape) < missing, np.nan, ROWS)
    new = np.where(rng.random(ROWS.shape) < 2.0 * missing, np.nan, new)
    expected, found = fit(rows)(new), fit(in_other_units(rows))(in_other_units(new))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert 0.0 < expected.min() < expected.max() <= 1.0


def test_densities_change_by_the_unit_alone() -> None:
    one, other = (CircuitDensity(structure="random", **FEW).fit(rows) for rows in (ROWS, in_other_units(ROWS)))
    expected = one.score_samples(ROWS) - np.log(FACTORS).sum()
    np.testing.assert_allclose(other.score_samples(in_other_units(ROWS)), expected, atol=1e-6)


SIZES = [1e-320, 1e-300, 1e300]


@pytest.mark.parametrize("size", SIZES)
def test_columns_of_any_size_are_read_like_others(size: float) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)) + 3.0 * (np.arange(60) >= 30)[:, None], np.arange(60) // 30
    for estimator, ask in (
        (CircuitClassifier(random_state=0, n_jobs=1), "predict_proba"),
        (CircuitOutlierDetector(random_state=0, n_jobs=1), "p_value"),
    ):
        with np.errstate(all="raise", under="ignore"):
            found = getattr(estimator.fit(x * size, y), ask)(x * size)
        expected = getattr(estimator.fit(x, y), ask)(x)
        assert np.allclose(found, expected, atol=0.05)  # 1e-320 has four digits
    density = CircuitDensity(structure="kernels", random_state=0, n_jobs=1)
    found = density.fit(x * size).score_samples(x * size)
    assert np.allclose(found + 2.0 * np.log(size), density.fit(x).score_samples(x), atol=0.05)


@pytest.mark.parametrize("size", SIZES)
def test_weights_of_any_size_say_the_same(size: float) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)) + 3.0 * (np.arange(60) >= 30)[:, None], np.arange(60) // 30
    for estimator, ask in (
        (CircuitClassifier(random_state=0, n_jobs=1), "predict_proba"),
        (CircuitDensity(structure="kernels", random_state=0, n_jobs=1), "score_samples"),
        (CircuitOutlierDetector(random_state=0, n_jobs=1), "p_value"),
    ):
        found = getattr(estimator.fit(x, y, sample_weight=np.full(60, size)), ask)(x)
        assert np.allclose(found, getattr(estimator.fit(x, y), ask)(x), atol=0.02)


def test_next_to_no_weight_is_none() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    x[:5] = 50.0
    density = CircuitDensity(structure="kernels", random_state=0, n_jobs=1)
    little, none = (np.where(np.arange(60) < 5, weight, 1.0) for weight in (1e-300, 0.0))
    found = density.fit(x, sample_weight=little).score_samples(x)
    assert np.array_equal(found, density.fit(x, sample_weight=none).score_samples(x))


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_guards_have_no_units_of_any_size(unit: float) -> None:
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(300, 3)), 3.0 * rng.normal(size=(50, 3))

    def model(scale: float) -> Callable[[np.ndarray], np.ndarray]:
        def classes(rows: np.ndarray) -> np.ndarray:
            share = 1.0 / (1.0 + np.exp(-np.clip(np.asarray(rows)[:, 0] / scale, -30.0, 30.0)))
            return np.stack([1.0 - share, share], 1)

        return classes

    plain, scaled = (
        CircuitGuard(model(each), random_state=0).fit(x * each, unseen=True).p_value(new * each) for each in (1.0, unit)
    )
    np.testing.assert_array_equal(plain, scaled)
