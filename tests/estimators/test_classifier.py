from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from socratic.estimators import CircuitClassifier, CircuitDensity, CircuitOutlierDetector
from socratic.estimators.committee import Committee
from socratic.tables.raw import raw_table

QUICK: dict[str, Any] = {"n_epochs": 8, "n_sums": 4, "n_repetitions": 3, "random_state": 0}


def mixed_frame(n: int = 300, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, integers, booleans, text and categories, a tenth of them missing; text labels."""
    rng = np.random.default_rng(seed)
    label = rng.choice(["cat", "dog"], size=n)
    dog = label == "dog"
    frame = pd.DataFrame(
        {
            "weight": rng.normal(np.where(dog, 20.0, 4.0), 2.0),
            "age": rng.integers(1, 15, size=n),
            "barks": dog ^ (rng.random(n) < 0.1),
            "colour": rng.choice(["black", "white", "ginger"], size=n),
            "size": pd.Categorical(np.where(dog, rng.choice(["m", "l"], size=n), "s")),
        }
    ).astype({"age": "float64", "barks": object, "colour": object})
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    return frame, label


@pytest.fixture(scope="module")
def iris_model() -> tuple[CircuitClassifier, np.ndarray, np.ndarray]:
    x, y = load_iris(return_X_y=True)
    return CircuitClassifier(**{**QUICK, "n_epochs": 30}).fit(x, y), x, y


def test_mixed_tables_train_and_predict() -> None:
    frame, label = mixed_frame()
    model = CircuitClassifier(**{**QUICK, "n_epochs": 25}).fit(frame, label)
    fresh, truth = mixed_frame(seed=1)
    assert model.score(fresh, truth) > 0.9
    assert set(model.predict(fresh)) == {"cat", "dog"}
    kinds = {column.name: column.kind for column in model.table_.columns}
    assert kinds == {
        "weight": "gaussian",
        "age": "gaussian",
        "barks": "bernoulli",
        "colour": "categorical",
        "size": "categorical",
    }
    assert any("colour: categorical (black, ginger, white)" in line for line in model.describe_columns())
    assert list(model.feature_names_in_) == list(frame.columns)


def test_leaf_families_can_be_overridden() -> None:
    frame, label = mixed_frame()
    model = CircuitClassifier(**QUICK, leaf={"age": "binomial", "weight": "gaussian"}).fit(frame, label)
    assert {column.name: column.kind for column in model.table_.columns}["age"] == "binomial"
    with pytest.raises(ValueError, match="leaf names the column 'agee', which is not in the data"):
        CircuitClassifier(**QUICK, leaf={"agee": "binomial"}).fit(frame, label)
    with pytest.raises(ValueError, match=r"leaf\['age'\] must be one of 'gaussian'"):
        CircuitClassifier(**QUICK, leaf={"age": "weibull"}).fit(frame, label)


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_numbers_can_be_categories() -> None:
    x = np.array([[1.0, 0.2], [2.0, 0.1], [3.5, 0.4], [np.nan, 0.3]] * 10)
    model = CircuitClassifier(**QUICK, leaf={"x0": "categorical"}).fit(x, [0, 1, 1, 0] * 10)
    encoded = model.table_.encode(raw_table(x[:4])).codes[:, 0]
    np.testing.assert_array_equal(encoded, [0.0, 1.0, 2.0, np.nan])


def test_unknown_categories_are_missing_with_one_warning() -> None:
    frame, label = mixed_frame()
    model = CircuitClassifier(**QUICK).fit(frame, label)
    strange = frame.iloc[:5].copy()
    strange["colour"] = "purple"
    missing = frame.iloc[:5].copy()
    missing["colour"] = None
    with pytest.warns(
        UserWarning, match=r"count against their rows: 5 in 1 column\(s\), such as 'purple' in 'colour'"
    ) as record:
        found = model.predict_proba(strange)
    assert len(record) == 1
    np.testing.assert_allclose(found, model.predict_proba(missing))


def test_labels_probabilities_and_uncertainty_fit_together(
    iris_model: tuple[CircuitClassifier, np.ndarray, np.ndarray],
) -> None:
    model, x, y = iris_model
    assert model.score(x, y) > 0.9
    result = model.uncertainty(x)
    assert result.mean.shape == result.std.shape == (150, 3)
    np.testing.assert_allclose(result.mean.sum(1), 1.0)
    assert (result.mutual_information <= result.entropy + 1e-9).all()
    assert ((result.p_value > 0) & (result.p_value <= 1)).all()
    np.testing.assert_allclose(result.log_likelihood, model.score_samples(x))
    far = model.uncertainty(x + 30.0)
    assert (far.p_value < 0.1).all()
    assert (far.log_likelihood < result.log_likelihood.min()).all()


def test_rejection_leaves_predictions_alone(iris_model: tuple[CircuitClassifier, np.ndarray, np.ndarray]) -> None:
    model, x, _ = iris_model
    rows = np.concatenate([x[:20], x[:5] + 50.0])
    model.set_params(rejected_label="unknown", rejection_rate=0.1)
    answers = model.predict_or_reject(rows)
    refused = model.reject(rows)
    assert refused[20:].all()
    assert (answers[refused] == "unknown").all()
    assert (answers[~refused] == model.predict(rows)[~refused]).all()


def test_log_densities_are_in_the_units_of_the_data() -> None:
    """Stretching a column by ten lowers every log-density by log 10."""
    x, y = load_iris(return_X_y=True)
    stretched = x * np.array([10.0, 1.0, 1.0, 1.0])
    one = CircuitClassifier(**QUICK).fit(x, y)
    other = CircuitClassifier(**QUICK).fit(stretched, y)
    shift = one.score_samples(x) - other.score_samples(stretched)
    assert abs(np.median(shift) - np.log(10.0)) < 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_priors_weights_and_imbalance() -> None:
    x, y = load_iris(return_X_y=True)
    kept = np.concatenate([np.arange(50), np.arange(50, 60), np.arange(100, 150)])
    model = CircuitClassifier(**QUICK).fit(x[kept], y[kept])
    np.testing.assert_allclose(model.class_prior_, [50 / 110, 10 / 110, 50 / 110], atol=0.03)
    assert CircuitClassifier(**QUICK, class_prior="uniform").fit(x, y).class_prior_ == pytest.approx([1 / 3] * 3)
    weighted = CircuitClassifier(**QUICK).fit(x, y, sample_weight=np.where(y == 0, 3.0, 1.0))
    assert weighted.class_prior_[0] == pytest.approx(0.6, abs=0.02)
    with pytest.raises(ValueError, match="class_prior must hold 3 probabilities that sum to 1"):
        CircuitClassifier(**QUICK, class_prior=[0.5, 0.5]).fit(x, y)


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter() -> None:
    x, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 3, size=len(x)).astype(float)
    order = rng.permutation(len(x))
    model = CircuitClassifier(**QUICK, rejection_rate=0.1)
    one = clone(model).fit(x, y, sample_weight=weight)
    other = clone(model).fit(x[order], y[order], sample_weight=weight[order])
    np.testing.assert_array_equal(one.predict_proba(x), other.predict_proba(x))
    np.testing.assert_array_equal(one.uncertainty(x).p_value, other.uncertainty(x).p_value)


@pytest.mark.filterwarnings("ignore::socratic.CalibrationWarning")  # few rows
def test_tiny_and_odd_tables() -> None:
    x = np.array([[0.0], [1.0], [0.1], [0.9]])
    model = CircuitClassifier(**QUICK).fit(x, [0, 1, 0, 1])
    assert not model.calibrated_
    assert model.predict(x).shape == (4,)
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0] * 10, "empty": [None] * 40, "constant": [7.0] * 40})
    model = CircuitClassifier(**QUICK).fit(frame, [0, 0, 1, 1] * 10)
    assert np.isfinite(model.predict_proba(frame)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"detector": "magic"}, "detector must be one of 'combined', 'log_likelihood', 'typicality', 'entropy'"),
        ({"rejection_rate": 1.5}, "rejection_rate must be a number"),
        ({"dropout": "some"}, "dropout must be one of 'auto'"),
        ({"n_sums": 0}, "n_sums must be a whole number of at least 1"),
        ({"calibration_fraction": 2.0}, "calibration_fraction must be a number"),
        ({"class_prior": "random"}, "class_prior must be one of 'uniform'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        CircuitClassifier(**{**QUICK, **settings}).fit(x, y)


def test_bad_tables_are_named() -> None:
    frame, label = mixed_frame(40)
    with pytest.raises(ValueError, match="only one class is present"):
        CircuitClassifier(**QUICK).fit(frame, ["cat"] * 40)
    with pytest.raises(ValueError, match="column 'weight' must be finite"):
        CircuitClassifier(**QUICK).fit(frame.assign(weight=np.inf), label)
    doubled = pd.concat([frame[["age"]], frame[["age"]]], axis=1)
    with pytest.raises(ValueError, match="column names must be unique; 'age' occurs more than once"):
        CircuitClassifier(**QUICK).fit(doubled, label)
    wide = pd.DataFrame({"id": [f"row {i % 1200}" for i in range(2500)]})
    with pytest.raises(ValueError, match="more than 1000"):
        CircuitClassifier(**QUICK).fit(wide, np.arange(2500) % 2)
    with pytest.raises(ValueError, match="sample_weight must hold numbers of at least 0"):
        CircuitClassifier(**QUICK).fit(frame, label, sample_weight=-np.ones(40))


def test_an_interrupted_fit_resumes_to_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = load_iris(return_X_y=True)
    whole = CircuitClassifier(**QUICK).fit(x, y)
    model = CircuitClassifier(**QUICK, checkpoint=tmp_path / "checkpoint")
    from socratic.learning import checkpoint

    save, count = checkpoint.Checkpoint.save, 0

    def interrupted(self: Any, *arguments: Any) -> None:
        nonlocal count
        save(self, *arguments)
        count += 1
        if count == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y)
    model.fit(x, y)
    assert count == 8
    assert np.array_equal(model.predict_proba(x), whole.predict_proba(x))
    assert not list(tmp_path.iterdir())


def photo_patches(n: int, seed: int = 0) -> np.ndarray:
    """Grey 8 x 8 patches of scikit-learn's photographs, scaled like its digits."""
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(seed)
    patches = []
    for image in load_sample_images().images:
        grey = image.mean(2)[::4, ::4]
        for _ in range(n // 2):
            row, column = (rng.integers(0, side - 8) for side in grey.shape)
            patches.append(grey[row : row + 8, column : column + 8].ravel() * 16 / 255)
    return np.array(patches)


@pytest.mark.slow
def test_rejection_is_calibrated_on_digits() -> None:
    """Over 20 seeds: the mean refused share of fresh digits is within one point of 5%; photographs are refused."""
    x, y = load_digits(return_X_y=True)
    patches = photo_patches(400)
    known, unknown = [], []
    for seed in range(20):
        train_x, test_x, train_y, _ = train_test_split(x, y, test_size=1 / 3, stratify=y, random_state=seed)
        model = CircuitClassifier(random_state=seed, n_epochs=15).fit(train_x, train_y)
        known.append(model.reject(test_x).mean())
        unknown.append(model.reject(patches).mean())
    assert abs(np.mean(known) - 0.05) < 0.01
    assert np.mean(unknown) >= 0.95


def test_every_answer_is_a_view_of_one(iris_model: tuple[CircuitClassifier, np.ndarray, np.ndarray]) -> None:
    model, x, _ = iris_model
    answer = model.answer(x)
    np.testing.assert_array_equal(answer.probabilities, model.predict_proba(x))
    for field in dataclasses.fields(answer.uncertainty):
        found, expected = (getattr(doubt, field.name) for doubt in (answer.uncertainty, model.uncertainty(x)))
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(model.reject(x), answer.uncertainty.p_value <= model.rejection_rate)


def test_answers_take_one_encoding_and_one_evaluation(
    iris_model: tuple[CircuitClassifier, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, _ = iris_model
    counts: Counter[str] = Counter()

    def counted(home: Any, name: str) -> None:
        original = getattr(home, name)

        def call(*arguments: Any, **options: Any) -> Any:
            counts[name] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(home, name, call)

    counted(type(model.table_), "encode")
    counted(type(model.circuit_), "log_likelihood")
    counted(Committee, "posterior")
    model.predict_or_reject(x)
    n_models = 1 + len(model.folds_)
    assert counts == {"encode": 1, "log_likelihood": n_models, "posterior": n_models}


@pytest.mark.parametrize("estimator", [CircuitClassifier, CircuitDensity, CircuitOutlierDetector])
def test_help_describes_every_parameter(estimator: type) -> None:
    text = estimator.__doc__ or ""
    assert "{parameters}" not in text
    for name in estimator().get_params():
        assert re.search(rf"^{name} : .+\n    \S", text, re.MULTILINE), name
