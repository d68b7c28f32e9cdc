"""Forests: class probabilities are as frequent as they say, whatever trees make of noise and of rare classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier

from socratic.circuit.forest import Forest
from socratic.families import Gaussian
from socratic.inference.forest import cell_doubt, forest_shares, tree_answers
from socratic.learning.structure import grow_forest


def grown(x: np.ndarray, y: np.ndarray, **settings: int) -> Forest:
    return grow_forest(x, y, [Gaussian()] * x.shape[1], int(y.max()) + 1, **settings)


def shares(forest: Forest, x: np.ndarray) -> np.ndarray:
    answers = tree_answers(forest, x, cell_doubt(forest, worth=1.0, prior_strength=0.1))
    return forest_shares(forest, answers, forest.class_prior)


def noise(share: float, n_rows: int = 600, n_columns: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(n_rows, n_columns)), (rng.random(n_rows) < share).astype(int)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_labels_that_are_noise_get_their_frequency(share: float) -> None:
    x, y = noise(share)
    found = shares(grown(x, y), np.random.default_rng(4).normal(size=(1000, 6)))[:, 1]
    assert found.mean() == pytest.approx(y.mean(), abs=0.005)
    of_constant = -share * np.log(y.mean()) - (1.0 - share) * np.log1p(-y.mean())
    loss = -(share * np.log(found) + (1.0 - share) * np.log1p(-found)).mean()
    assert loss <= of_constant + 0.003
    assert len(np.unique(found)) > 500  # rows keep their order


def test_rare_classes_are_as_frequent_as_is_said() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5000, 6))
    chance = 1.0 / (1.0 + np.exp(5.0 - 2.0 * x[:, 0] - x[:, 1]))
    y = (rng.random(5000) < chance).astype(int)
    found = shares(grown(x[:1000], y[:1000]), x[1000:])[:, 1]
    prior = y[:1000].mean()
    assert found.mean() == pytest.approx(chance[1000:].mean(), abs=0.012)  # a standard error of 1,000 rows is 0.007
    loss = -(y[1000:] * np.log(found) + (1 - y[1000:]) * np.log1p(-found)).mean()
    assert loss < -(y[1000:] * np.log(prior) + (1 - y[1000:]) * np.log1p(-prior)).mean() - 0.03


def test_one_row_of_a_rare_class_does_not_spoil_the_others() -> None:
    x, y = load_wine(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    rng = np.random.default_rng(0)
    two = rng.permutation(np.flatnonzero(y < 2))
    train, test = two[:80], two[80:]
    losses = []
    for rare in (np.empty(0, dtype=np.int64), np.flatnonzero(y == 2)[:1]):
        chosen = np.concatenate([train, rare])
        found = shares(grown(x[chosen], y[chosen]), x[test])
        losses.append(-np.log(found[np.arange(len(test)), y[test]]).mean())
    assert losses[1] < losses[0] + 0.05


def test_splits_look_at_some_columns_of_digits() -> None:
    x, y = load_digits(return_X_y=True)
    x = x / 16.0
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:900], order[900:]
    found = (shares(grown(x[train], y[train]), x[test]).argmax(1) == y[test]).mean()
    peer = RandomForestClassifier(random_state=0).fit(x[train], y[train]).score(x[test], y[test])
    assert found > peer - 0.008


def test_splits_look_at_all_columns_where_rows_are_then_more_likely() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 40))
    y = (x[:, 0] > 0).astype(int)  # what few splits would see that look at six columns of forty
    forest = grown(x, y, n_trees=30)
    assert (forest.feature[:, 0] == 0).all()
