"""Training on folders of Parquet files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import socratic
from socratic import CircuitClassifier, CircuitDensity, CircuitOutlierDetector
from socratic.errors import CalibrationWarning, DataFileError
from socratic.estimators import CircuitImageClassifier
from socratic.learning import gradient
from socratic.scale import Place, fit_files

SMALL: dict[str, Any] = {"n_sums": 2, "n_repetitions": 1, "depth": 1, "n_epochs": 2, "random_state": 0, "n_jobs": 1}


def table(n_rows: int, seed: int) -> pd.DataFrame:
    """Three classes; numbers, text, booleans, missing values and a heavy tail."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 3)) + y[:, None] * [1.5, 0.5, -1.0], columns=["a", "b", "c"])
    frame.loc[rng.random(n_rows) < 0.05, "a"] = np.nan
    frame["income"] = np.exp(rng.normal(size=n_rows) * 1.5 + y)
    frame["colour"] = np.where(rng.random(n_rows) < 0.7, np.array(["red", "blue", "green"])[y], "black")
    frame["member"] = rng.random(n_rows) < 0.3 + 0.2 * y
    frame["y"] = np.array(["low", "mid", "high"])[y]
    return frame


def write(folder: Path, frame: pd.DataFrame, n_files: int = 3, group: int = 97) -> Path:
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[rows].to_parquet(folder / f"part{number}.parquet", index=False, row_group_size=group)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "rows", table(600, seed=0))


def parameters(model: Any) -> torch.Tensor:
    return torch.cat([value.flatten() for value in model.circuit_.state_dict().values() if value.is_floating_point()])


def test_classifiers_are_trained_and_saved(folder: Path, tmp_path: Path) -> None:
    model = fit_files(CircuitClassifier(**SMALL), folder, "y")
    assert model.structure_ == "random"
    assert model.classes_.tolist() == ["high", "low", "mid"]
    assert list(model.feature_names_in_) == ["a", "b", "c", "income", "colour", "member"]
    assert [column.kind for column in model.table_.columns] == ["gaussian"] * 4 + ["categorical", "bernoulli"]
    assert model.calibrated_
    model.save(tmp_path / "model")
    fresh = table(50, seed=1).drop(columns="y")
    assert np.array_equal(socratic.load(tmp_path / "model").predict_proba(fresh), model.predict_proba(fresh))


def test_the_seed_decides_everything(folder: Path) -> None:
    first, again = (fit_files(CircuitClassifier(**SMALL), folder, "y") for _ in range(2))
    other = fit_files(CircuitClassifier(**SMALL | {"random_state": 1}), folder, "y")
    assert torch.equal(parameters(first), parameters(again))
    assert not torch.equal(parameters(first), parameters(other))
    assert first.detector_.calibration.p_value(np.zeros(1)) == again.detector_.calibration.p_value(np.zeros(1))


def test_densities_and_detectors_need_no_target(folder: Path) -> None:
    size = {"n_epochs": 2, "random_state": 0, "n_jobs": 1, "n_sums": 2}
    fresh = table(200, seed=1).drop(columns="y")
    density = fit_files(CircuitDensity(**size), folder, drop=["y"])
    assert density.structure_ == "hidden-chow-liu"
    by_gradient = fit_files(CircuitDensity(**size, structure="random", optimiser="adam"), folder, drop=["y"])
    assert np.isfinite([density.score(fresh), by_gradient.score(fresh)]).all()
    detector = fit_files(CircuitOutlierDetector(**size), folder, drop=["y"])
    assert detector.structure_reason_ == "n_sums=2 is for circuits that are trained"
    assert np.mean(detector.predict(fresh) == -1) < 0.2
    assert detector.predict(fresh.assign(b=50.0)).tolist() == [-1] * 200


def test_models_that_cannot_keep_their_rate_say_so(folder: Path) -> None:
    with pytest.warns(CalibrationWarning, match="no rows were held out to calibrate on"):
        model = fit_files(CircuitClassifier(**SMALL, calibration_fraction=0.0), folder, "y")
    assert not model.calibrated_


def test_rare_categories_and_classes_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.estimators.streaming._MOST_TRAIN", 50)
    frame = table(600, seed=0)
    frame.loc[[17, 401], "colour"] = "gold"
    frame.loc[500, "y"] = "unique"
    frame.loc[300, "b"] = 40.0
    model = fit_files(CircuitClassifier(**SMALL), write(tmp_path / "rows", frame), "y")
    assert model.classes_.tolist() == ["high", "low", "mid", "unique"]
    assert 0 < model.class_prior_[3] < 0.01
    colours = model.table_.columns[4]
    assert colours.categories == ("black", "blue", "gold", "green", "red")
    assert colours.counts is not None
    assert sum(colours.counts) == pytest.approx(480, abs=5)  # a fifth is held out
    assert colours.counts[2] in (1.0, 2.0)


