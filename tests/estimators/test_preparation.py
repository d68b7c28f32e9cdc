"""Rows for training: which of them are draws of their own, and how they are divided."""

from __future__ import annotations

import numpy as np

from socratic.estimators.preparation import MIN_HELD_OUT, Prepared, prepare, split_rows
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
        split = split_rows(labels, np.random.default_rng(seed), validation=0.0, calibration=0.2, reference=0.25)
        assert np.isin(np.flatnonzero(labels > 0), split.train).all()
        drawn.append(len(split.alone))
    error = np.std(drawn) / np.sqrt(len(drawn))
    assert abs(np.mean(drawn) - 0.75 * 0.2 * 100) < 4 * error


def test_every_class_keeps_rows_to_train_on() -> None:
    labels = np.array([0] * 80 + [1] * 17 + [2, 2, 3])
    split = split_rows(labels, np.random.default_rng(0), validation=0.2, calibration=0.4, reference=1 / 3)
    parts = (split.train, split.validation, split.reference, split.calibration)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(100))
    assert set(labels[split.train]) == {0, 1, 2, 3}
    held_out = np.concatenate([split.reference, split.calibration])
    assert len(split.reference) == len(held_out) // 3
    assert 3 not in labels[held_out]


def test_too_few_rows_to_hold_out_are_all_trained_on() -> None:
    n = MIN_HELD_OUT * 5 - 3
    split = split_rows(np.zeros(n), np.random.default_rng(0), validation=0.0, calibration=0.2, reference=0.5)
    assert (len(split.train), len(split.calibration)) == (n, 0)
