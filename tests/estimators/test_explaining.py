from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import socratic
from socratic import CircuitClassifier, CircuitDensity, CircuitImageClassifier, CircuitOutlierDetector
from socratic.estimators import CircuitGuard, CircuitImageDensity
from socratic.tables.inputs import encode_rows
from tests.estimators.test_classifier import mixed_frame

TABLES: list[Any] = [CircuitClassifier, CircuitOutlierDetector, CircuitDensity]
FRAME, LABELS = mixed_frame(300)


def fitted(estimator: Any, **options: Any) -> Any:
    return estimator(n_epochs=3, random_state=0, **options).fit(FRAME[:200], LABELS[:200])


@pytest.mark.parametrize("estimator", TABLES)
@pytest.mark.parametrize("structure", ["random", "learnspn"])
def test_columns_of_tables_are_explained(estimator: Any, structure: str) -> None:
    model = fitted(estimator, structure=structure)
    rows = FRAME[200:].copy()
    rows.iloc[0, 0] = np.nan
    found = model.explain(rows)
    assert found.names == tuple(FRAME.columns)
    assert found.surprise.shape == found.excess.shape == found.p_value.shape == rows.shape
    np.testing.assert_array_equal(np.isnan(found.surprise), rows.isna().to_numpy())
    encoded = encode_rows(model, rows)
    prior = model.class_prior_.tolist() if estimator is CircuitClassifier else None
    rest = encoded.clone()
    rest[:, 1] = np.nan
    given = socratic.conditional_log_likelihood(model.circuit_, encoded, rest, class_prior=prior).detach().numpy()
    expected = np.where(encoded[:, 1].isnan(), np.nan, model.table_.log_scale[1] - given)
    np.testing.assert_allclose(found.surprise[:, 1], expected, rtol=1e-3, atol=1e-3)
    seen = found.p_value[~np.isnan(found.p_value)]
    assert ((seen > 0.0) & (seen <= 1.0)).all()


@pytest.mark.parametrize("estimator", TABLES)
def test_a_wrong_value_is_the_first_reason(estimator: Any) -> None:
    model = fitted(estimator)
    rows = FRAME[200:210].copy()
    number = int(np.flatnonzero([column.categories is None for column in model.table_.columns])[0])
    name = FRAME.columns[number]
    rows[name] = rows[name].astype(float) * 1000.0 + 1e5
    reasons = model.explain(rows)
    assert {row[0].name for row in reasons.top(1)} == {name}
    assert (reasons.p_value[:, number] < 0.05).all()


def test_p_values_are_uniform_on_familiar_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    model = CircuitOutlierDetector(n_epochs=5, calibration_fraction=0.5, random_state=0).fit(x[:2000])
    p_value = model.explain(x[2000:]).p_value
    for level in (0.05, 0.2, 0.5):
        np.testing.assert_allclose((p_value <= level).mean(0), level, atol=0.08)  # some hundred rows are compared with


@pytest.mark.parametrize("estimator", [*TABLES, CircuitImageClassifier, CircuitImageDensity])
def test_reasons_are_saved(estimator: Any, tmp_path: Path) -> None:
    x: Any = FRAME
    if estimator in TABLES:
        model = fitted(estimator)
    else:
        x = load_digits().images[:150].astype(np.uint8)
        model = estimator(n_epochs=1, random_state=0).fit(x, load_digits().target[:150])
    model.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    expected, found = model.explain(x[:9]), loaded.explain(x[:9])
    assert expected.names == found.names
    np.testing.assert_array_equal(found.p_value, expected.p_value)
    np.testing.assert_array_equal(found.excess, expected.excess)


def test_models_saved_before_have_to_be_fitted_again() -> None:
    model = fitted(CircuitDensity)
    del model.familiar_
    with pytest.raises(ValueError, match=re.escape("saved before models kept familiar rows to compare with; fit it")):
        model.explain(FRAME[:2])


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.round(load_digits().images * (255 / 16)).astype(np.uint8)


@pytest.mark.parametrize("options", [{}, {"wavelet_levels": 1, "n_repetitions": 2}, {"structure": "random"}], ids=str)
def test_heat_maps_of_images(images: np.ndarray, options: dict[str, Any]) -> None:
    model = CircuitImageClassifier(n_epochs=3, random_state=0, **options).fit(images[:400], load_digits().target[:400])
    smudged = images[600:650].copy()
    smudged[:, :2, :2] = 255
    plain, found = model.explain(images[600:650]), model.explain(smudged)
    assert found.heat.shape == (50, 8, 8)
    assert found.surprise.shape == found.p_value.shape == (50, len(found.names))
    hotter = (found.heat - plain.heat).mean(0)
    assert hotter[:2, :2].min() > 0.1
    assert all(re.fullmatch(r"rows \d-\d, columns \d-\d", name) for name in found.names)
    assert hotter[:2, :2].mean() > 2 * np.abs(hotter[4:, 4:]).mean()
    if options.get("structure") != "random":
        assert hotter[:2, :2].mean() > 6 * np.abs(hotter[4:, 4:]).mean()
        assert np.mean([row[0].name.startswith("rows 0-") for row in found.top(1)]) > 0.8


def test_images_without_small_regions_have_reasons(images: np.ndarray) -> None:
    model = CircuitImageDensity(n_epochs=1, depth=1, random_state=0).fit(images[:100])
    found = model.explain(images[:3])
    assert found.heat.shape == (3, 8, 8)
    assert np.isfinite(found.heat).all()


def test_a_guard_explains_by_its_circuit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    x[:, 1] += x[:, 0]
    model = LogisticRegression().fit(x[:100], x[:100, 0] > 0)
    guard = CircuitGuard(model, density=CircuitDensity(n_epochs=3), random_state=0).fit(x[100:], unseen=True)
    assert len(guard.density_.familiar_.surprise) == guard.n_calibration_
    wrong = x[:5].copy()
    wrong[:, 2] += 50.0
    found = guard.explain(wrong)
    assert {row[0].name for row in found.top(1)} == {"x2"}
    guard.save(tmp_path / "guard")
    again = socratic.load(tmp_path / "guard", model=model).explain(wrong)
    np.testing.assert_array_equal(again.p_value, found.p_value)