def test_units_make_no_difference_and_unseen_values_do(tmp_path: Path) -> None:
    train, fresh = table(600, seed=0), table(100, seed=1).drop(columns="y")
    p_values = []
    for scale in (1.0, 1000.0):
        folder = write(tmp_path / str(scale), train.assign(a=train["a"] * scale))
        model = fit_files(CircuitClassifier(**SMALL), folder, "y")
        p_values.append(model.uncertainty(fresh.assign(a=fresh["a"] * scale)).p_value)
    np.testing.assert_allclose(p_values[0], p_values[1], atol=1e-6)
    with pytest.warns(UserWarning, match="values not seen in training count against their rows"):
        strange = model.uncertainty(fresh.assign(a=fresh["a"] * scale, colour="mauve")).p_value
    assert strange.mean() < 0.9 * p_values[1].mean()


def test_booleans_are_classes_as_text(tmp_path: Path) -> None:
    frame = table(300, seed=0)
    model = fit_files(CircuitClassifier(**SMALL), write(tmp_path / "rows", frame.assign(y=frame["y"] == "low")), "y")
    assert model.classes_.tolist() == ["False", "True"]


def test_doubt_shrinks_with_all_rows_not_with_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.estimators.streaming._MOST_TRAIN", 50)
    model = fit_files(CircuitClassifier(**SMALL), write(tmp_path / "rows", table(600, seed=0)), "y")
    visits = sum(float(visits.sum()) for visits in model.weight_posterior_.visits[-1:])
    assert visits == pytest.approx(600 - 120, abs=5)


def test_an_interrupted_training_resumes_to_the_same_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SMALL | {"n_epochs": 4}
    whole = fit_files(CircuitClassifier(**settings), folder, "y")
    epoch = gradient._epoch

    def interrupted(step: Any, rows: Any, number: int, *others: Any) -> float:
        if number == 2:
            raise KeyboardInterrupt
        return epoch(step, rows, number, *others)

    monkeypatch.setattr(gradient, "_epoch", interrupted)
    checkpoint = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        fit_files(CircuitClassifier(**settings, checkpoint=checkpoint), folder, "y")
    numbers: list[int] = []

    def counted(step: Any, rows: Any, number: int, *others: Any) -> float:
        numbers.append(number)
        return epoch(step, rows, number, *others)

    monkeypatch.setattr(gradient, "_epoch", counted)
    resumed = fit_files(CircuitClassifier(**settings, checkpoint=checkpoint), folder, "y")
    assert numbers == [2, 3]
    assert torch.equal(parameters(whole), parameters(resumed))
    assert not checkpoint.exists()


def test_weights_and_rows_without_a_class(tmp_path: Path) -> None:
    frame = table(400, seed=0)
    frame["weight"] = np.where(np.arange(400) % 4 == 0, 0.0, 1.0)
    frame.loc[frame["weight"] == 0.0, "colour"] = "never"
    frame.loc[5, "y"] = None
    folder = write(tmp_path / "rows", frame)
    with pytest.raises(DataFileError, match=r"target 'y' is missing in 1 row, first in .*part0\.parquet, row 6; fill"):
        fit_files(CircuitClassifier(**SMALL), folder, "y", weight="weight")
    model = fit_files(CircuitClassifier(**SMALL), folder, "y", weight="weight", drop_missing_target=True)
    assert "weight" not in model.feature_names_in_
    assert "never" not in (model.table_.columns[4].categories or ())
    frame.loc[399, "weight"] = -1.0
    with pytest.raises(DataFileError, match=r"part2\.parquet: row 133, column 'weight': a weight must be a number"):
        fit_files(CircuitClassifier(**SMALL), write(folder, frame), "y", weight="weight", drop_missing_target=True)


def test_object_stores_are_read_like_folders(folder: Path) -> None:
    from pyarrow import fs

    memory = fs._MockFileSystem()
    memory.create_dir("bucket/rows")
    for path in folder.iterdir():
        with memory.open_output_stream(f"bucket/rows/{path.name}") as file:
            file.write(path.read_bytes())
    remote = fit_files(CircuitClassifier(**SMALL), Place(memory, "bucket/rows"), "y")
    assert torch.equal(parameters(remote), parameters(fit_files(CircuitClassifier(**SMALL), folder, "y")))


def test_mistakes_are_named(folder: Path, tmp_path: Path) -> None:
    model = CircuitClassifier(**SMALL)
    with pytest.raises(DataFileError, match=r"there are no tables .* in .*nowhere"):
        fit_files(model, tmp_path / "nowhere", "y")
    with pytest.raises(ValueError, match="CircuitClassifier needs a target, the column with the classes; got"):
        fit_files(model, folder)
    with pytest.raises(ValueError, match="CircuitDensity takes no target; got target='y'"):
        fit_files(CircuitDensity(), folder, "y")
    with pytest.raises(ValueError, match="one of tables, such as CircuitClassifier; got CircuitImageClassifier"):
        fit_files(CircuitImageClassifier(), folder, "y")
    with pytest.raises(DataFileError, match=r"part0\.parquet has no column 'z'; it has 'a', 'b', 'c'"):
        fit_files(model, folder, "z")
    with pytest.raises(DataFileError, match="the target 'y' cannot be dropped or be the weight as well"):
        fit_files(model, folder, "y", drop=["y"])
    with pytest.raises(DataFileError, match="column 'a' is not a feature"):
        fit_files(CircuitClassifier(**SMALL, leaf={"a": "gaussian"}), folder, "y", drop=["a"])
    with pytest.raises(DataFileError, match="no column left to learn from"):
        fit_files(model, folder, "y", drop=["a", "b", "c", "income", "colour", "member"])
    for structure in ("forest", "learnspn"):
        with pytest.raises(ValueError, match=f"'{structure}' needs all rows in memory.*use structure='random'"):
            fit_files(CircuitClassifier(structure=structure), folder, "y")
    with pytest.raises(ValueError, match="leaf_variance names the column 'q'"):
        fit_files(CircuitClassifier(**SMALL, leaf_variance={"q": 0.1}), folder, "y")


