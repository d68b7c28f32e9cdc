from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from socratic.experiments.pixels import Augmentation, PixelScaler, add_noise, haar, shift_images


def some_images(n: int = 40, height: int = 8, width: int = 8, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, height, width, channels), dtype=np.uint8)


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_training_images_are_standardised(levels: int) -> None:
    scaler = PixelScaler.fit(some_images(), levels)
    rows = scaler(scaler.bytes_of(some_images()))
    assert rows.shape == (40, 192)
    assert rows.dtype == torch.float32
    blocks = rows.view(40, 3, 8 // 2**levels, 2**levels, 8 // 2**levels, 2**levels)
    assert blocks.mean((0, 2, 4)).abs().max() < 1e-4
    assert (blocks.std((0, 2, 4)) - 1).abs().max() < 1e-3


def test_variables_come_channel_by_channel() -> None:
    images = some_images(5, 4, 6)
    scaler = PixelScaler.fit(images)
    assert np.array_equal(scaler.bytes_of(images).numpy().reshape(5, 3, 4, 6), images.transpose(0, 3, 1, 2))


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
    scaler = PixelScaler.fit(grey, 1)
    coefficients = scaler._coefficients(torch.as_tensor(grey.transpose(0, 3, 1, 2)))
    assert coefficients[:, 1:].abs().max() < 1e-4  # a grey image has no colour
    torch.testing.assert_close(coefficients[:, 0, 0, 0], torch.tensor([100.0, 50.0, 200.0]) * 2 * math.sqrt(3))


def test_a_band_that_never_varies_is_not_blown_up() -> None:
    scaler = PixelScaler.fit(np.zeros((5, 4, 4, 1), dtype=np.uint8))
    assert torch.isfinite(scaler(scaler.bytes_of(np.full((1, 4, 4, 1), 255, dtype=np.uint8)))).all()


def test_own_normalisation() -> None:
    scaler = PixelScaler.fit(some_images())
    dark = some_images() // 4
    assert scaler.of(dark) is scaler
    rows = scaler.of(dark, "own")(scaler.bytes_of(dark))
    assert abs(float(rows.mean())) < 1e-3
    with pytest.raises(ValueError, match="normalise must be one of 'train', 'own'; got 'none'"):
        scaler.of(dark, "none")


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="multiples of 4; got 6 x 8 pixels"):
        PixelScaler.fit(some_images(3, 6, 8), 2)
    with pytest.raises(ValueError, match=r"images must have the shape \(N, 8, 8, 3\); got"):
        PixelScaler.fit(some_images()).bytes_of(some_images(2, 4, 4))


def test_shifts_move_whole_images() -> None:
    image = torch.zeros(1, 1, 9, 9, dtype=torch.uint8)
    image[0, 0, 4, 4] = 7
    flat = image.flatten(1).repeat(300, 1)
    moved = shift_images(flat, (9, 9, 1), 2, torch.Generator().manual_seed(0)).view(300, 9, 9)
    places = moved.nonzero()[:, 1:]
    assert len(places) == 300
    assert set(map(tuple, places.tolist())) == {(y, x) for y in range(2, 7) for x in range(2, 7)}
    assert shift_images(flat, (9, 9, 1), 0, torch.Generator()) is flat


def test_shifts_repeat_the_border_and_keep_channels_together() -> None:
    images = some_images(1, 4, 4)
    scaler = PixelScaler.fit(images)
    flat = scaler.bytes_of(images).repeat(50, 1)
    moved = shift_images(flat, (4, 4, 3), 1, torch.Generator().manual_seed(1)).view(50, 3, 4, 4)
    padded = torch.nn.functional.pad(flat[:1].view(1, 3, 4, 4).float(), (1, 1, 1, 1), mode="replicate")
    crops = [padded[0, :, y : y + 4, x : x + 4] for y in range(3) for x in range(3)]
    assert all(any(torch.equal(image.float(), crop) for crop in crops) for image in moved)


def test_augmentation_names_itself_and_follows_its_generator() -> None:
    augment = Augmentation(1, 5.0, PixelScaler.fit(some_images()))
    flat = augment.scaler.bytes_of(some_images())
    first, second = (augment(flat, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert repr(augment) == "Augmentation(1, 5.0, levels=0, shape=(8, 8, 3))"
    plain = Augmentation(0, 0.0, augment.scaler)
    assert torch.equal(plain(flat, torch.Generator()), augment.scaler(flat))


def test_half_of_the_images_get_noise() -> None:
    flat = torch.full((4000, 300), 100, dtype=torch.uint8)
    noisy = add_noise(flat, 10.0, torch.Generator().manual_seed(0))
    deviation = (noisy - 100.0).std(1)
    assert 0.45 < float((deviation == 0).float().mean()) < 0.55
    assert 9.0 < float(deviation.max()) < 12.0
    bright = add_noise(torch.full_like(flat, 255), 50.0, torch.Generator().manual_seed(0))
    assert float(bright.max()) == 255.0
