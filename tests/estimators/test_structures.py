"""Estimators with spatial and learned structures, from fit to file."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score

import socratic
from socratic.circuit import Circuit, Graph
from socratic.estimators import CircuitClassifier, CircuitDensity, CircuitOutlierDetector
from socratic.estimators.building import STRUCTURES, image_shape
from tests.estimators.test_classifier import mixed_frame

QUICK: dict[str, Any] = {"n_epochs": 4, "n_sums": 4, "n_repetitions": 2, "random_state": 0}


def discrete_frame(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Text and booleans that depend on the class and on each other, a tenth of them missing."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    letters = np.array(["a", "b", "c"])
    first = np.where(rng.random(n) < 0.7, label, rng.integers(0, 3, n))
    second = np.where(rng.random(n) < 0.8, first, rng.integers(0, 3, n))
    third = np.where(rng.random(n) < 0.8, second, rng.integers(0, 3, n))
    flag = (label == 1) ^ (rng.random(n) < 0.2)
    frame = pd.DataFrame(
        {"first": letters[first], "second": letters[second], "third": letters[third], "flag": flag}, dtype=object
    )
    return frame.mask(rng.random(frame.shape) < 0.1), label


def dependent_frame() -> tuple[pd.DataFrame, np.ndarray]:
    """A mixed table in which columns also depend on each other within a class."""
    frame, label = mixed_frame(300)
    age = np.random.default_rng(7).normal(frame["age"].fillna(7.0), 0.5)
    return frame.assign(months=12.0 * age), label


def small_digits() -> tuple[np.ndarray, np.ndarray]:
    """Digits 0 to 3 in 4 x 4 pixels."""
    x, y = load_digits(n_class=4, return_X_y=True)
    return x.reshape(-1, 4, 2, 4, 2).mean((2, 4)).reshape(-1, 16)[:400], y[:400]


CASES: dict[str, Any] = {
    "random": mixed_frame,
    "spatial": small_digits,
    "hidden-chow-liu": dependent_frame,
    "learnspn": dependent_frame,
    "chow-liu": lambda: discrete_frame(300),
}
Fitted = tuple[CircuitClassifier, Any, np.ndarray]


@pytest.fixture(scope="module", params=list(CASES))
def fitted(request: pytest.FixtureRequest) -> Fitted:
    x, y = CASES[request.param]()
    model = CircuitClassifier(**QUICK, structure=request.param, rejected_label="?", rejection_rate=0.1)
    return model.fit(x, y), x, y


def test_every_structure_answers(fitted: Fitted) -> None:
    model, x, y = fitted
    assert model.score(x, y) > 0.7
    doubt = model.uncertainty(x)
    np.testing.assert_allclose(doubt.mean.sum(1), 1.0)
    assert doubt.std.max() > 0.0
    assert (doubt.mutual_information <= doubt.entropy + 1e-9).all()
    np.testing.assert_allclose(doubt.log_likelihood, model.score_samples(x))
    assert np.array_equal(model.reject(x), doubt.p_value <= 0.1)
    assert model.reject(x).mean() < 0.2
    assert set(model.predict_or_reject(x)) <= {*model.classes_, "?"}
    assert model.describe_columns()


def test_learned_structures_are_graphs_in_full_precision_without_training(fitted: Fitted) -> None:
    model, *_ = fitted
    learned = model.structure in ("learnspn", "chow-liu")
    assert isinstance(model.circuit_, Graph if learned else Circuit)
    assert str(model.circuit_.dtype) == "torch.float64"
    assert model.n_iter_ == len(model.history_.epochs) == (0 if learned else 4)


def test_answers_do_not_depend_on_the_other_rows(fitted: Fitted) -> None:
    model, x, _ = fitted
    few = x[:7]
    np.testing.assert_allclose(model.uncertainty(few).mean, model.uncertainty(x).mean[:7], rtol=1e-9)


def test_saved_pickled_and_cloned_models_are_the_same(fitted: Fitted, tmp_path: Path) -> None:
    model, x, y = fitted
    model.save(tmp_path / "model")
    loaded = socratic.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert (loaded.n_iter_, loaded.history_.best) == (model.n_iter_, model.history_.best)
    again = clone(model)
    assert not hasattr(again, "circuit_")
    for other in (loaded, pickle.loads(pickle.dumps(model)), again.fit(x, y)):
        assert np.array_equal(other.predict_proba(x), model.predict_proba(x))
        assert np.array_equal(other.uncertainty(x).std, model.uncertainty(x).std)
        assert np.array_equal(other.uncertainty(x).p_value, model.uncertainty(x).p_value)
        assert np.array_equal(other.predict_or_reject(x), model.predict_or_reject(x))


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_spatial_trees_follow_the_shape() -> None:
    x, y = small_digits()
    model = CircuitClassifier(**QUICK, structure="spatial", image_shape=[2, 4, 2], depth=2).fit(x[:100], y[:100])
    expected = socratic.spatial_binary_trees(2, 4, 2, depth=2, n_repetitions=2)
    assert model.circuit_.region_graph == expected
    density = CircuitDensity(**QUICK, structure="spatial", depth=2).fit(x[:100])
    assert density.circuit_.region_graph == socratic.spatial_binary_trees(4, 4, depth=2, n_repetitions=2)


@pytest.mark.parametrize(
    ("shape", "n_features", "message"),
    [
        (None, 12, r"needs image_shape=\(height, width\) or .*: 12 columns are no square image"),
        ((3, 5), 12, r"image_shape \(3, 5\) has 15 values, and the table 12 columns"),
        ((12,), 12, r"image_shape must be \(height, width\) or"),
        ("3x4", 12, r"image_shape must be \(height, width\) or"),
        (12, 12, r"image_shape must be \(height, width\) or"),
        ((3, 0), 12, "the width in image_shape must be a whole number of at least 1"),
        ((3, 4, 1.5), 12, "the channels in image_shape must be a whole number of at least 1"),
    ],
)
def test_wrong_image_shapes_are_named(shape: Any, n_features: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        image_shape(shape, n_features)


@pytest.mark.parametrize("estimator", [CircuitClassifier, CircuitDensity, CircuitOutlierDetector])
def test_wrong_settings_are_named(estimator: Any) -> None:
    frame, label = mixed_frame(60)
    with pytest.raises(
        ValueError,
        match=r"one of 'auto', 'random', 'spatial', 'hidden-chow-liu', 'learnspn', 'chow-liu', .*; got 'tree'",
    ):
        estimator(structure="tree").fit(frame, label)
    with pytest.raises(ValueError, match=r"got 'weight' \(gaussian\), 'age' \(binomial\): .*leaf=.*KBins.*learnspn"):
        estimator(structure="chow-liu", leaf={"age": "binomial"}).fit(frame, label)
    weight = np.where(np.arange(60) == 7, 1.5, 2.0)
    with pytest.raises(ValueError, match=r"structure='learnspn' takes whole numbers as sample_weight.*got 1\.5"):
        estimator(structure="learnspn").fit(frame, label, sample_weight=weight)


def test_many_wrong_columns_are_counted() -> None:
    x, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=r"'x4' \(gaussian\) and 8 more: "):
        CircuitClassifier(structure="chow-liu").fit(x, y)


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
@pytest.mark.parametrize("structure", ["learnspn", "chow-liu"])
def test_a_row_of_weight_two_trains_as_the_row_twice(structure: str) -> None:
    x, y = discrete_frame(200)
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, len(x)).astype(float)
    repeated = rng.permutation(np.repeat(np.arange(len(x)), weight.astype(int)))
    settings: dict[str, Any] = {"structure": structure, "calibration_fraction": 0.0, "random_state": 0}
    weighted = CircuitClassifier(**settings).fit(x, y, sample_weight=weight)
    copied = CircuitClassifier(**settings).fit(x.iloc[repeated], y[repeated])
    assert np.array_equal(weighted.uncertainty(x).p_value, copied.uncertainty(x).p_value)
    once = CircuitClassifier(**settings).fit(x, y)
    assert not np.allclose(once.predict_proba(x), weighted.predict_proba(x))


@pytest.mark.parametrize("structure", ["learnspn", "chow-liu"])
def test_what_is_missing_is_integrated_out(structure: str) -> None:
    x, y = discrete_frame(300)
    model = CircuitClassifier(structure=structure, random_state=0).fit(x, y)
    nothing = pd.DataFrame({name: [None] for name in x.columns}, dtype=object)
    np.testing.assert_allclose(model.predict_proba(nothing)[0], model.class_prior_)
    letters = [pd.DataFrame({"first": [a], "second": [b]}) for a in "abc" for b in "abc"]
    pairs = pd.concat(letters, ignore_index=True).assign(third=None, flag=None).astype(object)
    seen = math.exp(sum(column.log_seen for column in model.table_.columns[:2]))  # the rest is for unseen letters
    assert np.exp(model.score_samples(pairs)).sum() == pytest.approx(seen)
    assert 0.98 < seen < 1.0
    with pytest.warns(UserWarning, match="count against their rows"):
        model.predict(x[:3].assign(first="z"))


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
@pytest.mark.parametrize("structure", ["learnspn", "chow-liu"])
def test_tiny_and_odd_tables(structure: str, tmp_path: Path) -> None:
    columns = {"a": list("abcd") * 10, "empty": [None] * 40, "constant": ["k"] * 40, "flag": [True, False] * 20}
    label = np.array([0, 0, 1, 1] * 10)
    for names in (list(columns), ["a"], ["empty"]):
        frame = pd.DataFrame({name: columns[name] for name in names})
        model = CircuitClassifier(structure=structure, random_state=0).fit(frame, label)
        assert model.score(frame, label) == (0.5 if names == ["empty"] else 1.0)
        assert np.isfinite(model.uncertainty(frame).log_likelihood).all()
        model.save(tmp_path / "model")
        assert np.array_equal(socratic.load(tmp_path / "model").predict_proba(frame), model.predict_proba(frame))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_deep_trees_pickle() -> None:
    rng = np.random.default_rng(0)
    chain = np.cumsum(rng.random((40, 550)) < 0.05, axis=1) % 2 == 1
    frame = pd.DataFrame(chain, columns=[f"c{place}" for place in range(550)])
    model = CircuitClassifier(structure="chow-liu", calibration_fraction=0.0, random_state=0)
    model.fit(frame, chain[:, 275])
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict_proba(frame), model.predict_proba(frame))


def test_log_densities_of_learned_structures_are_in_the_units_of_the_data() -> None:
    x, y = load_iris(return_X_y=True)
    one = CircuitClassifier(structure="learnspn", random_state=0).fit(x, y)
    other = CircuitClassifier(structure="learnspn", random_state=0).fit(x * 16.0, y)
    gap = one.score_samples(x) - other.score_samples(x * 16.0)
    assert np.median(gap) == pytest.approx(4.0 * np.log(16.0), abs=0.3)


@pytest.mark.parametrize("structure", ["learnspn", "chow-liu"])
def test_densities_and_outlier_detectors(structure: str) -> None:
    x, _ = discrete_frame(400)
    density = CircuitDensity(structure=structure, random_state=0).fit(x)
    assert isinstance(density.circuit_, Graph)
    assert density.n_iter_ == 0
    rng = np.random.default_rng(1)
    shuffled = pd.DataFrame({name: rng.permutation(x[name]) for name in x.columns}, dtype=object)
    assert density.score(x) > density.score(shuffled) + 0.3
    assert np.array_equal(pickle.loads(pickle.dumps(density)).score_samples(x), density.score_samples(x))
    detector = CircuitOutlierDetector(structure=structure, random_state=0, rejection_rate=0.1).fit(x)
    fresh, _ = discrete_frame(1000, seed=1)
    assert (detector.predict(fresh) == -1).mean() < 0.15
    np.testing.assert_array_equal(detector.decision_function(fresh) < 0, detector.p_value(fresh) <= 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("structure", "make", "lowest"),
    [("learnspn", mixed_frame, 0.06), ("chow-liu", discrete_frame, 0.03)],  # discrete rows tie: the rate is a ceiling
)
def test_the_refused_share_of_familiar_rows_is_near_the_rate(structure: str, make: Any, lowest: float) -> None:
    shares = []
    for seed in range(6):
        model = CircuitClassifier(
            structure=structure, rejection_rate=0.1, calibration_fraction=0.4, dropout=0.1, random_state=seed
        )
        shares.append(model.fit(*make(400, seed)).reject(make(400, seed + 100)[0]).mean())
    print(structure, np.round(shares, 3))
    assert lowest < np.mean(shares) < 0.13


def test_every_structure_has_a_case() -> None:
    elsewhere = {"auto", "forest", "kernels"}  # test_forest_classifier.py
    assert {*CASES, *elsewhere} == set(STRUCTURES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_learnspn_is_as_accurate_as_a_forest(load: Any) -> None:
    """Within two points of a random forest over 3 folds and 2 seeds, though a fifth of the rows calibrates."""
    x, y = load(return_X_y=True)
    scores: dict[str, list[float]] = {"circuit": [], "forest": []}
    for seed in range(2):
        folds = StratifiedKFold(3, shuffle=True, random_state=seed)
        for name, model in (
            ("circuit", CircuitClassifier(structure="learnspn", random_state=seed)),
            ("forest", RandomForestClassifier(random_state=seed)),
        ):
            scores[name].extend(cross_val_score(model, x, y, cv=folds))
    circuit, forest = (float(np.mean(scores[name])) for name in ("circuit", "forest"))
    print(f"{load.__name__}: circuit {circuit:.3f}, forest {forest:.3f}")
    assert circuit > forest - 0.02


def repeated_table(n: int = 3000) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of which nearly half are alike, and labels that depend on the first column."""
    rng = np.random.default_rng(0)
    values = rng.random((n, 10)) < 0.08
    return pd.DataFrame(values, columns=list("abcdefghij")), (rng.random(n) < np.where(values[:, 0], 0.8, 0.3)).astype(
        int
    )


