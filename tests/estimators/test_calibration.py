"""What estimators promise of the rows they refuse, and that they say when they cannot keep it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from socratic.errors import CalibrationWarning
from socratic.estimators import CircuitClassifier, CircuitOutlierDetector
from socratic.estimators.crossing import COSTLY_BELOW, CROSS_FITTED_BELOW, N_FOLDS
from socratic.estimators.rejection import refused_by_class

QUICK: dict[str, Any] = {"n_epochs": 4, "n_sums": 3, "n_repetitions": 2}
RATE = 0.05


def blobs(n: int, seed: int | np.random.Generator, n_columns: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Two classes that overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, n_columns)) + y[:, None], y


def fitted(kind: type, n: int, seed: int, weight: np.ndarray | None = None, n_columns: int = 4, **settings: Any) -> Any:
    x, y = blobs(n, seed, n_columns)
    return kind(**{**QUICK, "random_state": seed, **settings}).fit(x, y, sample_weight=weight)


def refused(model: Any, x: np.ndarray) -> np.ndarray:
    return model.reject(x) if isinstance(model, CircuitClassifier) else model.predict(x) == -1


def judged(model: Any, x: np.ndarray) -> np.ndarray:
    """P-values (N,) of rows."""
    return model.uncertainty(x).p_value if isinstance(model, CircuitClassifier) else model.p_value(x)


both = pytest.mark.parametrize("kind", [CircuitClassifier, CircuitOutlierDetector])


@both
def test_without_calibration_rows_fit_and_reject_say_so(kind: type) -> None:
    message = r"no rows were held out to calibrate on, and rejection_rate=0\.05 needs at least 19"
    with pytest.warns(CalibrationWarning, match=message):
        model = fitted(kind, 89, 0, calibration_fraction=0.0)
    assert model.calibrated_ is False
    assert not model.folds_
    assert model.calibration_interval() == (0.0, 1.0)
    with pytest.warns(CalibrationWarning, match=message):
        refused(model, blobs(20, 1)[0])


@both
def test_too_few_calibration_rows_are_counted(kind: type) -> None:
    """Even the most unusual row has a p-value above the rate."""
    expected = r"40 rows were calibrated on, .* needs at least 49: no row is refused; fit more rows, or raise"
    with pytest.warns(CalibrationWarning, match=expected):
        model = fitted(kind, 40, 0, rejection_rate=0.02)
    assert model.calibrated_ is False
    assert model.calibration_interval() == (0.0, 0.0)
    with pytest.warns(CalibrationWarning, match="no row is refused"):
        assert not refused(model, blobs(20, 1)[0] + 100.0).any()


@both
def test_twenty_rows_are_enough_for_one_in_twenty(kind: type) -> None:
    with pytest.warns(CalibrationWarning, match="no rows were held out to calibrate on"):
        fitted(kind, 19, 0)  # of which too few differ to hold some out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refused(fitted(kind, 20, 0), blobs(20, 1)[0] + 100.0).all()
        assert refused(fitted(kind, 120, 0, rejection_rate=0.01), blobs(20, 1)[0] + 100.0).all()


@both
@pytest.mark.parametrize(("structure", "below"), [("random", COSTLY_BELOW), ("kernels", CROSS_FITTED_BELOW)])
def test_many_rows_are_split(kind: type, structure: str, below: int) -> None:
    model = fitted(kind, below, 0, n_columns=2, structure=structure)
    assert not model.folds_
    assert 0.12 * below <= model.n_calibration_ <= 0.2 * below
    crossed = model.fit(*blobs(below - 1, 0, 2))
    assert len(crossed.folds_) == N_FOLDS
    assert crossed.n_calibration_ == below - 1
    assert not model.fit(*blobs(below, 0, 2)).folds_


def test_rows_of_unequal_weight_are_worth_fewer() -> None:
    weight = np.where(np.arange(300) % 10 == 0, 100.0, 1.0)
    with pytest.warns(CalibrationWarning, match=r"100 rows \(worth 1\d\.\d by their weights\) were calibrated on"):
        fitted(CircuitClassifier, 100, 0, weight[:100])


Sample = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]
"""Rows to fit, their labels and weights, and fresh rows of the same population."""


def weighted(weigh: Callable[[np.random.Generator, int], np.ndarray]) -> Callable[[np.random.Generator], Sample]:
    """Ten columns, of which a model learns its training rows by heart: copies among the calibration rows would show."""

    def sample(rng: np.random.Generator) -> Sample:
        x, y = blobs(2400, rng, 10)
        return x[:400], y[:400], weigh(rng, 400), x[400:]

    return sample


def weighted_classes(rng: np.random.Generator) -> Sample:
    """Rows of one class weigh five times as much, and are five times as frequent among the fresh rows."""
    x, y = blobs(5000, rng, 6)
    fresh = (np.arange(5000) >= 500) & ((y == 1) | (rng.random(5000) < 0.2))
    return x[:500], y[:500], np.where(y[:500] == 1, 5.0, 1.0), x[fresh]


def copies(rng: np.random.Generator) -> Sample:
    """Every row three times."""
    x, y = blobs(2300, rng, 10)
    repeated = np.repeat(np.arange(300), 3)
    return x[repeated], y[repeated], None, x[300:]


def oversampled(rng: np.random.Generator) -> Sample:
    """A rare class, drawn again and again until there is as much of it as of the other."""
    x, y = blobs(6000, rng, 10)
    kept = (y == 0) | (rng.random(len(y)) < 0.15)
    x, y = x[kept], y[kept]
    chosen = np.concatenate([np.arange(500), rng.choice(np.flatnonzero(y[:500]), 300)])
    return x[chosen], y[chosen], None, x[500:]


def ties(rng: np.random.Generator) -> Sample:
    """Six booleans: most rows are equal to others, and each is a draw of its own."""
    y = rng.integers(0, 2, 2400)
    x = rng.random((2400, 6)) < np.where(y[:, None], 0.3, 0.1)
    return x[:400], y[:400], None, x[400:]


def whole_numbers(rng: np.random.Generator) -> Sample:
    """Two columns of small numbers, in which rows coincide by chance."""
    x, y = blobs(2300, rng, 2)
    return x[:300].round(), y[:300], None, x[300:].round()


def rare_classes(rng: np.random.Generator) -> Sample:
    y = rng.choice(6, 2400, p=[0.6, 0.3, 0.04, 0.03, 0.02, 0.01])
    x = rng.normal(size=(2400, 6)) + 3.0 * y[:, None]
    return x[:400], y[:400], None, x[400:]


def missing_cells(rng: np.random.Generator) -> Sample:
    """Two cells in five are missing, and whole rows."""
    x, y = blobs(2300, rng, 6)
    x[(rng.random(x.shape) < 0.4) | (rng.random((len(x), 1)) < 0.2)] = np.nan
    return x[:300], y[:300], None, x[300:]


def constant_columns(rng: np.random.Generator) -> Sample:
    x, y = blobs(2300, rng, 6)
    x[:, :3] = 7.5
    return x[:300], y[:300], None, x[300:]


def heavy_tails(rng: np.random.Generator) -> Sample:
    """A skew, no variance, counts with a long tail, and some cells missing."""
    y = rng.integers(0, 2, 2300)
    tails = [rng.lognormal(0.0, 2.0, 2300), rng.standard_t(1.5, 2300), rng.geometric(0.02, 2300)]
    x = np.column_stack([*tails, rng.normal(size=2300)]) * (1.0 + y[:, None])
    x[rng.random(x.shape) < 0.15] = np.nan
    return x[:300], y[:300], None, x[300:]


def few_rows(rng: np.random.Generator) -> Sample:
    x, y = blobs(2150, rng, 6)
    return x[:150], y[:150], None, x[150:]


def default_reading(rng: np.random.Generator) -> Sample:
    """A sensor that says the same in a tenth of the rows, fractions included."""
    x, y = blobs(2300, rng, 5)
    x[rng.random(len(x)) < 0.1] = [20.5, 0.0, 1.0, 50.0, 3.0]
    return x[:300], y[:300], None, x[300:]


def sentinels(rng: np.random.Generator) -> Sample:
    """A number that stands for what is unknown, in a tenth of the cells."""
    x, y = blobs(2300, rng, 5)
    x[rng.random(x.shape) < 0.1] = -999.0
    return x[:300], y[:300], None, x[300:]


def many_classes(rng: np.random.Generator) -> Sample:
    """A hundred classes, of which a few are common and many have one row or none."""
    shares = 1.0 / np.arange(1, 101)
    y = rng.choice(100, 2400, p=shares / shares.sum())
    x = 4.0 * np.random.default_rng(0).normal(size=(100, 5))[y] + rng.normal(size=(2400, 5))
    return x[:400], y[:400], None, x[400:]


SAMPLES: dict[str, Callable[[np.random.Generator], Sample]] = {
    "weights of 5": weighted(lambda rng, n: np.full(n, 5.0)),
    "whole weights": weighted(lambda rng, n: rng.integers(0, 6, n).astype(float)),
    "any weights": weighted(lambda rng, n: rng.exponential(size=n)),
    **{each.__name__: each for each in (copies, oversampled, ties, whole_numbers, rare_classes)},
    **{each.__name__: each for each in (missing_cells, constant_columns, heavy_tails, few_rows, weighted_classes)},
}
REPEATING = {each.__name__: each for each in (default_reading, sentinels, many_classes, copies, ties, heavy_tails)}


def check_rate_is_kept(make: Callable[[int], Any], sample: Callable[[np.random.Generator], Sample], n: int) -> None:
    """Over n samples the refused share of fresh rows exceeds the rate by no more than its standard error allows."""
    shares = []
    for seed in range(n):
        x, y, weight, fresh = sample(np.random.default_rng(seed))
        shares.append(refused(make(seed).fit(x, y, sample_weight=weight), fresh).mean())
    assert np.mean(shares) <= RATE + 3 * np.std(shares) / np.sqrt(n)


few_are_too_few = pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")


@few_are_too_few
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "few_rows" else name for name in SAMPLES]
)
def test_the_rate_is_kept_whatever_the_rows(name: str) -> None:
    def make(seed: int) -> CircuitOutlierDetector:
        return CircuitOutlierDetector(n_epochs=15, n_sums=8, n_repetitions=2, random_state=seed)

    check_rate_is_kept(make, SAMPLES[name], 12)


@few_are_too_few
@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_classifiers_keep_the_rate_whatever_the_rows(name: str) -> None:
    settings: dict[str, Any] = {"n_epochs": 6, "n_sums": 4, "n_repetitions": 2}

    def make(seed: int) -> CircuitClassifier:
        return CircuitClassifier(**settings, dropout=0.1, cross_entropy_weight=0.2, random_state=seed)

    check_rate_is_kept(make, SAMPLES[name], 12)


@few_are_too_few
@pytest.mark.slow
@both
@pytest.mark.parametrize("name", REPEATING)
def test_default_models_keep_the_rate_where_rows_repeat(kind: type, name: str) -> None:
    check_rate_is_kept(lambda seed: kind(random_state=seed), REPEATING[name], 40)


@both
@pytest.mark.parametrize("n_rows", [150, 700])
def test_a_value_that_repeats_hides_no_unfamiliar_rows(kind: type, n_rows: int) -> None:
    x, y, _, fresh = default_reading(np.random.default_rng(0))
    rows = np.concatenate([x, fresh])[:n_rows]
    model = kind(random_state=0).fit(rows, np.resize(y, n_rows))
    assert (judged(model, np.random.default_rng(1).normal(size=(200, 5)) * 2.5) <= 0.05).mean() > 0.6


@pytest.mark.slow
@both
@pytest.mark.parametrize("n_rows", [150, 700])
def test_a_row_that_stands_for_a_tenth_of_the_data_is_familiar(kind: type, n_rows: int) -> None:
    """Of rows that differ one in eighteen may be refused in its place."""
    n_refused = 0
    for seed in range(40):
        x, _, _, fresh = default_reading(np.random.default_rng(seed))
        rows, labels = np.concatenate([x, fresh])[:n_rows], np.arange(n_rows) % 2
        repeated = kind(random_state=seed).fit(rows, np.where(rows[:, 0] == 20.5, labels, rows[:, 1] > 0))
        n_refused += refused(repeated, np.array([[20.5, 0.0, 1.0, 50.0, 3.0]])).sum()
    assert n_refused <= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weights of 5", "copies"])
def test_learned_structures_keep_the_rate(name: str) -> None:
    check_rate_is_kept(lambda seed: CircuitOutlierDetector(structure="learnspn", random_state=seed), SAMPLES[name], 10)


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


@pytest.mark.slow
@both
@pytest.mark.parametrize("n_rows", [60, 200, CROSS_FITTED_BELOW])
def test_the_interval_is_that_of_the_refused_share(kind: type, n_rows: int) -> None:
    """Nineteen times in twenty, over calibrations: three standard deviations of 40 allow for 34 times."""
    inside = []
    for seed in range(40):
        x, y = blobs(n_rows, seed, 4)
        model = kind(rejection_rate=0.1, random_state=seed).fit(x, y)
        share = (judged(model, blobs(2000, 1000 + seed, 4)[0]) <= 0.1).mean()
        low, high = model.calibration_interval()
        inside.append(low <= share <= high)
    assert np.mean(inside) >= 0.85
    tighter = model.calibration_interval(0.5)
    assert low < tighter[0] < 0.1 < tighter[1] < high
    with pytest.raises(ValueError, match="confidence must be"):
        model.calibration_interval(1.5)


@pytest.mark.slow
def test_classes_keep_the_rate_each_and_few_rows_are_named() -> None:
    x, y = blobs(200, 0)
    x[y == 1] *= 3.0
    model = CircuitClassifier(structure="forest", random_state=0, calibrate_by_class=True).fit(x, y)
    assert model.class_conformal_ is not None
    fresh, labels = blobs(2000, 1)
    fresh[labels == 1] *= 3.0
    for n_rows, share in refused_by_class(labels, model.reject(fresh)).values():
        assert n_rows > 900
        assert share < 0.12
    names = np.where(y == 1, "rare", "common")
    few = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:7]])
    with pytest.warns(CalibrationWarning, match=r"too few rows to calibrate by class: rare \(7\); .* at least 19 of"):
        model.fit(x[few], names[few])
    assert model.set_params(calibrate_by_class=False).fit(x, y).class_conformal_ is None
    with pytest.raises(ValueError, match=r"labels and refused must have one shape \(N,\)"):
        refused_by_class([1, 2], [True])
