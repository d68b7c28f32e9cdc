"""The linear maps against scipy and Pillow."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.tests.shifts.pictures import photographs
from PIL import Image
from scipy import ndimage

from socratic_experiments.shifts import digital
from socratic_experiments.shifts.pixels import Draws, to_bytes, to_unit
from socratic_experiments.shifts.resample import (
    apply_pairs,
    box_matrix,
    for_both_axes,
    gaussian_blur,
    kernel_pairs,
    sample,
    zoom_matrix,
)

X = np.random.default_rng(0).random((3, 2, 13, 18), dtype=np.float32)


@pytest.mark.parametrize(("border", "mode"), [("zero", "grid-constant"), ("mirror", "mirror"), ("reflect", "reflect")])
@pytest.mark.parametrize("reach", [0.0, 2.0, 60.0])
def test_sample_equals_scipy(border: str, mode: str, reach: float) -> None:
    rng = np.random.default_rng(1)
    rows = np.arange(13)[:, None] + rng.uniform(-reach, reach, size=(3, 13, 18))
    columns = np.arange(18) + rng.uniform(-reach, reach, size=(3, 13, 18))
    found = sample(X, rows, columns, border=border)
    for i in range(3):
        for channel in range(2):
            expected = ndimage.map_coordinates(X[i, channel], [rows[i], columns[i]], order=1, mode=mode)
            np.testing.assert_allclose(found[i, channel], expected, atol=1e-4)


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.06, 1.25, 1.75, 2.5, 4.5])
@pytest.mark.parametrize("size", [8, 28, 32, 37])
def test_zoom_equals_scipy(size: int, factor: float) -> None:
    row = np.random.default_rng(2).random(size)
    n_kept = int(np.ceil(size / factor))
    start = (size - n_kept) // 2
    enlarged = ndimage.zoom(row[start : start + n_kept], factor, order=1)
    trim = (len(enlarged) - size) // 2
    np.testing.assert_allclose(zoom_matrix(size, factor) @ row, enlarged[trim : trim + size], atol=1e-9)


@pytest.mark.parametrize("sigma", [0.0, 0.05, 0.4, 1.5, 9.0])
@pytest.mark.parametrize(("mode", "truncate"), [("nearest", 4.0), ("reflect", 3.0)])
def test_gaussian_equals_scipy(sigma: float, mode: str, truncate: float) -> None:
    expected = ndimage.gaussian_filter(X, sigma, mode=mode, truncate=truncate, axes=(2, 3))
    np.testing.assert_allclose(gaussian_blur(X, sigma, mode=mode, truncate=truncate), expected, atol=1e-6)


@pytest.mark.parametrize("size", [1, 3, 7, 41])
def test_kernel_equals_scipy(size: int) -> None:
    kernel = np.random.default_rng(3).random((size, size))
    kernel /= kernel.sum()
    expected = ndimage.correlate(X, kernel[None, None], mode="mirror")
    np.testing.assert_allclose(apply_pairs(X, kernel_pairs(kernel, 13, 18)), expected, atol=1e-6)


def test_pairs_are_needed() -> None:
    with pytest.raises(ValueError, match="at least one pair"):
        apply_pairs(X, [])


@pytest.mark.parametrize("size", [8, 28, 32, 33, 224])
@pytest.mark.parametrize("share", [0.95, 0.9, 0.85, 0.75, 0.65, 0.6, 0.5, 0.4, 0.3, 0.25])
def test_pixelate_equals_pillow(size: int, share: float) -> None:
    images = np.random.default_rng(4).integers(256, size=(1, size, size, 3), dtype=np.uint8)
    small = Image.fromarray(images[0]).resize((int(size * share), int(size * share)), Image.Resampling.BOX)
    expected = np.asarray(small.resize((size, size), Image.Resampling.BOX))
    found = to_bytes(digital.pixelate(to_unit(images), share, Draws.seeded(0, 0)))[0]
    np.testing.assert_array_equal(found, expected)


def test_box_keeps_flat_rows() -> None:
    rows, columns = for_both_axes(X, lambda size: box_matrix(size, 5))
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    np.testing.assert_allclose(columns.sum(axis=1), 1)


def test_elastic_transform_without_waves_and_shift_changes_nothing() -> None:
    x = to_unit(photographs(32, 2))
    np.testing.assert_allclose(digital.elastic_transform(x, (0, 0, 0), Draws.seeded(0, 0)), x, atol=1e-5)


def test_affine_part_moves_three_corners_each_by_itself() -> None:
    rows, columns = np.meshgrid(np.arange(30), np.arange(40), indexing="ij")
    from_rows, from_columns = digital._affine_look_up(200, rows, columns, 4.0, Draws.seeded(0, 0))
    moved = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0,)).spawn(2)[1]).uniform(-4, 4, (200, 3, 2))
    corners = np.array([[30, 25], [30, 5], [10, 5]])  # column, row: 10 pixels from (20, 15)
    for i in range(200):
        places = (corners + moved[i])[:, ::-1].T  # affine, so interpolation between pixels is exact
        for grid, axis in ((from_columns, 0), (from_rows, 1)):
            corner = ndimage.map_coordinates(grid[i], places, order=1, mode="nearest")
            inside = (places[0] >= 0) & (places[0] <= 29) & (places[1] >= 0) & (places[1] <= 39)
            np.testing.assert_allclose(corner[inside], corners[inside, axis], atol=1e-6)
