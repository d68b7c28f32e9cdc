"""Monitors of fitted estimators: what they compare with, changes that they find, and their files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from socratic import (
    CircuitClassifier,
    CircuitDensity,
    CircuitGuard,
    CircuitImageClassifier,
    CircuitOutlierDetector,
    DriftMonitor,
    ModelFileError,
)
from socratic.estimators.monitoring import FORMAT, VERSION
from socratic.model_files import read_tensors, write_tensors


def rows(n_rows: int, seed: int) -> np.ndarray:
    """Three columns that go together, and one that does not."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    return np.hstack([common + 0.5 * rng.normal(size=(n_rows, 3)), rng.normal(size=(n_rows, 1))])


def labels(x: np.ndarray) -> np.ndarray:
    return (x[:, 0] > 0).astype(int)


X = rows(800, 0)


@pytest.fixture(scope="module")
def detector() -> CircuitOutlierDetector:
    return CircuitOutlierDetector(random_state=0).fit(X)


def guard() -> CircuitGuard:
    fresh = rows(300, 1)
    return CircuitGuard(LogisticRegression().fit(fresh, labels(fresh)), random_state=0).fit(X, unseen=True)


MODELS = {
    "detector": lambda: CircuitOutlierDetector(random_state=0).fit(X),
    "crossed detector": lambda: CircuitOutlierDetector(random_state=0).fit(X[:120]),
    "classifier": lambda: CircuitClassifier(random_state=0).fit(X, labels(X)),
    "crossed classifier": lambda: CircuitClassifier(random_state=0).fit(X[:120], labels(X[:120])),
    "by class": lambda: CircuitClassifier(calibrate_by_class=True, random_state=0).fit(X, labels(X)),
    "guard": guard,
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind == "crossed classifier" else kind for kind in MODELS]
)
def test_a_spoilt_column_is_found(kind: str) -> None:
    model: Any = MODELS[kind]()
    monitor = DriftMonitor(model)
    assert not monitor.update(rows(600, 1)).alarm
    spoilt = rows(300, 2)
    spoilt[:, 3] *= 10.0
    report = monitor.update(spoilt)
    assert report.alarm_row is not None
    assert 600 <= report.alarm_row < 680
    assert abs((report.since or 0) - 600) < 30
    assert report.columns[0].name == "x3"
    assert report.recently_refused > report.n_refused / report.n_rows / 2


def test_a_table_that_is_unfamiliar_from_its_first_row_is_found(detector: CircuitOutlierDetector) -> None:
    report = DriftMonitor(detector).update(rows(200, 1) + np.array([0.0, 3.0, 0.0, 0.0]))
    assert report.since == 0
    assert "x1" in [column.name for column in report.columns]


def test_missing_cells_are_found_where_rows_are_not_refused(detector: CircuitOutlierDetector) -> None:
    monitor = DriftMonitor(detector)
    monitor.update(rows(600, 1))
    holes = rows(400, 2)
    holes[::3, 1] = np.nan
    (column, *_) = monitor.update(holes).columns
    assert (column.name, column.more_surprising) == ("x1", False)


def test_numbers_that_are_too_large_to_compare_are_no_trouble(detector: CircuitOutlierDetector) -> None:
    x = rows(20, 1)
    x[7, 2] = 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert DriftMonitor(detector).update(x).n_rows == 20


def test_judgements_save_doing_it_twice(detector: CircuitOutlierDetector) -> None:
    (x,) = detector._batches(rows(300, 1))
    whole, judged = DriftMonitor(detector), DriftMonitor(detector)
    whole.update(rows(300, 1))
    judged.update_judged(detector.judge_rows(x), detector._surprises([x]))
    assert whole.report.to_dict() == judged.report.to_dict()


def test_answers_and_judgements_agree() -> None:
    model = MODELS["by class"]()
    (x,) = model._batches(rows(50, 1))
    answer = model.answer_rows(x)
    judged = model.judge_rows(x, answer)
    np.testing.assert_array_equal(judged.p_value, answer.uncertainty.p_value)
    assert judged.scores.shape == (1, 50)


def test_the_seed_decides_ties_alone(detector: CircuitOutlierDetector) -> None:
    found = []
    for seed in (0, 0, 1):
        report = DriftMonitor(detector, seed=seed).update(rows(300, 1))
        found.append(report.log_wealth)
    assert found[0] == found[1] != found[2]


