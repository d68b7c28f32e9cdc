"""Classifiers whose classes are answered by a forest, and whose familiarity is told by kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from socratic import CircuitClassifier, CircuitDensity, CircuitOutlierDetector, load
from socratic.uncertainty import auroc


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, ...]:
    return tuple(train_test_split(*load_digits(return_X_y=True), random_state=0))


@pytest.fixture(scope="module")
def model(digits: tuple[np.ndarray, ...]) -> CircuitClassifier:
    x, _, y, _ = digits
    return CircuitClassifier(structure="forest", random_state=0).fit(x, y)


def test_answers_of_digits(model: CircuitClassifier, digits: tuple[np.ndarray, ...]) -> None:
    _, x, _, y = digits
    answer = model.answer(x)
    assert (model.predict(x) == y).mean() > 0.94
    assert np.allclose(answer.probabilities, model.predict_proba(x))
    assert np.allclose(answer.probabilities.sum(1), 1.0)
    assert (answer.uncertainty.p_value <= 0.05).mean() < 0.12
    noise = np.random.default_rng(0).uniform(0.0, 16.0, x.shape)
    assert (model.answer(noise).uncertainty.p_value <= 0.05).mean() > 0.95


def test_a_forest_does_not_take_another_doubt_after_fit(digits: tuple[np.ndarray, ...]) -> None:
    x, _, y, _ = digits
    model = CircuitClassifier(random_state=0, calibration_fraction=0.3).fit(x[:600], y[:600])
    model.doubt = "dropout"
    with pytest.raises(ValueError, match="doubt='dropout' is for circuits with sums to drop from"):
        model.uncertainty(x[:5])


def test_a_file_holds_the_forest(model: CircuitClassifier, digits: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    _, x, _, _ = digits
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    ours, theirs = model.answer(x[:50]), again.answer(x[:50])
    assert np.array_equal(ours.probabilities, theirs.probabilities)
    assert np.array_equal(ours.uncertainty.p_value, theirs.uncertainty.p_value)


def test_queries_and_reasons_come_from_the_kernels(model: CircuitClassifier, digits: tuple[np.ndarray, ...]) -> None:
    _, x, _, _ = digits
    assert np.isfinite(model.score_samples(x)).all()
    rows, labels = model.sample(20, random_state=0)
    assert rows.shape == (20, 64)
    assert (model.predict(rows) == labels).mean() > 0.7
    gaps = x[:5].copy()
    gaps[:, 20:30] = np.nan
    assert np.isfinite(model.impute(gaps)).all()
    odd = x[:20].copy()
    odd[:, 36] = 60.0
    assert [reasons[0].name for reasons in model.explain(odd).top(1)].count("x36") >= 18


def test_missing_cells_cost_little(digits: tuple[np.ndarray, ...], model: CircuitClassifier) -> None:
    _, x, _, y = digits
    gaps = np.where(np.random.default_rng(0).random(x.shape) < 0.3, np.nan, x)
    assert (model.predict(gaps) == y).mean() > 0.85


def test_a_row_of_which_nothing_is_known_gets_the_class_prior() -> None:
    x, y = load_wine(return_X_y=True)
    rare = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:11]])
    model = CircuitClassifier(random_state=0).fit(x[rare], y[rare])
    nothing = np.full((1, x.shape[1]), np.nan)
    assert np.allclose(model.predict_proba(nothing)[0], model.class_prior_, atol=1e-12)
    assert np.allclose(model.class_prior_, np.bincount(y[rare]) / len(rare))
    uniform = CircuitClassifier(class_prior="uniform", random_state=0).fit(x[rare], y[rare])
    assert np.allclose(uniform.predict_proba(nothing)[0], 1 / 3, atol=1e-12)


@pytest.mark.slow
def test_rare_classes_are_as_frequent_as_is_said() -> None:
    more, worse = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(2600, 6))
        y = (rng.random(2600) < 1.0 / (1.0 + np.exp(3.0 - 0.5 * x[:, 0]))).astype(int)
        model = CircuitClassifier(random_state=seed).fit(x[:600], y[:600])
        found, prior = model.predict_proba(x[600:]), model.class_prior_
        more.append(found[:, 1].mean() - y[600:].mean())
        worse.append(np.log(prior[y[600:]] / found[np.arange(2000), y[600:]]).mean())
    errors = [np.std(each, ddof=1) / np.sqrt(12) for each in (more, worse)]
    print(f"more: {np.mean(more):.4f} ± {errors[0]:.4f}, worse: {np.mean(worse):.4f} ± {errors[1]:.4f}")
    assert abs(np.mean(more)) < 3.0 * errors[0]
    assert np.mean(worse) < 3.0 * errors[1]
    assert np.mean(worse) < 0.002


@pytest.mark.slow
@pytest.mark.parametrize(("load", "less"), [(load_digits, 0.007), (load_breast_cancer, 0.012)])
def test_as_accurate_as_a_random_forest(load: Any, less: float) -> None:
    x, y = load(return_X_y=True)
    found, peer = [], []
    for seed in range(4):
        train, test, of_train, of_test = train_test_split(x, y, test_size=1 / 3, random_state=seed, stratify=y)
        found.append(CircuitClassifier(random_state=seed).fit(train, of_train).score(test, of_test))
        peer.append(RandomForestClassifier(random_state=seed).fit(train, of_train).score(test, of_test))
    print(f"found: {np.mean(found):.4f}, random forest: {np.mean(peer):.4f}")
    assert np.mean(found) > np.mean(peer) - less


def test_frames_with_categories_and_gaps() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    texts = np.array(["a", "b", "c"])[(y + rng.integers(2, size=300)) % 3]
    frame = pd.DataFrame(
        {
            "number": np.where(rng.random(300) < 0.1, np.nan, rng.normal(y, 1.0)),
            "text": np.where(rng.random(300) < 0.1, None, texts),
            "flag": rng.random(300) < 0.3 + 0.4 * y,
        }
    )
    model = CircuitClassifier(structure="forest", random_state=0).fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.75
    assert model.explain(frame[:3]).names == ("number", "text", "flag")


@pytest.mark.slow
def test_another_fit_leaves_nothing_of_the_forest_behind() -> None:
    x, y = load_wine(return_X_y=True)
    model = CircuitClassifier(structure="forest", random_state=0).fit(x, y)
    assert model.dropout_ == 0.0
    model.set_params(structure="learnspn").fit(x, y)
    assert not hasattr(model, "forest_")
    assert hasattr(model, "profile_")
    model.set_params(structure="forest").fit(x, y)
    assert not hasattr(model, "profile_")


def test_what_a_forest_has_no_answer_to_is_refused() -> None:
    x, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="doubt='dropout' is for circuits with sums to drop from"):
        CircuitClassifier(structure="forest", doubt="dropout").fit(x, y)
    with pytest.raises(ValueError, match="leaf_variance is for circuits"):
        CircuitClassifier(structure="forest", leaf_variance=0.1).fit(x, y)
    with pytest.raises(ValueError, match="n_circuits must be 1 for structure='forest'"):
        CircuitClassifier(structure="forest", n_circuits=3).fit(x, y)
    with pytest.raises(ValueError, match=r"takes gaussian, bernoulli and categorical columns; got 'x0' \(gamma\)"):
        CircuitClassifier(structure="forest", leaf={"x0": "gamma"}).fit(x, y)
    with pytest.raises(ValueError, match="structure='forest' is for classifiers"):
        CircuitDensity(structure="forest").fit(x)


def test_kernels_find_what_is_unlike_the_training_rows() -> None:
    x, y = load_wine(return_X_y=True)
    detector = CircuitOutlierDetector(structure="kernels", random_state=0).fit(x[y != 2])
    known, other = detector.score_samples(x[y != 2]), detector.score_samples(x[y == 2])
    assert np.median(other) < np.quantile(known, 0.05)


def contaminated(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four columns, 18 of 618 of them outliers, which come last: half a tight clump, half in small groups."""
    rng = np.random.default_rng(seed)
    usual, clump = rng.normal(size=(600, 4)), rng.normal(5.0, 0.1, size=(9, 4))
    groups = np.repeat(rng.choice([-5.0, 5.0], size=(3, 4)), 3, axis=0) + rng.normal(0.0, 0.1, size=(9, 4))
    return np.concatenate([usual, clump, groups]), np.arange(618) >= 600


