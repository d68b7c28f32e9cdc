from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from socratic.images import PixelEncoder
from socratic.images.pixels import haar
from tests.images.made_up import some_images


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_training_images_are_standardised(levels: int) -> None:
    encoder = PixelEncoder.fit(some_images(), levels)
    rows = encoder(encoder.bytes_of(some_images()))
    assert rows.shape == (40, 192)
    assert rows.dtype == torch.float32
    blocks = rows.view(40, 3, 8 // 2**levels, 2**levels, 8 // 2**levels, 2**levels)
    assert blocks.mean((0, 2, 4)).abs().max() < 1e-4
    assert (blocks.std((0, 2, 4)) - 1).abs().max() < 1e-3


def test_variables_come_channel_by_channel() -> None:
    images = some_images(5, 4, 6)
    encoder = PixelEncoder.fit(images)
    assert np.array_equal(encoder.bytes_of(images).numpy().reshape(5, 3, 4, 6), images.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("shape", [(8, 4, 3), (5, 6, 1)])
def test_bytes_become_the_images_again(shape: tuple[int, int, int]) -> None:
    images = some_images(7, *shape)
    encoder = PixelEncoder.fit(images)
    again = encoder.images_of(encoder.bytes_of(images))
    assert again.dtype == np.uint8
    np.testing.assert_array_equal(again, images)
    assert encoder.images_of(encoder.bytes_of(images[:0])).shape == (0, *shape)


def test_wavelets_are_a_rotation() -> None:
    """Distances stay, so a density of the coefficients is a density of the pixels."""
    images = torch.randn(6, 1, 16, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for levels in range(5):
        coefficients = haar(images, levels)
        torch.testing.assert_close(torch.cdist(coefficients.flatten(1), coefficients.flatten(1)),
                                   torch.cdist(images.flatten(1), images.flatten(1)))  # fmt: skip
    flat = haar(torch.ones(1, 1, 8, 8), 3)
    assert flat[0, 0, 0, 0] == 8.0
    assert flat.abs().sum() == 8.0


def test_colours_are_rotated_with_wavelets() -> None:
    grey = np.full((3, 4, 4, 3), 100, dtype=np.uint8)
    grey[1], grey[2] = 50, 200
    encoder = PixelEncoder.fit(grey, 1)
    coefficients = encoder._coefficients(torch.as_tensor(grey.transpose(0, 3, 1, 2)))
    assert coefficients[:, 1:].abs().max() < 1e-4  # a grey image has no colour
    torch.testing.assert_close(coefficients[:, 0, 0, 0], torch.tensor([100.0, 50.0, 200.0]) * 2 * math.sqrt(3))


def test_a_band_that_never_varies_is_not_blown_up() -> None:
    encoder = PixelEncoder.fit(np.zeros((5, 4, 4, 1), dtype=np.uint8))
    assert torch.isfinite(encoder(encoder.bytes_of(np.full((1, 4, 4, 1), 255, dtype=np.uint8)))).all()


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="multiples of 4; got 6 x 8 pixels"):
        PixelEncoder.fit(some_images(3, 6, 8), 2)
    with pytest.raises(ValueError, match=r"images must have the shape \(N, 8, 8, 3\); got"):
        PixelEncoder.fit(some_images()).bytes_of(some_images(2, 4, 4))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("levels", [0, 2])
def test_densities_of_variables_become_densities_of_pixels(levels: int, channels: int) -> None:
    """The encoder is linear up to a shift: the logarithm of its determinant is what densities differ by."""
    encoder = PixelEncoder.fit(some_images(30, 8, 4, channels), levels)
    basis = encoder(torch.eye(8 * 4 * channels)) - encoder(torch.zeros(1, 8 * 4 * channels))
    assert -float(torch.linalg.slogdet(basis.double())[1]) == pytest.approx(encoder.log_scale, abs=1e-3)
