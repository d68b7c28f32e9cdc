"""Rows for training: which of them are draws of their own, and how they are divided."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.estimators.preparation import MIN_HELD_OUT, draws, split_rows

REAL = np.array([True, True])


def weights_of(codes: list[list[float]], real: np.ndarray = REAL, labels: list[int] | None = None) -> list[float]:
    """The weight of each draw, ascending, of rows that weigh 1."""
    table = np.array(codes)
    found = draws(table, np.array(labels or [0] * len(table)), np.ones(len(table)), real)
    return sorted(found.weight.tolist())


def test_copies_of_measurements_are_one_draw() -> None:
    assert weights_of([[0.5, 1], [0.5, 1], [0.25, 2], [0.1, 3]]) == [1, 1, 2]
    assert weights_of([[0.5, 1], [0.5, 1], [0.25, 2], [0.1, 3]], labels=[0, 1, 0, 0]) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("codes", "real"),
    [
        ([[1, 1], [1, 1], [2, 2], [3, 3]], REAL),  # whole numbers may coincide
        ([[0.5, 1], [0.5, 1], [0.5, 2], [0.5, 3]], REAL),  # the fraction repeats in rows that differ
        ([[0.5, 1], [0.5, 1], [0.25, 2], [0.1, 3]], ~REAL),  # codes of categories
        ([[np.nan, 1], [np.nan, 1], [0.25, 2], [0.1, 3]], REAL),  # what was measured is missing
    ],
    ids=["whole", "repeated", "categories", "missing"],
)
def test_other_equal_rows_are_draws_of_their_own(codes: list[list[float]], real: np.ndarray) -> None:
    assert weights_of(codes, real) == [1, 1, 1, 1]


def test_weights_of_copies_add_up_whatever_their_order() -> None:
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(20, 2))[rng.integers(0, 20, 60)]
    labels, weight, order = np.zeros(60), rng.random(60), rng.permutation(60)
    one, other = draws(codes, labels, weight, REAL), draws(codes[order], labels, weight[order], REAL)
    np.testing.assert_array_equal(codes[one.kept], codes[order][other.kept])
    np.testing.assert_allclose(one.weight, other.weight)
    assert one.weight.sum() == pytest.approx(weight.sum())


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