def test_what_is_wrong_with_files_is_named(folder: Path, tmp_path: Path) -> None:
    model = CircuitClassifier(**SMALL)
    few = write(tmp_path / "few", table(60, seed=0), n_files=2)
    with pytest.raises(DataFileError, match=r"few holds 60 rows to learn from.* at least 200; read them as one table"):
        fit_files(model, few, "y")
    one = write(tmp_path / "one", table(300, seed=0).assign(y="same"))
    with pytest.raises(DataFileError, match=r"one: the target 'y' holds one class only \('same'\)"):
        fit_files(model, one, "y")
    table(10, seed=0).drop(columns="y").to_parquet(folder / "part9.parquet")
    with pytest.raises(DataFileError, match=r"part9\.parquet has no column 'y', which .*part0\.parquet has"):
        fit_files(model, folder, "y")
    (folder / "part9.parquet").unlink()
    (folder / "more.csv").write_text("a\n1\n")
    with pytest.raises(DataFileError, match=r"more\.csv is no Parquet file, and training reads no others"):
        fit_files(model, folder, "y")


def test_a_number_that_its_leaf_cannot_hold_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.estimators.streaming._MOST_TRAIN", 50)
    frame = table(600, seed=0).assign(visits=np.arange(600) % 5 * 1.0)
    frame.loc[:, "visits"] += np.where(np.arange(600) % 200 == 7, 0.5, 0.0)
    folder = write(tmp_path / "rows", frame)
    with pytest.raises(ValueError, match=r"column 'visits' has poisson leaves and takes .*; got"):
        fit_files(CircuitClassifier(**SMALL, leaf={"visits": "poisson"}), folder, "y")


@pytest.mark.slow
def test_models_are_as_good_as_those_of_a_table_in_memory(tmp_path: Path) -> None:
    train, test = table(3000, seed=0), table(3000, seed=1)
    folder, fresh = write(tmp_path / "rows", train), test.drop(columns="y")
    found: dict[str, list[list[float]]] = {"files": [], "memory": []}
    for seed in range(3):
        size = {"n_sums": 4, "n_repetitions": 3, "depth": 2, "n_epochs": 10, "n_jobs": 1, "random_state": seed}
        streamed = fit_files(CircuitClassifier(**size), folder, "y")
        whole = CircuitClassifier(**size).fit(train.drop(columns="y"), train["y"])
        for name, model in (("files", streamed), ("memory", whole)):
            probabilities, y = model.predict_proba(fresh), np.searchsorted(model.classes_, test["y"])
            accuracy = (probabilities.argmax(1) == y).mean()
            loss = -np.log(probabilities[np.arange(len(y)), y]).mean()
            found[name].append([accuracy, loss, model.reject(fresh).mean()])
    streamed_mean, whole_mean = (np.mean(found[name], axis=0) for name in found)
    assert streamed_mean[0] == pytest.approx(whole_mean[0], abs=0.01)
    assert streamed_mean[1] == pytest.approx(whole_mean[1], abs=0.02)
    assert streamed_mean[2] == pytest.approx(0.05, abs=0.02)  # 600 rows to calibrate on, three times


FIT = """
import resource, sys
from socratic import CircuitClassifier
from socratic.estimators import streamed_rows, streaming
from socratic.scale import fit_files
streamed_rows._POOL_CELLS = 2**20
streaming._MOST_TRAIN = streaming._MOST_VALIDATION = streaming._MOST_CALIBRATION = 1000
size = {"n_sums": 2, "n_repetitions": 1, "depth": 1, "n_epochs": 1, "batch_size": 5000}
fit_files(CircuitClassifier(**size, n_jobs=1, random_state=0, device="cpu"), sys.argv[1], "y")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**10 if sys.platform == "darwin" else 1))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    peaks = []
    for name, n_files in (("few", 4), ("many", 14)):
        folder = tmp_path / name
        folder.mkdir()
        for number in range(n_files):
            frame = pd.DataFrame(rng.normal(size=(40_000, 20)), columns=[f"x{place}" for place in range(20)])
            frame["y"] = (frame["x0"] > 0).astype(int)
            frame.to_parquet(folder / f"{number}.parquet", row_group_size=10_000, index=False)
        done = subprocess.run([sys.executable, "-c", FIT, folder], capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout) / 1024)
    # 400,000 more rows of 20 numbers would be 61 MB.
    assert peaks[1] < peaks[0] + 30, peaks
