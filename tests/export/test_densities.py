"""Densities and outlier detectors: what is exported says what they say, of rows with holes and unknown values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from socratic import CircuitDensity, CircuitImageDensity, CircuitOutlierDetector
from socratic.export import encoding_of, export_onnx
from socratic.export.models import exported
from tests.export.comparing import furthest, said_by_runtime, said_by_torch
from tests.export.tables import mixed, strange

pytestmark = [
    pytest.mark.filterwarnings("ignore:values not seen in training"),
    pytest.mark.filterwarnings("ignore::socratic.errors.CalibrationWarning"),
]
N_MIXED = 520
"""Rows from which on some are held out to calibrate on."""
OF_DENSITY = ("log_likelihood", "relative_std", "log_std")
OF_DETECTOR = (*OF_DENSITY, "p_value", "unfamiliar")


def fitted(kind: Any, n_rows: int = N_MIXED, **settings: Any) -> Any:
    return kind(random_state=0, **settings).fit(mixed(n_rows)[0])


def said_in_python(model: Any, rows: Any) -> dict[str, np.ndarray]:
    doubt = model.uncertainty(rows)
    found = {"log_likelihood": doubt.log_likelihood, "relative_std": doubt.relative_std, "log_std": doubt.log_std}
    if isinstance(model, CircuitOutlierDetector):
        found |= {"p_value": model.p_value(rows), "unfamiliar": model.predict(rows) == -1}
    return found


def check(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], within: float) -> None:
    """What a detector refuses is the same; all else is within so much, or both are infinite."""
    found, expected = dict(found), dict(expected)
    if "unfamiliar" in found:
        refused = found.pop("unfamiliar")
        np.testing.assert_array_equal(refused, expected.pop("unfamiliar")[: len(refused)])
    assert max(furthest(found, expected).values()) < within


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (CircuitDensity, {"n_epochs": 2}),
        (CircuitDensity, {"structure": "random", "n_epochs": 2, "doubt": "dropout"}),
        (CircuitOutlierDetector, {}),
        (CircuitOutlierDetector, {"n_rows": 90}),
        (CircuitOutlierDetector, {"training_outliers": 0.05}),
        (CircuitOutlierDetector, {"calibration_fraction": 0.0, "rejection_rate": 0.2}),
    ],
    ids=str,
)
def test_modules_say_what_models_say(kind: Any, settings: dict[str, Any]) -> None:
    model, rows = fitted(kind, **settings), strange(200)
    (x,) = model._batches(rows)
    found, expected = said_by_torch(model, x), said_in_python(model, rows)
    assert tuple(found) == tuple(expected) == (OF_DETECTOR if kind is CircuitOutlierDetector else OF_DENSITY)
    check(found, expected, 1e-9)
    if kind is CircuitOutlierDetector:
        assert 0 < found["unfamiliar"].sum() < 200


def test_what_cannot_be_exported_is_refused() -> None:
    made = exported(fitted(CircuitOutlierDetector, leaf_variance=0.1))
    assert made.available == ("log_likelihood", "p_value", "unfamiliar")
    with pytest.raises(ValueError, match="'log_std' cannot be exported: leaf_variance makes the moments depend on"):
        made.choose(["log_std"])


def test_the_encoding_says_which_rows_are_refused() -> None:
    model = fitted(CircuitOutlierDetector, rejection_rate=0.1)
    encoding = encoding_of(model, ["p_value"])
    assert encoding["rejection_rate"] == 0.1
    assert "classes" not in encoding
    assert [column["name"] for column in encoding["columns"]] == list(mixed(1)[0].columns)
    assert "rejection_rate" not in encoding_of(fitted(CircuitDensity, structure="kernels"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings"),
    [(CircuitDensity, {}), (CircuitOutlierDetector, {}), (CircuitOutlierDetector, {"n_rows": 90})],
    ids=str,
)
def test_the_runtime_says_what_models_say(kind: Any, settings: dict[str, Any], tmp_path: Path) -> None:
    model, rows = fitted(kind, **settings), strange(1000)
    (x,) = model._batches(rows)
    export_onnx(model, tmp_path / "model.onnx")
    expected = said_in_python(model, rows)
    for n_rows in (1, 7, 1000):
        check(said_by_runtime(tmp_path / "model.onnx", x[:n_rows].numpy()), expected, 1e-4)


@pytest.mark.slow
def test_the_runtime_says_what_densities_of_images_say(tmp_path: Path) -> None:
    images = (15.9 * load_digits().images).astype(np.uint8)
    model = CircuitImageDensity(n_epochs=1, n_sums=3, n_repetitions=1, random_state=0, device="cpu").fit(images[:400])
    export_onnx(model, tmp_path / "model.onnx")
    found = said_by_runtime(tmp_path / "model.onnx", images[400:500, ..., None])
    expected = {"log_likelihood": model.score_samples(images[400:500])}
    assert list(found) == ["log_likelihood"]
    np.testing.assert_allclose(found["log_likelihood"], expected["log_likelihood"], rtol=1e-4)
    module = said_by_torch(model, torch.as_tensor(images[400:500, ..., None]))
    np.testing.assert_allclose(module["log_likelihood"], expected["log_likelihood"], rtol=1e-6)
