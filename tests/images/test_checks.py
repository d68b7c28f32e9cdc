from __future__ import annotations

import re

import numpy as np
import pytest

from socratic.images.checks import check_images
from tests.images.made_up import some_images


@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_pass(channels: int) -> None:
    images = some_images(5, 4, 6, channels)
    assert check_images(images) is images


def test_grey_images_need_no_axis_of_their_own() -> None:
    images = some_images(5, 4, 6, 1)
    np.testing.assert_array_equal(check_images(images[..., 0]), images)
    np.testing.assert_array_equal(check_images(list(images[..., 0])), images)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (some_images(1)[0, :, :, 0], "the shape (N, H, W) or (N, H, W, C); got (8, 8): a single image is images[None]"),
        (some_images(2).reshape(2, 1, 8, 8, 3), "the shape (N, H, W) or (N, H, W, C); got (2, 1, 8, 8, 3)"),
        (np.full((2, 4, 4), 0.5), "got float64 from 0 to 1: convert them by (images * 255).round().astype(np.uint8)"),
        (np.full((2, 4, 4), 16.0), "got float64 from 16 to 16: convert them by images.astype(np.uint8), scaled to 255"),
        (np.full((2, 4, 4), -3), "got int64 from -3 to -3: scale them to 0 to 255 first"),
        (np.ones((2, 4, 4), dtype=bool), "got bool: convert them by images.astype(np.uint8) * 255"),
        (np.full((2, 4, 4), "a"), "uint8 from 0 to 255; got <U1"),
        (some_images(2, channels=4), "1 channel (grey) or 3 (red, green, blue); got 4: leave out the fourth"),
        (some_images(2, channels=2), "1 channel (grey) or 3 (red, green, blue); got 2"),
        (some_images(0), "at least one image of at least one pixel; got the shape (0, 8, 8, 3)"),
        ([], "at least one image of at least one pixel"),
        (
            [some_images(1, 4, 4)[0], some_images(1, 4, 4)[0], some_images(1, 5, 4)[0]],
            "one size; image 0 has the shape (4, 4, 3), image 2 (5, 4, 3): resize them, for example by load_image",
        ),
    ],
    ids=[
        "one",
        "five axes",
        "unit",
        "few levels",
        "negative",
        "bool",
        "text",
        "alpha",
        "two",
        "none",
        "empty",
        "sizes",
    ],
)
def test_anything_else_is_refused(images: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check_images(images)