@pytest.mark.parametrize("seed", range(3))
def test_outliers_among_the_training_rows_are_noticed(seed: int) -> None:
    rows, outlier = contaminated(seed)
    detector = CircuitOutlierDetector(random_state=seed).fit(rows)
    scores = -detector.score_samples(rows)
    assert auroc(scores[~outlier], scores[outlier]) > 0.99
    new = np.random.default_rng(100 + seed)
    assert (detector.p_value(new.normal(5.0, 0.1, size=(200, 4))) <= 0.05).all()
    assert (detector.p_value(new.normal(size=(500, 4))) <= 0.05).mean() < 0.1


def test_training_outliers_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(size=(588, 4)), rng.normal(6.0, 0.1, size=(12, 4))])  # a tight clump
    robust = CircuitOutlierDetector(training_outliers=0.05, random_state=0).fit(rows)
    clump, usual = rng.normal(6.0, 0.1, size=(200, 4)), rng.normal(size=(200, 4))
    assert (robust.p_value(clump) <= 0.05).all()
    assert (robust.p_value(usual) <= 0.05).mean() < 0.12
    changed = np.column_stack([rows, np.zeros(len(rows))])  # a column that is constant
    watching = CircuitOutlierDetector(training_outliers=0.05, random_state=0).fit(changed)
    assert watching.predict(np.append(np.zeros(4), 1.0)[None]) == [-1]  # and changes
    robust.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").p_value(usual), robust.p_value(usual))