def test_copies_of_a_row_are_held_out_one_by_one() -> None:
    """Frequencies, densities and the share of refused rows are those of the rows, not of the distinct ones."""
    table, labels = repeated_table()
    model = CircuitClassifier(structure="chow-liu", random_state=1).fit(table, labels)
    np.testing.assert_allclose(model.class_prior_, np.bincount(labels) / len(labels), atol=0.002)
    usual = float(np.exp(model.score_samples(table.iloc[:1] & False))[0])
    assert usual == pytest.approx(float((~table.to_numpy()).all(1).mean()), abs=0.03)
    assert model.reject(table).mean() <= 0.07


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-1.0, "sample_weight must hold numbers of at least 0, and not only 0"),
        (0.5, "structure='learnspn' takes whole numbers as sample_weight.*got 0.5"),
        (1e12, "structure='learnspn' repeats rows by their sample_weight, up to 5,000,000 rows"),
    ],
)
@pytest.mark.parametrize("estimator", [CircuitDensity, CircuitOutlierDetector])
def test_weights_are_judged_as_they_are_given(estimator: type, weight: float, message: str) -> None:
    table, _ = repeated_table(60)
    with pytest.raises(ValueError, match=message):
        estimator(structure="learnspn").fit(table, sample_weight=np.full(60, weight))


def test_image_shapes_are_for_spatial_structures() -> None:
    table, labels = repeated_table(60)
    with pytest.raises(ValueError, match="image_shape is for structure='spatial'; got structure='random'"):
        CircuitClassifier(structure="random", image_shape=(2, 5)).fit(table, labels)


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_sizes_may_be_numpys_numbers(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).random((60, 16)), np.arange(60) % 2
    shape = (np.int64(4), np.int64(4))
    model = CircuitClassifier(structure="spatial", image_shape=shape, n_sums=np.int64(3), n_epochs=2).fit(x, y)
    model.save(tmp_path / "model.socratic")
    loaded = socratic.load(tmp_path / "model.socratic")
    assert list(loaded.image_shape) == [4, 4]
    assert loaded.n_sums == 3
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))


def test_frames_without_names_give_frames() -> None:
    table = pd.DataFrame({0: ["x", "y"] * 30, 1: [True, False] * 30})
    drawn = CircuitDensity(structure="chow-liu", random_state=0).fit(table).sample(5, random_state=0)
    assert list(drawn.columns) == ["0", "1"]
    assert set(drawn["0"]) <= {"x", "y"}
