"""Rows for training: which of them are draws of their own, and how they are divided."""

from __future__ import annotations

import numpy as np

from socratic.estimators.crossing import N_FOLDS, assign_folds
from socratic.estimators.preparation import MIN_HELD_OUT, MOST_TOGETHER, Prepared, prepare, split_rows
from socratic.tables.raw import raw_table


def prepared(codes: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> Prepared:
    return prepare(raw_table(codes), labels, weight, None)


def test_equal_rows_are_draws_of_their_own() -> None:
    rows = np.array([[0.07 * k**2, 0.3 * k] for k in range(30)])
    codes, labels = np.concatenate([rows, rows[4:5], rows[4:5]]), np.array([0] * 31 + [1])
    found = prepared(codes, labels, np.ones(32))
    np.testing.assert_array_equal(found.weight, np.ones(32))
    assert (found.twin == found.twin[found.place == 4]).sum() == 3  # also of another label


def test_nothing_depends_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(20, 2))[rng.integers(0, 20, 60)]
    labels, weight, order = rng.integers(0, 2, 60), rng.random(60), rng.permutation(60)
    one, other = prepared(codes, labels, weight), prepared(codes[order], labels[order], weight[order])
    for name in ("codes", "labels", "weight", "twin"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_row_alone_in_its_class_is_drawn_as_often_as_others_and_trained_on() -> None:
    labels = np.concatenate([np.zeros(900, dtype=int), np.arange(1, 101)])
    drawn = []
    for seed in range(200):
        split = split_rows(
            labels, np.arange(len(labels)), np.random.default_rng(seed), validation=0.0, calibration=0.2, reference=0.25
        )
        assert np.isin(np.flatnonzero(labels > 0), split.train).all()
        drawn.append(len(split.alone))
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert abs(np.mean(drawn) - 0.75 * 0.2 * 100) < 4 * error


def test_every_class_keeps_rows_to_train_on() -> None:
    labels = np.array([0] * 80 + [1] * 17 + [2, 2, 3])
    split = split_rows(
        labels, np.arange(len(labels)), np.random.default_rng(0), validation=0.2, calibration=0.4, reference=1 / 3
    )
    parts = (split.train, split.validation, split.reference, split.calibration)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(100))
    assert set(labels[split.train]) == {0, 1, 2, 3}
    held_out = np.concatenate([split.reference, split.calibration])
    assert len(split.reference) == len(held_out) // 3
    assert 3 not in labels[held_out]


def test_too_few_rows_to_hold_out_are_all_trained_on() -> None:
    n = MIN_HELD_OUT * 5 - 3
    split = split_rows(
        np.zeros(n), np.arange(n), np.random.default_rng(0), validation=0.0, calibration=0.2, reference=0.5
    )
    assert (len(split.train), len(split.calibration)) == (n, 0)


def test_few_equal_rows_are_held_out_together_and_many_are_spread() -> None:
    """Three copies of each of 60 rows, and a row that 20 others equal."""
    twins = np.concatenate([np.repeat(np.arange(60), 3), np.full(20, 60)])
    labels = np.arange(len(twins)) // 3 % 2
    assert len(twins) - 180 > MOST_TOGETHER
    for seed in range(10):
        rng = np.random.default_rng(seed)
        split = split_rows(labels, twins, rng, validation=0.2, calibration=0.3, reference=0.5)
        part = np.empty(len(twins), dtype=int)
        for number, rows in enumerate((split.train, split.validation, split.reference, split.calibration)):
            part[rows] = number
        folds = assign_folds(labels, twins, rng, costly=False)
        assert folds is not None
        for found, least in ((part, 2), (folds, N_FOLDS)):
            assert (found[:180].reshape(60, 3) == found[:180:3, None]).all()
            assert len(np.unique(found[180:])) >= least


def test_a_class_of_copies_alone_is_trained_on() -> None:
    labels, twins = np.array([0] * 40 + [1] * 3), np.append(np.arange(40), [40] * 3)
    folds = assign_folds(labels, twins, np.random.default_rng(0), costly=False)
    assert folds is not None
    np.testing.assert_array_equal(folds[40:], -1)
    assert (folds[:40] >= 0).all()
