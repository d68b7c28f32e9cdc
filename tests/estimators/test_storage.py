"""Model files of estimators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import socratic
from socratic.errors import ModelFileError
from socratic.estimators import (
    CircuitClassifier,
    CircuitDensity,
    CircuitImageClassifier,
    CircuitOutlierDetector,
    storage,
)
from socratic.families import Binomial
from socratic.model_files import read_tensors, write_tensors
from tests.estimators.test_classifier import mixed_frame

QUICK: dict[str, Any] = {"n_epochs": 2, "n_sums": 3, "n_repetitions": 2, "random_state": 0}
FRAME, LABELS = mixed_frame(150)
Query = Callable[[Any], Any]
ANSWERS: dict[type, list[Query]] = {
    CircuitClassifier: [
        lambda model: model.predict_proba(FRAME),
        lambda model: model.uncertainty(FRAME).std,
        lambda model: model.uncertainty(FRAME).p_value,
        lambda model: model.predict_or_reject(FRAME),
        lambda model: model.sample(5, random_state=0)[1],
    ],
    CircuitOutlierDetector: [
        lambda model: model.decision_function(FRAME),
        lambda model: model.p_value(FRAME),
        lambda model: model.predict(FRAME),
        lambda model: model.uncertainty(FRAME).relative_std,
    ],
    CircuitDensity: [
        lambda model: model.score_samples(FRAME),
        lambda model: model.conditional(FRAME, given=["age"]),
        lambda model: model.sample(5, random_state=0),
        lambda model: model.uncertainty(FRAME).log_mean,
    ],
}


@pytest.mark.parametrize("estimator", ANSWERS)
@pytest.mark.parametrize("structure", ["random", "learnspn"])
def test_saved_estimators_come_back_the_same(estimator: Any, structure: str, tmp_path: Path) -> None:
    weight = np.random.default_rng(0).integers(1, 4, len(FRAME))
    more = {"rejection_rate": 0.1} if estimator is not CircuitDensity else {}
    model = estimator(**QUICK, structure=structure, leaf={"age": Binomial(20)}, **more)
    model.fit(FRAME, LABELS, sample_weight=weight)
    model.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert isinstance(loaded, estimator)
    assert loaded.get_params() == model.get_params()
    assert loaded.describe_columns() == model.describe_columns()
    assert vars(loaded).keys() == vars(model).keys()
    assert (loaded.n_iter_, str(loaded.history_)) == (model.n_iter_, str(model.history_))
    for answer in ANSWERS[estimator]:
        pd.testing.assert_frame_equal(pd.DataFrame(answer(loaded)), pd.DataFrame(answer(model)))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_cross_fitted_models_keep_their_risk(tmp_path: Path) -> None:
    model = CircuitClassifier(structure="learnspn", risk=0.3, random_state=0).fit(FRAME, LABELS)
    assert model.folds_
    model.save(tmp_path / "model")
    tensors, config = read_tensors(tmp_path / "model", storage.FORMAT, storage.VERSION)
    for fold in config["fitted"]["folds_"]:
        fold["parameters"]["risk"] = 0.3  # as files of before have it
    write_tensors(tmp_path / "before", storage.FORMAT, storage.VERSION, tensors, config)
    for name in ("model", "before"):
        loaded = socratic.load(tmp_path / name)
        assert loaded.risk == 0.3
        assert np.array_equal(loaded.verdict(FRAME), model.verdict(FRAME))
        loaded.save(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_every_estimator_can_be_stored() -> None:
    """A new estimator has its place in ``ESTIMATORS``, a new attribute of its own in ``PARTS``."""
    named = {name: value for name, value in vars(socratic.estimators).items() if inspect.isclass(value)}
    assert {name for name, value in named.items() if hasattr(value, "fit")} == storage.ESTIMATORS.keys()


def test_what_is_not_fitted_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted yet"):
        CircuitDensity().save(tmp_path / "model")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stored") / "model"
    CircuitClassifier(structure="learnspn", random_state=0).fit(FRAME, LABELS).save(path)
    return path


def test_halves_of_files_are_refused(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(ModelFileError, match="is damaged"):
        socratic.load(path)


@pytest.mark.slow
def test_missing_tensors_are_noticed(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "model"
    tensors, config = read_tensors(file, storage.FORMAT, storage.VERSION)
    assert any(name.startswith("folds_/4/") for name in tensors)
    for name in tensors:
        if name.startswith(("folds_/1/", "folds_/2/", "folds_/3/", "folds_/4/")):
            continue  # which are written as the first is
        rest = {other: tensor for other, tensor in tensors.items() if other != name}
        write_tensors(path, storage.FORMAT, storage.VERSION, rest, config)
        with pytest.raises(ModelFileError, match="is damaged: it does not describe a CircuitClassifier"):
            socratic.load(path)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("estimator",), "os.system"),
        (("estimator",), None),
        (("parameters",), {"weather": "fine"}),
        (("parameters", "masks"), "zz"),
        (("parameters", "rejection_rate"), 7),
        (("fitted",), {}),
        (("fitted", "__class__"), "x"),
        (("fitted", "circuit_"), None),
        (("fitted", "circuit_", "config"), {}),
        (("fitted", "classes_", "labels"), None),
        (("fitted", "n_features_in_"), 0),
        (("fitted", "dropout_"), 2.5),
        (("fitted", "n_calibration_"), None),
        (("fitted", "detector_", "weights"), None),
        (("fitted", "table_", 0, "scale"), 0.0),
        (("fitted", "table_", 0, "mean"), "zz"),
        (("fitted", "feature_names_in_"), ["a"]),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(
    file: Path, tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
    tensors, config = read_tensors(file, storage.FORMAT, storage.VERSION)
    part = config
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path = tmp_path / "model"
    write_tensors(path, storage.FORMAT, storage.VERSION, tensors, config)
    with pytest.raises(ModelFileError, match="is damaged: it does not describe a"):
        socratic.load(path)


def test_classifiers_of_images_come_back_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (150, 4, 6, 3)).astype(np.uint8)
    model = CircuitImageClassifier(n_epochs=1, n_sums=2, wavelet_levels=1, random_state=0)
    model.fit(images, rng.integers(0, 2, 150)).save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert vars(loaded).keys() == vars(model).keys()
    assert (loaded.sizes_, loaded.image_shape_) == (model.sizes_, model.image_shape_)
    np.testing.assert_array_equal(loaded.predict_proba(images), model.predict_proba(images))
    np.testing.assert_array_equal(loaded.uncertainty(images).p_value, model.uncertainty(images).p_value)
