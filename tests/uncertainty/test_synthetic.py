"""The shifts that detectors learn from."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.uncertainty.synthetic import MAX_ROWS, image_shifts, synthetic_shifts
from tests.images.made_up import some_images

BLANK, FLATTENED, BLURRED, HALVES = range(3, 7)


@pytest.mark.parametrize("n", [0, 1, 2, 50, MAX_ROWS + 1])
def test_shifts_keep_shape_type_and_codes(n: int) -> None:
    rng = np.random.default_rng(13)
    continuous = np.array([True, False, True, False])
    x = np.where(continuous, rng.normal(size=(n, 4)), rng.integers(0, 3, (n, 4))).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 2] = np.nan  # a column that nobody has seen
    before = x.copy()
    for shifted in synthetic_shifts(x, continuous, rng):
        assert shifted.shape == (min(n, MAX_ROWS), 4)
        assert shifted.dtype == np.float32
        codes = shifted[:, ~continuous]
        assert np.isin(codes[~np.isnan(codes)], [0, 1, 2]).all()
        assert np.isnan(shifted[:, 2]).all()
    np.testing.assert_array_equal(x, before)


def test_shifts_keep_columns_and_break_their_ties() -> None:
    rng = np.random.default_rng(14)
    common = rng.normal(size=(MAX_ROWS, 1)) ** 3  # heavy tails: rows differ in size
    x = common + 0.1 * rng.normal(size=(MAX_ROWS, 6)) + 5.0
    splices, shuffles, mixtures = synthetic_shifts(x, np.ones(6, dtype=bool), rng)

    def together(rows: np.ndarray) -> float:
        return float(np.corrcoef(rows[:, 0], rows[:, 1])[0, 1])

    np.testing.assert_array_equal(np.sort(shuffles, axis=0), np.sort(x, axis=0))
    assert abs(together(shuffles)) < 0.2
    assert together(splices) < 0.95 < together(x)
    assert together(mixtures) > 0.95  # keep covariances, and break what is finer
    np.testing.assert_allclose(mixtures.mean(0), x.mean(0), atol=1e-6)
    np.testing.assert_allclose(mixtures.std(0), x.std(0), rtol=0.3)
    assert (mixtures != x).all()


def test_shifts_depend_on_the_generator_alone() -> None:
    x, continuous = np.random.default_rng(15).normal(size=(30, 3)), np.array([True, True, False])
    first, second, other = (synthetic_shifts(x, continuous, np.random.default_rng(seed)) for seed in (1, 1, 2))
    for a, b, c in zip(first, second, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()


def test_bad_shift_arguments_are_named() -> None:
    rng = np.random.default_rng(16)
    with pytest.raises(ValueError, match=r"x must have the shape \(N, V\); got \(3,\)"):
        synthetic_shifts(np.ones(3), np.ones(3, dtype=bool), rng)
    with pytest.raises(ValueError, match=r"continuous must hold a boolean for each of 3 columns; got float64 of shape"):
        synthetic_shifts(np.ones((4, 3)), np.ones(3), rng)


@pytest.mark.parametrize("shape", [(8, 8, 3), (5, 4, 1), (1, 1, 1)])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_images_have_seven_shifts_of_their_shape(n: int, shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)
    before = images.copy()
    shifts = image_shifts(images, np.random.default_rng(1))
    assert [(shift.shape, shift.dtype) for shift in shifts] == [(images.shape, images.dtype)] * 7
    np.testing.assert_array_equal(images, before)


def test_at_most_so_many_images_are_made() -> None:
    images = np.zeros((MAX_ROWS + 1, 2, 2, 1), dtype=np.uint8)
    assert {len(shift) for shift in image_shifts(images, np.random.default_rng(0))} == {MAX_ROWS}


def test_blank_images_have_one_colour_of_the_image() -> None:
    images = some_images(20)
    blank = image_shifts(images, np.random.default_rng(1))[BLANK]
    assert (blank == blank[:, :1, :1]).all()
    colours = {tuple(pixel) for pixel in images.reshape(-1, 3)}
    assert {tuple(pixel) for pixel in blank[:, 0, 0]} <= colours


def test_flat_and_blurred_images_vary_less_around_the_same_mean() -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, 12, 12, 3), dtype=np.uint8)
    shifts = image_shifts(images, np.random.default_rng(1))
    usual = images.std((1, 2)).min()
    means = np.sort(images.mean((1, 2, 3)))
    for number in (FLATTENED, BLURRED):
        assert shifts[number].std((1, 2)).max() < 0.75 * usual
        np.testing.assert_allclose(np.sort(shifts[number].mean((1, 2, 3))), means, atol=4.0)


def test_halves_come_from_two_images() -> None:
    colours = np.arange(60, dtype=np.uint8)
    images = np.broadcast_to(colours[:, None, None, None], (60, 6, 4, 1)).copy()
    halves = image_shifts(images, np.random.default_rng(1))[HALVES][..., 0]
    assert all(len(np.unique(image)) == 2 for image in halves)
    above = (halves[:, :3] == halves[:, :1, :1]).all((1, 2)) & (halves[:, 3:] == halves[:, -1:, :1]).all((1, 2))
    beside = (halves[..., :2] == halves[:, :1, :1]).all((1, 2)) & (halves[..., 2:] == halves[:, :1, -1:]).all((1, 2))
    assert (above ^ beside).all()
    assert above.any()
    assert beside.any()
