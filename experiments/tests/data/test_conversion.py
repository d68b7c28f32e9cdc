from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from socratic.images import Images
from socratic_experiments.data import convert, like

RNG = np.random.default_rng(0)
GREY = RNG.integers(256, size=(5, 28, 28, 1), dtype=np.uint8)
COLOUR = RNG.integers(256, size=(5, 32, 32, 3), dtype=np.uint8)


def smooth(height: int, width: int) -> np.ndarray:
    """An image (1, H, W, 3) that changes slowly, in every channel differently."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(3 * y / height + c) + np.cos(4 * x / width - c) for c in range(3)]
    return (127.5 + 63 * np.stack(waves, axis=-1)).astype(np.uint8)[None]


def test_images_of_the_shape_stay() -> None:
    assert convert(GREY, (28, 28, 1)) is GREY


def test_larger_images_give_their_middle_and_smaller_ones_are_filled_up() -> None:
    np.testing.assert_array_equal(convert(COLOUR, (28, 28, 3)), COLOUR[:, 2:30, 2:30])
    filled = convert(GREY, (32, 32, 1))
    np.testing.assert_array_equal(filled[:, 2:30, 2:30], GREY)
    assert filled.sum(dtype=int) == GREY.sum(dtype=int)
    np.testing.assert_array_equal(convert(filled, (28, 28, 1)), GREY)


def test_sides_are_cropped_and_filled_each_on_their_own() -> None:
    found = convert(GREY, (25, 31, 1))
    np.testing.assert_array_equal(found[:, :, 1:29], GREY[:, 1:26])
    assert not found[:, :, :1].any()
    assert not found[:, :, 29:].any()


@pytest.mark.parametrize(("side", "resized"), [(20, False), (19, True), (31, False), (32, True)])
def test_a_quarter_is_the_limit(side: int, resized: bool) -> None:
    white = np.full((1, 25, 25, 1), 255, dtype=np.uint8)
    found = convert(white, (25, side, 1))
    assert (found == 255).all() == (resized or side < 25)
    dots = np.indices((25, 25)).sum(axis=0, dtype=np.uint8)[None, :, :, None] % 2 * 255
    assert np.isin(convert(dots, (25, side, 1)), (0, 255)).all() != resized


def test_grey_becomes_colour_by_repetition_and_back() -> None:
    coloured = convert(GREY, (28, 28, 3))
    np.testing.assert_array_equal(coloured, GREY.repeat(3, axis=3))
    np.testing.assert_array_equal(convert(coloured, (28, 28, 1)), GREY)


def test_colour_becomes_grey_as_in_pillow() -> None:
    expected = np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in COLOUR])
    found = convert(COLOUR, (32, 32, 1))[..., 0]
    assert np.abs(found.astype(int) - expected).max() <= 1
    assert (found == expected).mean() > 0.99


@pytest.mark.parametrize("size", [(8, 8), (32, 32), (100, 90), (224, 17), (1, 1)], ids=str)
def test_images_are_resized_as_in_pillow(size: tuple[int, int]) -> None:
    image = smooth(64, 48)
    expected = np.asarray(Image.fromarray(image[0]).resize((size[1], size[0]), Image.Resampling.BILINEAR))
    assert np.abs(convert(image, (*size, 3))[0].astype(int) - expected).max() <= 1


def test_many_images_are_converted_like_each_alone() -> None:
    images = RNG.integers(256, size=(2500, 4, 4, 3), dtype=np.uint8)
    found = convert(images, (2, 3, 1))
    assert found.shape == (2500, 2, 3, 1)
    for place in (0, 1023, 1024, 2499):
        np.testing.assert_array_equal(found[place : place + 1], convert(images[place : place + 1], (2, 3, 1)))


def test_no_images_are_converted_too() -> None:
    for side in (28, 90):
        assert convert(GREY[:0], (side, side, 3)).shape == (0, side, side, 3)


def test_like_keeps_labels_and_name() -> None:
    found = like(Images(COLOUR, np.arange(5), "set"), 28, 28, 1)
    assert found.images.shape == (5, 28, 28, 1)
    assert found.labels.tolist() == [0, 1, 2, 3, 4]
    assert found.name == "set"


@pytest.mark.parametrize(
    ("images", "shape", "message"),
    [
        (GREY, (0, 28, 1), "height must be a whole number of at least 1; got 0"),
        (GREY, (28, 2.5, 1), "width must be a whole number of at least 1; got 2.5"),
        (GREY, (28, 28, 2), "channels must be 1 or 3; got 2"),
        (GREY[..., 0], (28, 28, 1), r"images must hold uint8 of shape \(N, H, W, 1 or 3\); got uint8 of shape \(5, 28"),
        (GREY.astype(float), (28, 28, 1), "got float64 of shape"),
        (GREY.repeat(4, axis=3), (28, 28, 1), r"got uint8 of shape \(5, 28, 28, 4\)"),
    ],
    ids=["height", "width", "channels", "dimensions", "type", "alpha"],
)
def test_other_shapes_are_refused(images: np.ndarray, shape: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convert(images, shape)
