"""Guards in files: beside the model, never with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from sklearn.linear_model import LogisticRegression

import socratic
from socratic import CircuitDensity, CircuitGuard, CircuitImageDensity, ModelFileError
from socratic.estimators.storage import FORMAT, VERSION
from socratic.model_files import read_tensors, write_tensors
from tests.estimators.test_guard import QUICK, generated, logistic
from tests.estimators.test_guarded import halves

X, Y = generated(700, 0)


@pytest.fixture(scope="module")
def guard() -> CircuitGuard:
    model = logistic(X[:300], Y[:300])
    guard = CircuitGuard(model, density=QUICK, rejected_label="?", random_state=0)
    return guard.fit(X[300:], unseen=True)


@pytest.fixture
def path(guard: CircuitGuard, tmp_path: Path) -> Path:
    guard.save(tmp_path / "guard")
    return tmp_path / "guard"


def test_a_guard_comes_back_the_same_to_the_same_model(guard: CircuitGuard, path: Path) -> None:
    loaded = socratic.load(path, model=guard.model)
    assert isinstance(loaded, CircuitGuard)
    assert loaded.model is guard.model
    assert vars(loaded).keys() == vars(guard).keys()
    np.testing.assert_array_equal(loaded.score_samples(X), guard.score_samples(X))
    np.testing.assert_array_equal(loaded.predict_or_reject(X), guard.predict_or_reject(X))
    assert loaded.density_.get_params() == guard.density_.get_params()
    assert repr(loaded.density) == repr(guard.density)
    loaded.save(path.with_name("again"))
    assert path.with_name("again").read_bytes() == path.read_bytes()


def test_a_guard_of_images_comes_back(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (150, 4, 4)).astype(np.uint8)

    def model(batch: np.ndarray) -> np.ndarray:
        return halves((batch.astype(float) - 127.5).reshape(len(batch), -1) / 255)

    density = CircuitImageDensity(n_epochs=1, n_sums=2)
    guard = CircuitGuard(model, density=density, random_state=0).fit(images, unseen=True)
    guard.save(tmp_path / "guard")
    loaded = socratic.load(tmp_path / "guard", model=model)
    np.testing.assert_array_equal(loaded.p_value(images), guard.p_value(images))


def test_nothing_of_the_model_is_in_the_file(guard: CircuitGuard, path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        text = file.metadata()["socratic"]
        names = {name.split("/")[0] for name in file.keys()}  # noqa: SIM118 - it is no dictionary
    assert names == {"density_", "detector_", "profile_"}
    assert "LogisticRegression" not in text
    assert '"model"' not in text


@pytest.mark.slow
def test_another_process_gives_the_same_p_values(tmp_path: Path) -> None:
    guard = CircuitGuard(halves, density=QUICK, random_state=0).fit(X, unseen=True)
    guard.save(tmp_path / "guard")
    np.save(tmp_path / "rows", X)
    code = (
        "import sys, numpy, socratic; from tests.estimators.test_guarded import halves; folder = sys.argv[1]; "
        "guard = socratic.load(folder + '/guard', model=halves); "
        "numpy.save(folder + '/found', guard.p_value(numpy.load(folder + '/rows.npy')))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), guard.p_value(X))


def test_a_guard_needs_its_model_and_nothing_else_does(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds a guard without its model: give it as model"):
        socratic.load(path)
    CircuitDensity(n_epochs=1).fit(X).save(tmp_path / "density")
    with pytest.raises(ValueError, match=r"model is for guards; .*density holds a CircuitDensity"):
        socratic.load(tmp_path / "density", model=halves)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression().fit(X, Y > 0), r"its classes_ are \[False  True\], not \[0 1 2 3\]"),
        (LogisticRegression(max_iter=1000).fit(X[:, :5], Y), "its n_features_in_ are 5, not 8"),
        (LogisticRegression, "model must be a fitted classifier with predict_proba, or a callable"),
    ],
)
def test_another_model_is_refused(path: Path, model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        socratic.load(path, model=model)


def test_a_callable_with_other_classes_is_refused_when_it_is_asked(path: Path) -> None:
    loaded = socratic.load(path, model=halves)
    with pytest.raises(ValueError, match="for each of 4 classes, as it did when the guard was fitted; got 2"):
        loaded.reject(X)


def change(part: str, value: Any) -> Any:
    def changed(config: dict[str, Any]) -> None:
        config["fitted"][part] = value

    return changed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (change("density_", {"estimator": "os.system"}), r"describe a CircuitGuard \(its estimator must be one of"),
        (change("density_", {"estimator": "CircuitOutlierDetector", "parameters": {}, "fitted": {}}), "CircuitGuard"),
        (change("n_calibration_", -1), "n_calibration_ must be a whole number of at least 0; got -1"),
        (change("profile_", {}), "the profile of the model cannot be read"),
        (lambda config: config["fitted"].pop("density_"), "has no attribute 'density_'"),
        (lambda config: config["parameters"].update(rejection_rate=7), "rejection_rate must be a number"),
    ],
)
def test_damaged_files_are_refused(guard: CircuitGuard, path: Path, changed: Any, message: str) -> None:
    tensors, config = read_tensors(path, FORMAT, VERSION)
    changed(config)
    write_tensors(path, FORMAT, VERSION, tensors, config)
    with pytest.raises(ModelFileError, match=message):
        socratic.load(path, model=guard.model)


def test_a_score_that_guards_do_not_have_is_named(guard: CircuitGuard, path: Path) -> None:
    tensors, config = read_tensors(path, FORMAT, VERSION)
    state = config["fitted"]["detector_"]
    state["weights"]["smell"] = state["weights"]["entropy"]
    for part in ("knots", "values", "tail"):
        tensors[f"detector_/smell.{part}"] = tensors[f"detector_/entropy.{part}"].clone()
    write_tensors(path, FORMAT, VERSION, tensors, config)
    with pytest.raises(ModelFileError, match=r"a score of its detector must be one of .*; got 'smell'"):
        socratic.load(path, model=guard.model)


def test_a_circuit_can_be_guarded_and_stays_out_of_the_file(tmp_path: Path) -> None:
    model = socratic.CircuitClassifier(n_epochs=2, n_sums=2, n_repetitions=1, random_state=0).fit(X[:300], Y[:300])
    guard = CircuitGuard(model, density=QUICK, random_state=0).fit(X[300:], unseen=True)
    guard.save(tmp_path / "guard")
    assert "CircuitClassifier" not in str(read_tensors(tmp_path / "guard", FORMAT, VERSION)[1])
    np.testing.assert_array_equal(socratic.load(tmp_path / "guard", model=model).p_value(X), guard.p_value(X))
