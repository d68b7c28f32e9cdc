"""The estimators are scikit-learn estimators, in full, and work inside other people's tools."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from socratic.estimators import CircuitClassifier, CircuitDensity, CircuitGuard, CircuitOutlierDetector
from tests.estimators.test_guarded import halves

QUICK = {"n_epochs": 5, "n_sums": 4, "n_repetitions": 3, "random_state": 0}


@parametrize_with_checks(
    [
        CircuitClassifier(n_epochs=5, calibration_fraction=0.0),  # the models of folds are checked with the forest
        CircuitClassifier(structure="learnspn", leaf_variance=0.1, calibration_fraction=0.0),
        CircuitOutlierDetector(n_epochs=5),
        CircuitOutlierDetector(),
        CircuitDensity(n_epochs=5, n_circuits=2),
    ]
)
@pytest.mark.filterwarnings("ignore")  # the checks provoke them
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


BY_THE_FOREST = {
    "check_sample_weight_equivalence_on_dense_data": "a row is one draw of a forest, whatever it weighs",
}
"""scikit-learn's check that does not apply to forests, as to those of scikit-learn, and why."""


@pytest.mark.slow
@parametrize_with_checks([CircuitClassifier()], expected_failed_checks=lambda _: BY_THE_FOREST)
@pytest.mark.filterwarnings("ignore")  # the checks provoke them
def test_scikit_learns_own_checks_of_a_forest(estimator: Any, check: Any) -> None:
    check(estimator)


NO_LABELS = "a guard learns from inputs alone: labels are the model's"
PREDICTS = "predict is the model's, and so is what it checks"
OF_THE_MODEL = {
    "check_classifiers_classes": NO_LABELS,
    "check_classifiers_train": NO_LABELS,
    "check_classifiers_regression_target": NO_LABELS,
    "check_supervised_y_no_nan": NO_LABELS,
    "check_supervised_y_2d": NO_LABELS,
    "check_n_features_in_after_fitting": PREDICTS,
    "check_estimators_nan_inf": PREDICTS,
    "check_fit2d_predict1d": PREDICTS,
}
"""scikit-learn's checks that do not apply to guards, and why."""


class Halves:
    """A model whose name is the same in every process that runs these tests, as that of a function is not."""

    def __call__(self, rows: Any) -> np.ndarray:
        return halves(rows)

    def __repr__(self) -> str:
        return "halves"


@parametrize_with_checks(
    [CircuitGuard(Halves(), density=CircuitDensity(n_epochs=3))], expected_failed_checks=lambda _: OF_THE_MODEL
)
@pytest.mark.filterwarnings("ignore")  # the checks provoke them
def test_scikit_learns_own_checks_of_a_guard(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def iris() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_iris(return_X_y=True)
    return x, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_pipelines_grid_search_and_cross_validation(iris: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = iris
    once = {**QUICK, "calibration_fraction": 0.0}  # one circuit a fit, and none for folds
    pipeline = make_pipeline(StandardScaler(), CircuitClassifier(**{**once, "n_epochs": 10}))
    assert cross_val_score(pipeline, x, y, cv=2).mean() > 0.8
    search = GridSearchCV(CircuitClassifier(**once), {"n_sums": [2, 4]}, cv=2).fit(x, y)
    assert search.best_params_["n_sums"] in (2, 4)


def test_clones_and_pickles(iris: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = iris
    model = CircuitClassifier(**QUICK, rejected_label="?").fit(x, y)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict_proba(x), model.predict_proba(x))
    assert np.array_equal(copy.reject(x), model.reject(x))
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "circuit_")
    assert np.array_equal(again.fit(x, y).predict_proba(x), model.predict_proba(x))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_inside_calibrated_classifier(iris: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = iris
    model = CalibratedClassifierCV(CircuitClassifier(**QUICK), cv=2).fit(x, y)
    assert model.predict_proba(x).sum(1) == pytest.approx(np.ones(len(x)))
    assert model.score(x, y) > 0.8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_inside_mapie(iris: tuple[np.ndarray, np.ndarray]) -> None:
    from mapie.classification import SplitConformalClassifier

    x, y = iris
    order = np.random.default_rng(0).permutation(len(x))
    train, calibration, test = order[:60], order[60:110], order[110:]
    model = CircuitClassifier(**{**QUICK, "n_epochs": 20}).fit(x[train], y[train])
    wrapped = SplitConformalClassifier(estimator=model, confidence_level=0.9, prefit=True)
    wrapped.conformalize(x[calibration], y[calibration])
    _, sets = wrapped.predict_set(x[test])
    codes = np.searchsorted(model.classes_, y[test])
    assert sets[np.arange(len(test)), codes, 0].mean() > 0.7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_inside_crepes(iris: tuple[np.ndarray, np.ndarray]) -> None:
    from crepes import WrapClassifier

    x, y = iris
    order = np.random.default_rng(0).permutation(len(x))
    train, calibration, test = order[:60], order[60:110], order[110:]
    wrapped = WrapClassifier(CircuitClassifier(**{**QUICK, "n_epochs": 20}))
    wrapped.fit(x[train], y[train])
    wrapped.calibrate(x[calibration], y[calibration])
    sets = wrapped.predict_set(x[test], confidence=0.9)
    assert np.mean([label in labels for label, labels in zip(y[test], sets, strict=True)]) > 0.7
