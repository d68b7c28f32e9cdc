from __future__ import annotations

import torch

from socratic.images import Augmentation, PixelEncoder
from socratic.images.augmentation import add_noise, shift_images
from tests.images.made_up import some_images


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
    encoder = PixelEncoder.fit(images)
    flat = encoder.bytes_of(images).repeat(50, 1)
    moved = shift_images(flat, (4, 4, 3), 1, torch.Generator().manual_seed(1)).view(50, 3, 4, 4)
    padded = torch.nn.functional.pad(flat[:1].view(1, 3, 4, 4).float(), (1, 1, 1, 1), mode="replicate")
    crops = [padded[0, :, y : y + 4, x : x + 4] for y in range(3) for x in range(3)]
    assert all(any(torch.equal(image.float(), crop) for crop in crops) for image in moved)


def test_augmentation_names_itself_and_follows_its_generator() -> None:
    augment = Augmentation(1, 5.0, PixelEncoder.fit(some_images()))
    flat = augment.encoder.bytes_of(some_images())
    first, second = (augment(flat, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)
    assert repr(augment) == "Augmentation(1, 5.0, levels=0, shape=(8, 8, 3))"
    plain = Augmentation(0, 0.0, augment.encoder)
    assert torch.equal(plain(flat, torch.Generator()), augment.encoder(flat))


def test_half_of_the_images_get_noise() -> None:
    flat = torch.full((4000, 300), 100, dtype=torch.uint8)
    noisy = add_noise(flat, 10.0, torch.Generator().manual_seed(0))
    deviation = (noisy - 100.0).std(1)
    assert 0.45 < float((deviation == 0).float().mean()) < 0.55
    assert 9.0 < float(deviation.max()) < 12.0
    bright = add_noise(torch.full_like(flat, 255), 50.0, torch.Generator().manual_seed(0))
    assert float(bright.max()) == 255.0
