from __future__ import annotations

import numpy as np
import pytest
from experiments.tests.shifts.pictures import digits, photographs
from scipy import ndimage

from socratic_experiments.shifts import rotate

SQUARE = {"28 grey": digits(5), "32 colour": photographs(32, 5)}


@pytest.mark.parametrize("kind", SQUARE)
@pytest.mark.parametrize("turns", [-5, -1, 0, 1, 2, 3, 4, 9])
def test_quarter_turns_move_pixels_only(kind: str, turns: int) -> None:
    images = SQUARE[kind]
    turned = rotate(images, 90 * turns)
    assert turned.dtype == np.uint8
    np.testing.assert_array_equal(turned, np.rot90(images, turns, axes=(1, 2)))
    assert not np.shares_memory(turned, images)


def test_four_quarter_turns_are_none() -> None:
    images = SQUARE["32 colour"]
    turned = images
    for _ in range(4):
        turned = rotate(turned, 90)
    np.testing.assert_array_equal(turned, images)


def test_turns_counter_clockwise() -> None:
    image = np.zeros((1, 21, 21, 1), dtype=np.uint8)
    image[0, 10, 18] = 255  # right of the centre
    row, column, _ = np.unravel_index(rotate(image, 45)[0].argmax(), (21, 21, 1))
    assert (row, column) == (4, 16)  # above it, to the right


@pytest.mark.parametrize("degrees", [-200.5, 1, 30, 45.0, 77.7, np.float32(10), 725])
@pytest.mark.parametrize("shape", [(28, 28, 1), (20, 33, 3), (9, 9, 2)], ids=str)
def test_equals_scipy(degrees: float, shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(0).integers(256, size=(4, *shape), dtype=np.uint8)
    expected = ndimage.rotate(
        images.astype(float), float(degrees), axes=(1, 2), reshape=False, order=1, mode="grid-constant"
    )
    # scipy turns counter-clockwise from the first axis to the second, with rows downwards, as we do.
    np.testing.assert_allclose(rotate(images, degrees), expected, atol=0.51)


def test_what_comes_from_outside_is_black() -> None:
    turned = rotate(np.full((1, 32, 32, 3), 255, dtype=np.uint8), 45)
    assert (turned[0, [0, 0, -1, -1], [0, -1, 0, -1]] == 0).all()
    assert (turned[0, 8:24, 8:24] == 255).all()


def test_each_image_is_turned_by_itself() -> None:
    images = SQUARE["32 colour"]
    expected = np.concatenate([rotate(image[None], 33) for image in images])
    np.testing.assert_array_equal(rotate(images, 33), expected)
    assert rotate(images[:0], 33).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("degrees", [float("nan"), float("inf"), "90", None, True, 1j, np.array([90.0])])
def test_angles_must_be_finite_numbers(degrees: object) -> None:
    with pytest.raises(ValueError, match="degrees must be a finite number"):
        rotate(SQUARE["28 grey"], degrees)


def test_images_are_checked() -> None:
    with pytest.raises(ValueError, match=r"images must have the shape \(N, H, W, C\); got \(28, 28\)"):
        rotate(np.zeros((28, 28), dtype=np.uint8), 90)
