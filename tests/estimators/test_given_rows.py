"""Synthetic shifts in the form of the rows: what a model knows of the rows, it knows of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from socratic.estimators.given_rows import as_given, shifts_of, take
from socratic.uncertainty.synthetic import synthetic_shifts

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "fraction": RNG.normal(size=60),
        "single": RNG.normal(size=60).astype(np.float32),
        "nullable": pd.array(np.where(RNG.random(60) < 0.2, np.nan, RNG.normal(size=60)), dtype="Float64"),
        "count": RNG.integers(0, 9, 60),
        "whole": RNG.integers(0, 9, 60).astype(float),
        "flag": RNG.random(60) < 0.5,
        "text": RNG.choice(["a", "b", "c"], 60),
        "missing": [None if missing else "seen" for missing in RNG.random(60) < 0.3],
        "category": pd.Categorical(RNG.choice(["x", "y"], 60)),
        "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(RNG.integers(0, 9, 60), unit="D"),
    },
    index=RNG.permutation(60) + 1000,
)


def test_frames_keep_their_columns_types_and_values() -> None:
    shifts = shifts_of(FRAME, np.random.default_rng(1))
    assert len(shifts) == len(synthetic_shifts(np.zeros((60, 2)), np.ones(2, dtype=bool), RNG))
    for shift in shifts:
        assert shift.dtypes.equals(FRAME.dtypes)
        assert len(shift) == 60
        for name in FRAME:
            assert set(shift[name].dropna()) <= set(FRAME[name])
        assert shift["missing"].isna().any()
        assert not shift.equals(FRAME.reset_index(drop=True))


@pytest.mark.parametrize("factor", [1e-3, 10.0])
def test_shifts_have_no_unit(factor: float) -> None:
    rows = np.column_stack([RNG.normal(size=50), RNG.integers(0, 30, 50), RNG.integers(0, 9, 50) / 10])
    for one, other in zip(
        shifts_of(rows, np.random.default_rng(1)), shifts_of(rows * factor, np.random.default_rng(1)), strict=True
    ):
        np.testing.assert_allclose(one * factor, other)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_, object])
def test_arrays_keep_their_type_and_their_values(dtype: Any) -> None:
    whole = RNG.integers(0, 2, size=(40, 3))
    rows = np.column_stack([whole, RNG.normal(size=40)]).astype(dtype)
    for shift in shifts_of(rows, np.random.default_rng(1)):
        assert shift.dtype == rows.dtype
        assert set(shift[:, :3].ravel()) <= {0, 1}
        assert set(shift[:, 3]) <= set(rows[:, 3])
        np.testing.assert_allclose(shift[:, 3].astype(float).mean(), rows[:, 3].astype(float).mean(), atol=0.5)


def test_images_and_tensors_stay_what_they_are() -> None:
    images = RNG.integers(0, 256, size=(30, 4, 5)).astype(np.uint8)
    for rows in (images, torch.as_tensor(images)):
        for shift in shifts_of(rows, np.random.default_rng(1)):
            assert (type(shift), shift.dtype, tuple(shift.shape)) == (type(rows), rows.dtype, (30, 4, 5))


def test_missing_values_move_like_values() -> None:
    rows = RNG.normal(size=(50, 2))
    rows[:10] = np.nan
    for shift in shifts_of(rows, np.random.default_rng(1)):
        assert 0 < np.isnan(shift).sum() < 40


def test_some_of_the_rows() -> None:
    assert take(FRAME, np.array([3, 1])).index.tolist() == FRAME.index[[3, 1]].tolist()
    np.testing.assert_array_equal(take(as_given("X", [[1, 2], [3, 4]]), np.array([1])), [[3, 4]])


def test_tables_that_cannot_be_taken_apart_are_refused() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="X must be an array or a pandas data frame; got Table"):
        as_given("X", pyarrow.table({"a": [1.0]}))
