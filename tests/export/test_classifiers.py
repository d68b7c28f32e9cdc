"""Classifiers: what is exported says what they say, of rows with holes and of values that they have never seen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from socratic import CircuitClassifier, CircuitImageClassifier
from socratic.export import export_onnx
from socratic.export.models import exported
from tests.export.comparing import furthest, said_by_runtime, said_by_torch, said_in_python
from tests.export.tables import mixed, strange

SMALL: Mapping[str, Any] = {"depth": 2, "n_repetitions": 2, "n_sums": 3, "n_epochs": 1}
N_MIXED = 520
"""Rows from which on some are held out to calibrate on."""


def fitted(n_rows: int = N_MIXED, **settings: Any) -> CircuitClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CircuitClassifier(random_state=0, **settings).fit(*mixed(n_rows))


def compare(model: Any, rows: Any) -> dict[str, float]:
    """How far the outputs are from what Python says, before anything is exported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x,) = model._batches(rows)
        return furthest(said_by_torch(model, x), said_in_python(model, rows))


@pytest.mark.parametrize(
    "settings",
    [
        {"structure": "kernels"},
        {"structure": "kernels", "n_rows": 90},
        pytest.param({"structure": "random", **SMALL}, marks=pytest.mark.slow),
        pytest.param(
            {"structure": "random", "calibrate_by_class": True, "n_circuits": 2, **SMALL}, marks=pytest.mark.slow
        ),
        pytest.param({"structure": "random", "doubt": "dropout", "dropout": 0.1, **SMALL}, marks=pytest.mark.slow),
        {"structure": "kernels", "detector": "typicality"},
        {"structure": "kernels", "detector": "entropy", "calibration_fraction": 0.0},
    ],
    ids=str,
)
def test_modules_say_what_classifiers_say(settings: dict[str, Any]) -> None:
    model = fitted(**settings)
    far = compare(model, strange(60))
    assert set(far) == {"probabilities", "log_likelihood", "mean", "std", "entropy", "mutual_information", "p_value"}
    assert max(far.values()) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [90, N_MIXED])
def test_modules_say_what_forests_say(n_rows: int) -> None:
    far = compare(fitted(n_rows), strange(60))
    assert "p_value" in far
    assert max(far.values()) < 1e-9


@pytest.mark.parametrize(
    ("settings", "refused", "why"),
    [
        ({"posterior": "auto", **SMALL}, "std", "posterior='auto' draws samples; use 'one-pass', 'log-moments' or"),
        ({"leaf_variance": 0.1, **SMALL}, "p_value", "leaf_variance makes the moments depend on which columns"),
    ],
)
def test_what_cannot_be_exported_is_refused(settings: dict[str, Any], refused: str, why: str) -> None:
    made = exported(fitted(60, structure="random", calibration_fraction=0.0, **settings))
    assert made.available == ("probabilities", "log_likelihood")
    with pytest.raises(ValueError, match=f"'{refused}' cannot be exported: {why}"):
        made.choose([refused])


def test_arguments_of_circuits_are_refused() -> None:
    model = fitted(60, structure="kernels", calibration_fraction=0.0)
    with pytest.raises(
        ValueError, match="class_prior is for circuits and graphs; a fitted CircuitClassifier has its o"
    ):
        exported(model, class_prior=(0.5, 0.25, 0.25))


@pytest.fixture(scope="module")
def digits() -> tuple[CircuitImageClassifier, np.ndarray]:
    """A classifier of images, and others, a part of them negatives."""
    data = load_digits()
    images = (15.9 * data.images).astype(np.uint8)
    model = CircuitImageClassifier(n_epochs=1, n_sums=3, n_repetitions=1, random_state=0, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(images[:400], data.target[:400])
    others = images[400:1400].copy()
    others[::9] = 255 - others[::9]
    return model, others


@pytest.mark.slow
def test_modules_say_what_classifiers_of_images_say(digits: tuple[CircuitImageClassifier, np.ndarray]) -> None:
    model, images = digits
    found = said_by_torch(model, torch.as_tensor(images[..., None]))
    far = furthest(found, said_in_python(model, images))
    assert "p_value" in far
    assert max(far.values()) < 1e-5


def check_runtime(path: Path, x: np.ndarray, expected: Mapping[str, np.ndarray], n_calibration: int) -> None:
    """What ONNX Runtime says of any number of rows is within 1e-4; a p-value may be off by a calibration row."""
    for n_rows in (1, 7, len(x)):
        for name, values in said_by_runtime(path, x[:n_rows]).items():
            right = expected[name][:n_rows]
            if name != "p_value":
                np.testing.assert_allclose(values, right, rtol=1e-4, atol=1e-4, err_msg=name)
                continue
            assert (np.abs(values - right) > 1e-9).mean() < 0.02
            assert np.abs(values - right).max() < 1.5 / n_calibration


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"structure": "random", **SMALL}], ids=["forest", "random"])
def test_the_runtime_says_what_classifiers_say(settings: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(**settings)
    rows = strange(1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x,) = model._batches(rows)
        expected = said_in_python(model, rows)
    export_onnx(model, tmp_path / "model.onnx")
    check_runtime(tmp_path / "model.onnx", x.numpy(), expected, model.n_calibration_)


@pytest.mark.slow
def test_the_runtime_says_what_forests_say_of_digits(tmp_path: Path) -> None:
    x, y = load_digits(return_X_y=True)
    model = CircuitClassifier(random_state=0).fit(x[:700], y[:700])
    names = ["probabilities", "log_likelihood", "std"]
    export_onnx(model, tmp_path / "model.onnx", names)
    complete, holed = x[700:1700], x[700:1700].copy()
    holed[::3, ::2] = np.nan
    holed[1] = np.nan
    for rows in (complete, holed):  # of rows with holes there may be none
        (codes,) = model._batches(rows)
        check_runtime(tmp_path / "model.onnx", codes.numpy(), said_in_python(model, rows), model.n_calibration_)


@pytest.mark.slow
def test_the_runtime_says_what_classifiers_of_images_say(
    digits: tuple[CircuitImageClassifier, np.ndarray], tmp_path: Path
) -> None:
    model, images = digits
    export_onnx(model, tmp_path / "model.onnx")
    check_runtime(tmp_path / "model.onnx", images[..., None], said_in_python(model, images), model.n_calibration_)