def test_weighted_calibration_rows_are_thinned() -> None:
    weight = np.where(X[:, 3] > 0, 1.0, 0.2)
    weighted = CircuitOutlierDetector(random_state=0).fit(X, sample_weight=weight)
    monitor = DriftMonitor(weighted)
    (watched,) = monitor._drift._rows
    n_calibration = weighted.n_calibration_
    assert 0.4 * n_calibration < watched.ranks.n_scores < 0.8 * n_calibration


def test_files_go_on(detector: CircuitOutlierDetector, tmp_path: Path) -> None:
    monitor = DriftMonitor(detector, rate=0.02, window=50, seed=3)
    monitor.update(rows(300, 1))
    monitor.notes["machine"] = "pump 7"
    monitor.save(tmp_path / "monitor")
    again = DriftMonitor.load(tmp_path / "monitor", detector)
    assert again.notes == {"machine": "pump 7"}
    more = rows(300, 2) * [1.0, 1.0, 1.0, 4.0]
    assert monitor.update(more).to_dict() == again.update(more).to_dict()
    assert again.report.alarm


def test_files_of_other_models_and_damaged_ones_are_refused(detector: CircuitOutlierDetector, tmp_path: Path) -> None:
    path = tmp_path / "monitor"
    DriftMonitor(detector).save(path)
    other = CircuitOutlierDetector(random_state=1).fit(rows(600, 5))
    with pytest.raises(ModelFileError, match="saved by a monitor of another model; start a new one"):
        DriftMonitor.load(path, other)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelFileError, match="damaged"):
        DriftMonitor.load(path, detector)
    detector.save(path)
    with pytest.raises(ModelFileError, match=r"is no socratic\.monitor"):
        DriftMonitor.load(path, detector)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.update(n_rows=41), "its sequences must all be of as many rows as it has watched"),
        (lambda state: state.update(n_refused=-1), "n_refused must be a whole number from 0 to 40; got -1"),
        (lambda state: state["sequences"][0].update(alarm="x"), "alarm must be a whole number from 0 to 39; got 'x'"),
        (lambda state: state["sequences"][0].update(alarm=3), "since must be a whole number from 0 to 3; got None"),
        (lambda state: state["sequences"][1].update(peak=None), "peak must be a finite number; got None"),
        (lambda state: state["sequences"].pop(), "is damaged: it does not describe a monitor of this model"),
    ],
)
def test_files_that_say_what_cannot_be_are_refused(
    detector: CircuitOutlierDetector, tmp_path: Path, spoil: Callable[[dict[str, Any]], object], message: str
) -> None:
    monitor = DriftMonitor(detector)
    monitor.update(rows(40, 3))
    monitor.save(tmp_path / "monitor")
    tensors, config = read_tensors(tmp_path / "monitor", FORMAT, VERSION)
    spoil(config["state"])
    write_tensors(tmp_path / "monitor", FORMAT, VERSION, tensors, config)
    with pytest.raises(ModelFileError, match=message):
        DriftMonitor.load(tmp_path / "monitor", detector)


@pytest.mark.slow
def test_images_are_watched_as_a_whole() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 40, size=(240, 4, 4)).astype(np.uint8)
    images[::2, :2] += 150
    model = CircuitImageClassifier(n_epochs=1, random_state=0).fit(images, np.arange(240) % 2)
    monitor = DriftMonitor(model)
    assert not monitor.columns
    assert not monitor.update(images[:40]).alarm
    assert monitor.update(255 - images[:60]).alarm


def test_models_without_calibration_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be a classifier, an outlier detector or a guard.*got CircuitDensity"):
        DriftMonitor(CircuitDensity())
    with pytest.warns(UserWarning, match="no rows were held out"):
        model = CircuitOutlierDetector(calibration_fraction=0.0, random_state=0).fit(X)
    with pytest.raises(ValueError, match="fit more rows, or with a calibration_fraction above 0"):
        DriftMonitor(model)


def test_columns_need_familiar_rows(detector: CircuitOutlierDetector) -> None:
    from copy import copy

    old = copy(detector)
    del old.familiar_  # as in files of before
    assert not DriftMonitor(old).columns
    with pytest.raises(ValueError, match=r"columns=True needs a model that keeps familiar rows.*fit it again"):
        DriftMonitor(old, columns=True)


@pytest.mark.slow
def test_rows_that_repeat_raise_no_alarm() -> None:
    """At a rate of 1 % three of 60 streams or more have a probability of 2 %."""
    n_alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1300, 5)).round(1)
        x[rng.random(len(x)) < 0.1] = [20.5, 0.0, 1.0, 50.0, 3.0]
        model = CircuitOutlierDetector(random_state=seed).fit(x[:300])
        n_alarms += DriftMonitor(model, seed=seed).update(x[300:]).alarm
    assert n_alarms <= 3