def test_contamination_goes_with_kernels_alone() -> None:
    rows = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(ValueError, match=r"training_outliers=0.1 is for structure='kernels'"):
        CircuitOutlierDetector(training_outliers=0.1, n_epochs=3).fit(rows)
    with pytest.raises(ValueError, match="training_outliers must be"):
        CircuitOutlierDetector(training_outliers=1.5).fit(rows)


def overlapping(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A rare class whose rows lie among those of the other."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.15).astype(int)
    return rng.normal(size=(n, 5)) + 0.8 * y[:, None], y


@pytest.mark.parametrize("n_rows", [300, 900])
@pytest.mark.parametrize(("rare", "other"), [(2.0, 2.0), (6.0, 1.0)])
def test_whole_weights_are_no_copies_that_trees_are_judged_by(n_rows: int, rare: float, other: float) -> None:
    """A row is not held out from a tree that was grown on a copy of it: probabilities would be far too sure."""
    (x, y), (new, labels) = overlapping(n_rows, 0), overlapping(2000, 1)
    weight, of_new = np.where(y, rare, other), np.where(labels, rare, other)
    models = (CircuitClassifier(random_state=0).fit(x, y, sample_weight=each) for each in (weight, 1.001 * weight))
    whole, broken = (log_loss(labels, model.predict_proba(new), sample_weight=of_new) for model in models)
    assert whole < broken + 0.05


@pytest.mark.parametrize("unit", [1e-6, 1 / 300, 0.5, 1000.0])
def test_weights_count_by_their_proportions(unit: float) -> None:
    (x, y), (new, _) = overlapping(300, 0), overlapping(200, 1)
    weight = np.where(y, 3.0, 1.0)
    one, other = (CircuitClassifier(random_state=0).fit(x, y, sample_weight=each) for each in (weight, unit * weight))
    np.testing.assert_allclose(other.predict_proba(new), one.predict_proba(new), atol=1e-3)
    equal, plain = (CircuitClassifier(random_state=0).fit(x, y, each) for each in (np.full(300, unit), None))
    np.testing.assert_allclose(equal.predict_proba(new), plain.predict_proba(new), atol=1e-3)
