"""Rows in the form they were given in, for a model that wants them so: draws among them, and synthetic shifts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from socratic.estimators.preparation import prepare
from socratic.images.checks import check_images
from socratic.tables.raw import arrow_table, raw_table
from socratic.uncertainty.synthetic import image_shifts, synthetic_shifts


class Given(NamedTuple):
    """Rows as they were given, the weight (N,) of each, and the same number (N,) for rows that are equal."""

    rows: Any
    weight: np.ndarray
    twin: np.ndarray

    def take(self, places: np.ndarray) -> Given:
        """Some of the rows."""
        return Given(take(self.rows, places), self.weight[places], self.twin[places])


def as_given(name: str, rows: Any) -> Any:
    """Arrays, tensors and pandas data frames as they are, anything else as an array."""
    if arrow_table(rows) is not None:
        raise ValueError(f"{name} must be an array or a pandas data frame; got {type(rows).__name__}")
    return rows if hasattr(rows, "shape") else np.asarray(rows)


def are_images(rows: Any) -> bool:
    """Whether rows are images (N, H, W) or (N, H, W, C), and no table."""
    return len(rows.shape) in (3, 4)


def n_rows(rows: Any) -> int:
    """How many rows there are."""
    return int(rows.shape[0])


def take(rows: Any, places: np.ndarray) -> Any:
    """Some of the rows."""
    return rows.iloc[places] if hasattr(rows, "iloc") else rows[places]


def without_cells(rows: Any, cells: np.ndarray) -> Any:
    """Rows of a table without the cells (N, V) that are to be hidden, in the form of the rows."""
    if hasattr(rows, "iloc"):
        return rows.mask(cells)
    if isinstance(rows, torch.Tensor):
        wide = rows if rows.is_floating_point() else rows.double()
        return wide.masked_fill(torch.as_tensor(cells, device=rows.device), torch.nan)
    return np.where(cells, np.nan, rows) if rows.dtype.kind in "biuf" else np.where(cells, None, rows)


def draws_of(name: str, rows: Any, density: Any, minimum: int) -> Given:
    """Rows in an order that depends on their content alone, of which there must be some."""
    rows = as_given(name, rows)
    if are_images(rows):
        given = Given(rows, np.ones(len(check_images(rows))), np.arange(len(rows)))
    else:
        raw = raw_table(rows, density)
        prepared = prepare(raw, np.zeros(raw.n_rows, dtype=np.int64), np.ones(raw.n_rows), density.leaf)
        given = Given(take(rows, prepared.place), prepared.weight, prepared.twin)
    if len(given.weight) < minimum:
        raise ValueError(f"{name} must hold at least {minimum} rows; got n_samples = {len(given.weight)}")
    return given


def shifts_of(rows: Any, rng: np.random.Generator) -> list[Any]:
    """The shifts of :mod:`~socratic.uncertainty.synthetic`, in the form of the rows.

    Numbers that are averaged become the nearest that occurs in their column, so that whoever knows the rows knows every
    value.
    """
    if hasattr(rows, "iloc"):
        return _shifted_frames(rows, rng)
    values = np.asarray(rows)
    shifts = _shifted_images(values, rng) if are_images(rows) else _shifted_columns(values, rng)
    return [torch.as_tensor(shift).to(rows.device) for shift in shifts] if isinstance(rows, torch.Tensor) else shifts


def _shifted_images(images: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    channelled = images.reshape(*images.shape[:3], -1)
    return [shift.reshape(len(shift), *images.shape[1:]) for shift in image_shifts(channelled, rng)]


def _shifted_columns(values: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    numbers = values.astype(np.float64)
    shifts = synthetic_shifts(numbers, np.ones(numbers.shape[1], dtype=bool), rng)
    return [np.column_stack(list(map(_nearest, shift.T, numbers.T))).astype(values.dtype) for shift in shifts]


def _shifted_frames(frame: Any, rng: np.random.Generator) -> list[Any]:
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    numeric = np.array([getattr(column.dtype, "kind", "O") in "iuf" for column in columns])
    # What cannot be averaged moves as the number of the row that it comes from, and so stays what it is.
    numbers = np.tile(np.arange(len(frame), dtype=np.float64)[:, None], frame.shape[1])
    for place in np.flatnonzero(numeric):
        numbers[:, place] = columns[place].to_numpy(dtype=np.float64, na_value=np.nan)

    def shifted(place: int, values: np.ndarray) -> Any:
        column = columns[place]
        if numeric[place]:
            return type(column)(_nearest(values, numbers[:, place]), dtype=column.dtype)
        return column.iloc[values.astype(np.int64)].reset_index(drop=True)

    return [
        type(frame)({name: shifted(place, shift[:, place]) for place, name in enumerate(frame.columns)})
        for shift in synthetic_shifts(numbers, numeric, rng)
    ]


def _nearest(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """For each of the values (n,) the nearest that is known, of (N,); NaN stays what it is."""
    grid = np.unique(known[~np.isnan(known)])
    if not len(grid):
        return values
    above = np.searchsorted(grid, values).clip(1, max(1, len(grid) - 1))
    lower, upper = grid[above - 1], grid[np.minimum(above, len(grid) - 1)]
    return np.where(np.isnan(values), np.nan, np.where(values - lower <= upper - values, lower, upper))
