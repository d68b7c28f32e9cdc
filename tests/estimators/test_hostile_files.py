"""Files whose digest is right and whose content is not: what is declared is compared with what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import socratic
from socratic import CircuitClassifier, CircuitDensity, CircuitImageDensity, CircuitOutlierDetector
from socratic.errors import ModelFileError
from socratic.estimators.storage import FORMAT, VERSION
from socratic.model_files import read_tensors, write_tensors

RNG = np.random.default_rng(0)
ROWS = np.column_stack([RNG.normal(size=(120, 2)), RNG.integers(0, 3, 120), RNG.integers(0, 2, 120)])
pytestmark = pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("hostile")
    labels = np.array(["no", "yes"])[RNG.integers(0, 2, 120)]
    CircuitClassifier(structure="kernels", random_state=0).fit(ROWS, labels).save(found / "classifier")
    CircuitDensity(structure="kernels", leaf={"x2": "categorical"}, random_state=0).fit(ROWS).save(found / "density")
    CircuitOutlierDetector(structure="kernels", random_state=0).fit(ROWS).save(found / "detector")
    images = RNG.integers(0, 256, (60, 4, 4)).astype(np.uint8)
    sizes = {"n_sums": 2, "n_epochs": 1, "wavelet_levels": 1}
    CircuitImageDensity(**sizes, random_state=0).fit(images).save(found / "images")
    return found


@pytest.mark.parametrize(
    ("model", "place", "value", "message"),
    [
        ("classifier", ("classes_", "kind"), "<U500000000", "its classes are of the type '<U500000000'"),
        (
            "classifier",
            ("classes_", "labels"),
            [*map(str, range(2000)), "x" * 10**5],
            "its 2001 classes has a name of 100000 char",
        ),
        ("classifier", ("classes_", "labels"), ["no", "no"], "its classes are no different values"),
        ("classifier", ("classes_", "labels"), [1.5, 2], "object of type 'float' has no len"),
        ("classifier", ("classes_", "kind"), "<i8", "invalid literal"),
        ("classifier", ("classes_", "kind"), "O8", "of the type 'O8'"),
        ("images", ("encoder_", "levels"), 10**10, "10000000000 levels of a wavelet do not fit images of 4 x 4"),
        ("images", ("encoder_", "levels"), 2, "mean of pixels must hold finite numbers of the shape"),
        ("images", ("encoder_", "shape"), [2, 8, 1], "its images do not fit its circuit"),
        ("density", ("table_", 2, "counts"), [1.0], "counts 1 values and has 3"),
        ("density", ("table_", 2, "counts"), [1.0, 2.0, "many"], "a count of the column 'x2' must be a finite number"),
        ("density", ("table_", 2, "categories"), list("abcd"), "the values of the column 'x2' do not fit"),
        ("density", ("table_", 2, "family"), {"family": "categorical", "n_categories": 10**10}, "are not those of"),
        ("density", ("table_", 2, "scale"), 2.0, "the column 'x2' has categorical leaves, whose values are not scaled"),
        ("density", ("table_", 0, "family"), {"family": "gamma"}, "the leaves of 'x0' are not those of its circuit"),
        ("density", ("table_", 0, "mean"), "0", "mean of the column 'x0' must be a finite number; got '0'"),
        ("density", ("table_", 0, "unseen"), 2.0, "unseen of the column 'x0' must be between 0 and 1"),
        ("density", ("table_", 0, "constant"), "yes", "constant of the column 'x0' must be true or false"),
        ("density", ("n_features_in_",), 4.0, "n_features_in_ must be a whole number"),
    ],
)
def test_what_is_declared_is_what_is_there(
    folder: Path, tmp_path: Path, model: str, place: tuple[Any, ...], value: Any, message: str
) -> None:
    tensors, config = read_tensors(folder / model, FORMAT, VERSION)
    part = config["fitted"]
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    write_tensors(tmp_path / "model", FORMAT, VERSION, tensors, config)
    with pytest.raises(ModelFileError, match=message):
        socratic.load(tmp_path / "model")


@pytest.mark.parametrize("model", ["classifier", "density", "detector", "images"])
def test_no_tensor_may_be_emptied_or_of_another_shape(folder: Path, tmp_path: Path, model: str) -> None:
    tensors, config = read_tensors(folder / model, FORMAT, VERSION)
    for name, tensor in tensors.items():
        if name.startswith(tuple(f"folds_/{number}/" for number in range(1, 9))):
            continue  # written as the first is
        longer = torch.cat([tensor, tensor]) if tensor.ndim else tensor.repeat(2)
        for changed in (
            tensor[..., :0] if tensor.ndim else tensor.new_empty(0),
            longer,
            tensor.reshape(1, *tensor.shape),
        ):
            if changed.shape == tensor.shape:
                continue  # it was empty
            write_tensors(tmp_path / "model", FORMAT, VERSION, {**tensors, name: changed}, config)
            with pytest.raises(ModelFileError):
                socratic.load(tmp_path / "model")


@pytest.mark.parametrize(("place", "value"), [("levels", 10**10), ("kind", "<U500000000")])
def test_forged_sizes_take_neither_time_nor_memory(folder: Path, tmp_path: Path, place: str, value: Any) -> None:
    name, part = ("images", "encoder_") if place == "levels" else ("classifier", "classes_")
    tensors, config = read_tensors(folder / name, FORMAT, VERSION)
    config["fitted"][part][place] = value
    write_tensors(tmp_path / "model", FORMAT, VERSION, tensors, config)
    program = f"""
import resource, socratic, socratic.estimators, socratic.estimators.storage
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    socratic.load({str(tmp_path / "model")!r})
except socratic.ModelFileError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert int(found.stdout) < 100_000  # KB


def test_types_of_labels_come_back(tmp_path: Path) -> None:
    y = np.arange(120) % 2
    kinds: list[Any] = ["<M8[D]", "<M8[ns]", "<m8[s]", "bool", "int8", "uint64", "float64", "U", object]
    for kind in kinds:
        labels = np.array(["a", "b"], dtype=kind) if kind in ("U", object) else (y[:2] + 3).astype(kind)
        if kind == "bool":
            labels = np.array([False, True])
        model = CircuitClassifier(structure="kernels", random_state=0).fit(ROWS, labels[y])
        model.save(tmp_path / "model")
        found = socratic.load(tmp_path / "model")
        assert found.classes_.dtype == model.classes_.dtype
        np.testing.assert_array_equal(found.classes_, labels)


@pytest.mark.parametrize("size", [1e308, 1e160, 1e-300])
@pytest.mark.parametrize("kind", ["constant", "positive", "both"])
def test_columns_of_extreme_numbers_come_back(size: float, kind: str, tmp_path: Path) -> None:
    rows = ROWS.copy()
    share = RNG.random(len(rows))
    rows[:, 0] = {"constant": size, "positive": size * share, "both": size * (share - 0.5)}[kind]
    model = CircuitDensity(structure="kernels", random_state=0).fit(rows)
    model.save(tmp_path / "model")
    found = model.score_samples(rows)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(socratic.load(tmp_path / "model").score_samples(rows), found)


def test_units_change_nothing_but_the_density() -> None:
    """By a power of 2, nothing at all."""
    ordinary, tiny = (
        CircuitDensity(structure="kernels", random_state=0).fit(ROWS * size).score_samples(ROWS * size)
        for size in (1.0, 2.0**-900)
    )
    np.testing.assert_allclose(tiny - ordinary, 3 * 900 * np.log(2.0), rtol=1e-12)
