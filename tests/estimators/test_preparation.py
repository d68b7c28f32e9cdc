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


MEASURED = [[0.07 * k**2, k % 3] for k in range(30)]


def test_copies_of_measurements_are_one_draw() -> None:
    assert weights_of([*MEASURED, MEASURED[4]]) == [1.0] * 29 + [2]
    assert weights_of([*MEASURED, MEASURED[4]], labels=[0] * 30 + [1]) == [1.0] * 31


@pytest.mark.parametrize("factor", [1e-3, 1.0, 100.0])
def test_whether_rows_are_copies_does_not_depend_on_units(factor: float) -> None:
    rows = np.array([*MEASURED, MEASURED[4]]) * factor
    assert weights_of(rows.tolist()) == [1.0] * 29 + [2]
    assert weights_of((rows[:, 1:] * factor).tolist(), REAL[1:]) == [1.0] * 31


@pytest.mark.parametrize(
    ("codes", "real"),
    [
        ([[k, k] for k in range(30)], REAL),  # numbers on a grid that is full may coincide
        ([[k % 10 / 7, k] for k in range(30)], REAL),  # the measurement repeats in rows that differ
        (MEASURED, ~REAL),  # codes of categories
        ([[np.nan, 1], *MEASURED], REAL),  # what was measured is missing
    ],
    ids=["grid", "repeated", "categories", "missing"],
)
def test_other_equal_rows_are_draws_of_their_own(codes: list[list[float]], real: np.ndarray) -> None:
    assert weights_of([codes[0], *codes], real) == [1.0] * (len(codes) + 1)


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
