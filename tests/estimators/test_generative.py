"""Samples, completions and conditional probabilities in the units and categories of tables."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_iris

from socratic.estimators import CircuitClassifier, CircuitDensity

QUICK = {"n_epochs": 15, "n_sums": 4, "n_repetitions": 3, "random_state": 0}


def fruit_table(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    kind = rng.choice(["lemon", "orange"], n, p=[0.4, 0.6])
    return pd.DataFrame(
        {
            "kind": kind,
            "weight": np.where(kind == "lemon", rng.normal(100, 12, n), rng.normal(160, 20, n)),
            "ripe": rng.random(n) < np.where(kind == "lemon", 0.9, 0.2),
            "seeds": rng.binomial(6, np.where(kind == "lemon", 0.7, 0.3)),
        }
    )


@pytest.fixture(scope="module")
def density() -> CircuitDensity:
    return CircuitDensity(**QUICK, leaf={"seeds": "binomial"}).fit(fruit_table())


@pytest.fixture(scope="module")
def classifier() -> CircuitClassifier:
    x, y = load_iris(return_X_y=True)
    return CircuitClassifier(**{**QUICK, "n_epochs": 12}, cross_entropy_weight=0.2).fit(
        x, np.array(["setosa", "versicolor", "virginica"])[y]
    )


def test_conditionals_are_differences_of_scores(density: CircuitDensity) -> None:
    table = fruit_table(20)
    without = table.assign(weight=np.nan, seeds=np.nan)
    expected = density.score_samples(table) - density.score_samples(without)
    np.testing.assert_allclose(density.conditional(table, ["kind", "ripe"]), expected, rtol=1e-9)
    np.testing.assert_allclose(density.conditional(table, [0, 2]), expected, rtol=1e-9)
    np.testing.assert_allclose(density.conditional(table, []), density.score_samples(table), rtol=1e-9)
    # A row whose other columns are all missing says nothing.
    assert density.conditional(table.assign(kind=None)[:3], ["weight", "ripe", "seeds"]) == pytest.approx(0.0)
    with pytest.raises(ValueError, match=r"given names the column 'colour', which is not in the data \(kind, weight"):
        density.conditional(table, ["colour"])


def test_conditional_densities_integrate_to_one(density: CircuitDensity) -> None:
    grid = np.linspace(-200, 500, 4001)
    table = pd.DataFrame({"kind": "lemon", "weight": grid, "ripe": None, "seeds": 3})
    assert np.trapezoid(np.exp(density.conditional(table, ["kind", "seeds"])), grid) == pytest.approx(1.0, abs=1e-6)


def test_conditionals_of_a_classifier_mix_its_classes(classifier: CircuitClassifier) -> None:
    x = load_iris().data[::10]
    part = x.copy()
    part[:, 2:] = np.nan
    expected = classifier.score_samples(x) - classifier.score_samples(part)
    np.testing.assert_allclose(classifier.conditional(x, [0, 1]), expected, rtol=1e-9)


def test_imputed_frames_keep_what_was_there(density: CircuitDensity) -> None:
    table = fruit_table(50)
    holes = table.copy().astype({"ripe": object, "seeds": "Int64", "kind": "category"})
    rng = np.random.default_rng(1)
    for name in holes.columns:
        holes.loc[rng.random(50) < 0.5, name] = None
    for method in ("mean", "sample", "mpe"):
        filled = density.impute(holes, method=method, random_state=0)
        assert list(filled.columns) == list(table.columns)
        assert filled.index.equals(table.index)
        assert not filled.isna().any().any()
        assert filled["kind"].dtype == holes["kind"].dtype
        assert filled["ripe"].dtype == bool
        for name in table.columns:
            known = holes[name].notna()
            assert (filled[name][known] == table[name][known]).all()
        assert holes["weight"].isna().any()  # the input is not touched
    drawn = density.impute(holes, method="sample", random_state=0)
    pd.testing.assert_frame_equal(drawn, density.impute(holes, method="sample", random_state=0))
    assert set(drawn["seeds"]) <= set(range(7))


def test_imputed_values_are_conditional_expectations(density: CircuitDensity) -> None:
    """Means by integrating the conditional density, categories by comparing their conditional probabilities."""
    row = pd.DataFrame({"kind": ["lemon"], "weight": [np.nan], "ripe": [None], "seeds": [np.nan]})
    filled = density.impute(row)
    grid = np.linspace(-200, 500, 4001)
    table = pd.DataFrame({"kind": "lemon", "weight": grid, "ripe": None, "seeds": np.nan})
    mean = np.trapezoid(np.exp(density.conditional(table, ["kind"])) * grid, grid)
    assert filled["weight"][0] == pytest.approx(mean, rel=1e-6)
    assert mean == pytest.approx(100, abs=10)
    counts = pd.DataFrame({"kind": "lemon", "weight": np.nan, "ripe": None, "seeds": np.arange(7.0)})
    assert filled["seeds"][0] == pytest.approx(np.exp(density.conditional(counts, ["kind"])) @ np.arange(7))
    ripe = pd.DataFrame({"kind": "lemon", "weight": np.nan, "ripe": [False, True], "seeds": np.nan})
    assert filled["ripe"][0] == bool(density.conditional(ripe, ["kind"]).argmax())
    light = pd.DataFrame({"kind": [None, None], "weight": [95.0, 170.0], "ripe": None, "seeds": np.nan})
    assert density.impute(light)["kind"].tolist() == ["lemon", "orange"]
    assert density.impute(light, method="mpe")["kind"].tolist() == ["lemon", "orange"]


def test_drawn_completions_follow_the_conditional_distribution(density: CircuitDensity) -> None:
    rows = pd.DataFrame({"kind": ["lemon"] * 1000, "weight": np.nan, "ripe": None, "seeds": np.nan})
    drawn = density.impute(rows, method="sample", random_state=0)
    grid = np.linspace(-200, 500, 4001)
    table = pd.DataFrame({"kind": "lemon", "weight": grid, "ripe": None, "seeds": np.nan})
    p = np.exp(density.conditional(table, ["kind"]))
    cumulative = np.concatenate([[0], np.cumsum((p[1:] + p[:-1]) / 2 * np.diff(grid))])
    assert stats.kstest(drawn["weight"], lambda v: np.interp(v, grid, cumulative)).pvalue > 1e-3
    assert drawn["ripe"].mean() > 0.7


def test_unknown_values_guide_nothing_but_stay(density: CircuitDensity) -> None:
    row = pd.DataFrame({"kind": ["banana"], "weight": [np.nan], "ripe": [True], "seeds": [5.0]})
    with pytest.warns(UserWarning, match="'banana' in 'kind'"):
        filled = density.impute(row)
    assert filled["kind"].tolist() == ["banana"]
    assert np.isfinite(filled["weight"][0])


def test_arrays_and_classifiers_impute(classifier: CircuitClassifier) -> None:
    x = load_iris().data
    holes = x.copy()
    holes[np.random.default_rng(0).random(x.shape) < 0.3] = np.nan
    filled = classifier.impute(holes)
    known = ~np.isnan(holes)
    assert np.array_equal(filled[known], x[known])
    error = np.abs(filled - x)[~known].mean()
    naive = np.abs(np.nanmean(holes, axis=0) - x)[~known].mean()
    assert error < 0.7 * naive
    assert np.array_equal(classifier.impute(x), x)
    with pytest.raises(ValueError, match="method must be one of 'mean', 'sample', 'mpe'; got 'median'"):
        classifier.impute(holes, method="median")


def test_classifiers_sample_labelled_rows(classifier: CircuitClassifier) -> None:
    rows, labels = classifier.sample(300, random_state=0)
    assert rows.shape == (300, 4)
    assert set(labels) == {"setosa", "versicolor", "virginica"}
    assert (classifier.predict(rows) == labels).mean() > 0.8
    again, _ = classifier.sample(300, random_state=0)
    assert np.array_equal(rows, again)
    _, one = classifier.sample(5, label="virginica", random_state=0)
    assert one.tolist() == ["virginica"] * 5
    with pytest.raises(ValueError, match=r"label must be one of .*; got 'rose'"):
        classifier.sample(5, label="rose")


def test_queries_survive_pickles_and_need_a_fit(density: CircuitDensity) -> None:
    copy = pickle.loads(pickle.dumps(density))
    table = fruit_table(5).assign(weight=np.nan)
    pd.testing.assert_frame_equal(copy.impute(table), density.impute(table))
    for query in (lambda m: m.impute(table), lambda m: m.conditional(table, [0]), lambda m: m.sample(1)):
        with pytest.raises(Exception, match="not fitted"):
            query(clone(density))


@pytest.mark.parametrize("structure", ["learnspn", "chow-liu"])
def test_learned_structures_answer_the_same_queries(structure: str) -> None:
    """Three columns that repeat one value, half of the time: what is missing is known from the others."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, 600)
    noisy = [np.where(rng.random(600) < 0.1, rng.integers(0, 3, 600), values) for _ in range(3)]
    table = pd.DataFrame({name: np.array(list("xyz"))[column] for name, column in zip("abc", noisy, strict=True)})
    model = CircuitDensity(structure=structure, random_state=0).fit(table)
    holes = table.copy()
    holes.loc[::2, "b"] = None
    for method in ("mean", "mpe"):
        filled = model.impute(holes, method=method)
        assert (filled["b"][::2] == table["a"][::2]).mean() > 0.85
        assert (filled[["a", "c"]] == table[["a", "c"]]).all(axis=None)
    drawn = model.sample(2000, random_state=0)
    assert (drawn["a"] == drawn["b"]).mean() > 0.7
    both = model.score_samples(table) - model.score_samples(table[["a", "b", "c"]].assign(b=None, c=None))
    np.testing.assert_allclose(model.conditional(table, ["a"]), both, atol=1e-9)
