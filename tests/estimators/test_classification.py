"""What classifiers doubt: weights by the rows that taught them, or dropout as it was before there was a choice."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import socratic
from socratic.estimators import CircuitClassifier, CircuitImageClassifier, storage
from socratic.inference.tempering import WORTHS
from socratic.model_files import read_tensors, write_tensors
from socratic.tables.inputs import encode_rows
from socratic.uncertainty.detector import MIN_REFERENCE
from socratic.uncertainty.scores import SCORES
from tests.estimators.test_calibration import blobs

QUICK: dict[str, Any] = {"n_epochs": 4, "n_sums": 3, "n_repetitions": 2, "random_state": 0}
NEW = ("committee_", "doubt_", "weight_posterior_", "profile_", "class_profile_")


@pytest.fixture(scope="module")
def fitted() -> CircuitClassifier:
    return CircuitClassifier(**QUICK).fit(*blobs(600, 0))


def test_the_weights_are_those_of_the_circuit(fitted: CircuitClassifier) -> None:
    x = encode_rows(fitted, blobs(50, 1)[0])
    moments = socratic.moments(fitted.circuit_.requires_grad_(False), x, fitted.weight_posterior_)
    torch.testing.assert_close(moments.log_mean, fitted.circuit_.log_likelihood(x), rtol=1e-5, atol=1e-5)
    assert fitted.weight_posterior_.worth in WORTHS
    total = sum(float(visits.sum()) for visits in fitted.weight_posterior_.visits)
    assert total >= 0.7 * 600  # every row that was trained on visits at least one sum


def test_rows_that_were_not_trained_on_teach_nothing() -> None:
    """All rows are trained on without calibration: they alone are counted."""
    x, y = blobs(80, 0)
    with pytest.warns(socratic.CalibrationWarning):
        model = CircuitClassifier(**QUICK, calibration_fraction=0.0).fit(x, y)
    expected = socratic.weight_posterior(model.circuit_, encode_rows(model, x), y)
    for found, visits in zip(model.weight_posterior_.visits, expected.visits, strict=True):
        np.testing.assert_allclose(found.numpy(), visits.numpy(), rtol=1e-4)


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
@pytest.mark.parametrize("structure", ["random", "learnspn"])
def test_more_rows_leave_less_doubt(structure: str) -> None:
    x, y = load_iris(return_X_y=True)
    few = CircuitClassifier(**QUICK, structure=structure).fit(x, y)
    new = x + np.random.default_rng(0).normal(size=x.shape)
    doubts = [few.uncertainty(new)]
    for worth in (10.0, 100.0):
        few.weight_posterior_ = few.weight_posterior_.tempered(worth=worth)
        doubts.append(few.uncertainty(new))
    for name in ("std", "mutual_information", "log_std"):
        means = [getattr(doubt, name).mean() for doubt in doubts]
        assert means[0] > 2.0 * means[1] > 4.0 * means[2] > 0.0


def test_dropout_is_what_it_was(fitted: CircuitClassifier) -> None:
    x = blobs(80, 2)[0]
    found = fitted.set_params(doubt="dropout").uncertainty(x)
    fitted.set_params(doubt="weights")
    expected = socratic.dropout_posterior(
        fitted.circuit_.requires_grad_(False),
        encode_rows(fitted, x),
        dropout=fitted.dropout_,
        method="expansion",
        class_prior=fitted.class_prior_.tolist(),
    )
    for name in ("mean", "std", "entropy", "mutual_information"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name).numpy(), rtol=1e-9)


def test_a_detector_of_enough_rows_uses_what_tells_shifts_apart(fitted: CircuitClassifier) -> None:
    assert fitted.n_calibration_ >= 2 * MIN_REFERENCE
    weights = fitted.detector_.weights
    assert tuple(weights) == SCORES
    assert sum(weights.values()) == pytest.approx(1.0)
    assert min(weights.values()) >= 0.0
    assert (fitted.uncertainty(blobs(50, 3)[0] + 20.0).p_value <= 0.05).all()


@pytest.mark.parametrize("n_circuits", [1, 2])
def test_files_without_weights_to_doubt_answer_by_dropout(n_circuits: int, tmp_path: Path) -> None:
    """As they were written before; circuits that were joined are one."""
    x, y = blobs(300, 0)
    model = CircuitClassifier(**QUICK, n_circuits=n_circuits, doubt="dropout", detector="entropy").fit(x, y)
    if n_circuits > 1:
        del model.committee_
    expected = model.answer(x)
    model.save(tmp_path / "model")
    tensors, config = read_tensors(tmp_path / "model", storage.FORMAT, storage.VERSION)
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(NEW)}
    config["fitted"] = {name: state for name, state in config["fitted"].items() if name not in NEW}
    config["parameters"]["posterior"] = "expansion"
    del config["parameters"]["doubt"]
    write_tensors(tmp_path / "before", storage.FORMAT, storage.VERSION, kept, config)
    loaded = socratic.load(tmp_path / "before")
    assert loaded.doubt == "dropout"
    found = loaded.answer(x)
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)
    for name in ("mean", "std", "p_value"):
        np.testing.assert_array_equal(getattr(found.uncertainty, name), getattr(expected.uncertainty, name))
    assert np.isnan(found.uncertainty.profile).all()
    loaded.save(tmp_path / "again")
    assert socratic.load(tmp_path / "again").doubt == "dropout"


def test_images_have_weights_in_doubt_too() -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (200, 4, 4)).astype(np.uint8), rng.integers(0, 2, 200)
    model = CircuitImageClassifier(n_epochs=1, n_sums=2, random_state=0).fit(images, labels)
    found = model.uncertainty(images)
    assert (found.log_std > 0.0).all()
    less = model.weight_posterior_.tempered(worth=100.0)
    model.weight_posterior_ = less
    assert (model.uncertainty(images).log_std < found.log_std).all()


def test_a_doubt_that_changed_since_fit_is_told(fitted: CircuitClassifier) -> None:
    model = copy.deepcopy(fitted)
    other = "dropout" if model.doubt == "weights" else "weights"
    assert model.calibrated_
    model.set_params(doubt=other)
    assert not model.calibrated_
    with pytest.warns(socratic.CalibrationWarning, match=f"calibrated for doubt='{fitted.doubt}'"):
        model.reject(blobs(20, 1)[0])
    model.set_params(doubt="masks")
    with pytest.raises(ValueError, match="doubt must be one of 'weights', 'dropout'; got 'masks'"):
        model.uncertainty(blobs(20, 1)[0])


def test_a_model_without_a_weight_posterior_says_so(fitted: CircuitClassifier) -> None:
    model = copy.deepcopy(fitted)
    del model.weight_posterior_
    model.set_params(doubt="weights")
    with pytest.raises(ValueError, match="doubt must be 'dropout' for this model"):
        model.uncertainty(blobs(20, 1)[0])
