from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from socratic.estimators import CircuitDensity, CircuitOutlierDetector

QUICK = {"n_epochs": 10, "n_sums": 4, "n_repetitions": 3, "random_state": 0}


@pytest.mark.parametrize("optimiser", ["em", "adam"])
def test_densities_prefer_what_they_saw_and_sample_it(optimiser: str) -> None:
    x = load_iris().data
    model = CircuitDensity(**QUICK, optimiser=optimiser).fit(x)
    assert model.score(x) > model.score(x + 3.0) + 5.0
    drawn = model.sample(500, random_state=1)
    assert drawn.shape == (500, 4)
    assert np.array_equal(drawn, model.sample(500, random_state=1))
    np.testing.assert_allclose(drawn.mean(0), x.mean(0), atol=0.4)
    np.testing.assert_allclose(drawn.std(0), x.std(0), rtol=0.4)


def test_densities_integrate_to_one() -> None:
    x = load_iris().data[:, :1]
    model = CircuitDensity(**QUICK).fit(x)
    grid = np.linspace(-20, 40, 20_001)[:, None]
    assert np.trapezoid(np.exp(model.score_samples(grid)), grid[:, 0]) == pytest.approx(1.0, abs=1e-3)


def test_frames_come_back_as_frames() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"size": rng.normal(5, 1, 100), "kind": rng.choice(["a", "b"], 100), "flag": rng.random(100) < 0.3}
    )
    drawn = CircuitDensity(**QUICK).fit(frame).sample(50, random_state=0)
    assert list(drawn.columns) == ["size", "kind", "flag"]
    assert set(drawn["kind"]) <= {"a", "b"}
    assert set(drawn["flag"]) <= {True, False}


def test_the_detector_keeps_its_promise_and_finds_outliers() -> None:
    rng = np.random.default_rng(0)
    refused = []
    for seed in range(10):
        rows = rng.normal(size=(900, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
        model = CircuitOutlierDetector(**{**QUICK, "random_state": seed}, rejection_rate=0.1).fit(rows[:500])
        refused.append((model.predict(rows[500:]) == -1).mean())
        far = rows[:50] + 8.0
        assert (model.predict(far) == -1).all()
        decisions = model.decision_function(rows[500:])
        np.testing.assert_array_equal(decisions < 0, model.p_value(rows[500:]) <= 0.1)
        np.testing.assert_allclose(decisions, model.score_samples(rows[500:]) - model.offset_)
    assert np.mean(refused) == pytest.approx(0.1, abs=0.03)


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")
def test_too_few_rows_to_calibrate_refuse_nothing() -> None:
    model = CircuitOutlierDetector(**QUICK).fit(np.arange(10.0)[:, None])
    assert (model.predict(np.arange(10.0)[:, None]) == 1).all()


def test_validation_rows_may_be_given() -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random((600, 1)) < 0.5, 2.0, -2.0) + rng.normal(size=(600, 4))
    settings = {"n_sums": 4, "n_epochs": 6, "random_state": 0}
    model = CircuitDensity(**settings).fit(x[:400], validation=x[400:])
    assert model.n_features_in_ == 4
    kept = model.history_.epochs[model.history_.best].validation_loss
    scale = model.table_.log_scale.sum()
    assert kept == pytest.approx(-(model.score(x[400:]) + scale) / 4, abs=1e-4)
    held_out = CircuitDensity(**settings, validation_fraction=0.0).fit(x[:400])  # trains on as many rows
    assert held_out.table_.columns == model.table_.columns
    assert np.isnan(held_out.history_.epochs[0].validation_loss)


def test_validation_rows_are_rows_of_the_table() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0] * 20, "b": ["x", "y", "x"] * 20})
    model = CircuitDensity(n_epochs=2, random_state=0)
    unseen = pd.DataFrame({"a": [0.5, None], "b": ["never", "y"]})
    assert np.isfinite(model.fit(frame, validation=unseen).history_.epochs[-1].validation_loss)
    with pytest.raises(ValueError, match="feature names"):
        model.fit(frame, validation=frame.rename(columns={"a": "c"}))


def test_bits_per_dimension() -> None:
    x = np.random.default_rng(0).random((400, 3)) < 0.5
    model = CircuitDensity(n_sums=2, n_epochs=3, random_state=0).fit(x)
    assert model.bits_per_dimension(x) == pytest.approx(1.0, abs=0.02)  # fair coins take a bit each
    partial = np.where(np.arange(3) == 0, np.nan, x.astype(float))
    named = CircuitDensity(n_sums=2, n_epochs=3, random_state=0).fit(partial)
    assert named.bits_per_dimension(partial) == pytest.approx(-named.score(partial) / (2 * np.log(2.0)))
