"""LearnSPN: valid circuits from any table, the planted structure, and classes as well as a forest tells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import trapezoid
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

from socratic.circuit import Leaf, Node, Product, Sum
from socratic.families import Binomial, Categorical, Gaussian
from socratic.learning.structure import learn_class_spns, learn_spn
from tests.learning.structure.graphs import log_likelihood, scopes, topological
from tests.learning.structure.tables import TABLES, MixedTable, generate


def accuracy(roots: tuple[Node, ...], train_y: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    joint = log_likelihood(roots, x) + np.log(np.bincount(train_y) / len(train_y))
    return float(np.mean(joint.argmax(1) == y))


def summary(node: Node) -> list[Any]:
    """Everything a graph consists of, in a form that compares."""
    nodes = topological([node])
    place = {id(n): i for i, n in enumerate(nodes)}
    return [
        (n.variable, n.distribution)
        if isinstance(n, Leaf)
        else (type(n), [place[id(c)] for c in n.children], getattr(n, "weights", None))
        for n in nodes
    ]


@pytest.mark.parametrize("kind", TABLES, ids=lambda kind: kind.__name__)
def test_generated_tables(kind: Callable[[int, np.random.Generator], MixedTable]) -> None:
    x, y, families = generate(kind, 1400, missing=0.1, seed=0)
    train, test = slice(0, 700), slice(700, None)
    roots = learn_class_spns(x[train], y[train], families)
    for root in roots:
        assert scopes([root])[id(root)] == frozenset(range(x.shape[1]))
    filled = np.where(np.isnan(x), np.nanmean(x[train], axis=0), x)
    forest = RandomForestClassifier(50, random_state=0).fit(filled[train], y[train])
    assert accuracy(roots, y[train], x[test], y[test]) > forest.score(filled[test], y[test]) - 0.03


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_accuracy_is_near_a_forest(load: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
    x, y = load(return_X_y=True)
    ours, forest = [], []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(x, y):
        ours.append(accuracy(learn_class_spns(x[train], y[train], "gaussian"), y[train], x[test], y[test]))
        forest.append(RandomForestClassifier(50, random_state=0).fit(x[train], y[train]).score(x[test], y[test]))
    assert np.mean(ours) > np.mean(forest) - 0.02


def test_digits() -> None:
    x, y = load_digits(return_X_y=True)
    roots = learn_class_spns(x[:900], y[:900], Binomial(16))
    assert accuracy(roots, y[:900], x[900:], y[900:]) > 0.9


def test_independent_blocks_become_factors() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 500, 1))
    x = np.hstack([left, right, left, right]) + 0.3 * rng.normal(size=(500, 4))
    root = learn_spn(x, "gaussian")
    assert isinstance(root, Product)
    found = scopes([root])
    assert {found[id(child)] for child in root.children} == {frozenset({0, 2}), frozenset({1, 3})}


def test_clusters_become_sums() -> None:
    rng = np.random.default_rng(0)
    kind = rng.random(600) < 0.3
    x = np.where(kind[:, None], 5.0, -5.0) + rng.normal(size=(600, 3))
    root = learn_spn(x, "gaussian")
    assert isinstance(root, Sum)
    assert sorted(root.weights) == pytest.approx([kind.mean(), 1 - kind.mean()])
    assert all(isinstance(child, Product) for child in root.children)


def test_density_adds_up_to_one() -> None:
    rng = np.random.default_rng(0)
    number = rng.gamma(1.0, size=400)
    x = np.column_stack([number, rng.random(400) < number / (1 + number), np.minimum(number.round(), 3)])
    root = learn_spn(x, [Gaussian(), "bernoulli", Categorical(4)])
    grid = np.linspace(-10, 20, 3001)
    rows = np.array([[v, a, c] for a in (0, 1) for c in range(4) for v in grid])
    density = np.exp(log_likelihood([root], rows)).reshape(8, -1)
    assert trapezoid(density, grid, axis=1).sum() == pytest.approx(1.0, abs=1e-6)


def test_categories_are_learned_with_the_g_test() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (500, 4)).astype(float)
    x[:, 2] = x[:, 0]
    for independence in ("auto", "g-test", "rdc"):
        root = learn_spn(x, Categorical(3), independence=independence)
        assert isinstance(root, Product)
        assert {frozenset({0, 2}), frozenset({1}), frozenset({3})} == {scopes([c])[id(c)] for c in root.children}


def test_seeds() -> None:
    x, y, families = generate(TABLES[1], 500, missing=0.1, seed=0)
    assert summary(learn_spn(x, families)) == summary(learn_spn(x, families))
    assert summary(learn_spn(x, families)) != summary(learn_spn(x, families, seed=1))
    both = learn_class_spns(x, y, families, seed=3)
    assert [summary(root) for root in both] == [summary(root) for root in learn_class_spns(x, y, families, seed=3)]


RNG = np.random.default_rng(0)
ODD_TABLES = {
    "one row": RNG.normal(size=(1, 4)),
    "one column": RNG.normal(size=(100, 1)),
    "one value": np.zeros((1, 1)),
    "one missing value": np.full((1, 1), np.nan),
    "constant": np.full((100, 3), 0.1),
    "all missing": np.full((100, 3), np.nan),
    "a constant and a missing column": np.column_stack([np.ones(80), np.full(80, np.nan), RNG.normal(size=80)]),
    "duplicates": np.repeat(RNG.normal(size=(2, 3)), 100, axis=0),
    "equal columns": np.repeat(RNG.normal(size=(200, 1)), 4, axis=1),
    "more columns than rows": RNG.normal(size=(10, 200)),
    "huge": 1e140 * RNG.normal(size=(200, 3)),
    "tiny": 1e-140 * RNG.normal(size=(200, 3)),
    "far from zero": 1e9 + RNG.normal(size=(200, 3)),
    "heavy tails": RNG.standard_cauchy((300, 1)) + RNG.standard_cauchy((300, 3)),
    "mostly missing": np.where(RNG.random((200, 4)) < 0.95, np.nan, RNG.normal(size=(200, 4))),
}


@pytest.mark.parametrize("name", ODD_TABLES)
def test_odd_tables(name: str) -> None:
    x = ODD_TABLES[name]
    root = learn_spn(x, "gaussian", min_rows=5)
    assert scopes([root])[id(root)] == frozenset(range(x.shape[1]))
    assert np.isfinite(log_likelihood([root], x)).all()


def test_settings_change_the_circuit() -> None:
    x, _, families = generate(TABLES[1], 500, missing=0.1, seed=0)
    size = {
        str(options): len(topological([learn_spn(x, families, **options)]))
        for options in ({}, {"min_rows": 200}, {"min_rows": 1000}, {"threshold": 0.99})
    }
    assert size["{}"] > size["{'min_rows': 200}"] > size["{'min_rows': 1000}"]
    assert size["{'threshold': 0.99}"] < size["{}"]
    assert len(learn_spn(x[:, :2], "gaussian", n_clusters=3).children) == 3  # type: ignore[union-attr]


def test_errors_name_the_problem() -> None:
    x = np.zeros((5, 2))
    cases: list[tuple[str, Callable[[], object]]] = [
        (r"at least one row and one column; got shape \(0, 2\)", lambda: learn_spn(x[:0], "gaussian")),
        ("one family for each of the 2 columns; got 1", lambda: learn_spn(x, ["gaussian"])),
        ("families must be one of", lambda: learn_spn(x, "normal")),
        ("column 0 is bernoulli and takes 0 or 1; got 3.0 in row 0", lambda: learn_spn(x + 3, "bernoulli")),
        (r"column 0 must lie within 1e\+150 of 0", lambda: learn_spn(x + np.inf, "gaussian")),
        ("n_clusters must be a whole number of at least 2", lambda: learn_spn(x, "gaussian", n_clusters=1)),
        ("independence must be one of", lambda: learn_spn(x, "gaussian", independence="none")),
        (
            "takes bernoulli and categorical columns; column 0 is gaussian",
            lambda: learn_spn(x, "gaussian", independence="g-test"),
        ),
        ("smoothing must be", lambda: learn_spn(x, "bernoulli", smoothing=-1)),
        ("min_variance must be a positive number; got 0", lambda: learn_spn(x, "gaussian", min_variance=0)),
        ("threshold must be", lambda: learn_spn(x, "bernoulli", threshold=2)),
        ("one class for each of the 5 rows", lambda: learn_class_spns(x, [0, 1], "gaussian")),
        ("class 1 has none", lambda: learn_class_spns(x, [0, 0, 2, 2, 0], "gaussian")),
    ]
    for message, call in cases:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("families", "message"),
    [
        (None, "families must be a family, the name of one, or one for each column; got None"),
        ("normal", "families must be one of 'gaussian', 'bernoulli', 'categorical', .*; got 'normal'"),
        (["gaussian", 3], "families must be the name of a family or one such as"),
    ],
)
def test_families_that_are_none_are_named(families: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learn_spn(np.zeros((3, 2)), families)


def test_the_g_test_names_the_test_that_takes_numbers() -> None:
    with pytest.raises(ValueError, match="cut it into bins first, or use independence='rdc'"):
        learn_spn(np.zeros((3, 2)), "gaussian", independence="g-test")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(3), "y must hold whole numbers, the classes from 0 on; got the type float64"),
        (np.array([0, 1, -1]), "y must hold whole numbers, the classes from 0 on; got -1"),
        (np.zeros(4, dtype=int), r"one class for each of the 3 rows; got the shape \(4,\)"),
    ],
)
def test_classes_are_whole_numbers(y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learn_class_spns(np.zeros((3, 2)), y, "gaussian")


@pytest.mark.filterwarnings("error")
def test_tables_may_be_read_only() -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    x.flags.writeable = False
    assert summary(learn_spn(x, "gaussian")) == summary(learn_spn(x.copy(), "gaussian"))
