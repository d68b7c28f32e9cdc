"""Small changes of training images that leave their class what it is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from socratic.images.pixels import PixelEncoder


@dataclass(frozen=True)
class Augmentation:
    """Small changes of training images, anew in every step, before they are normalised.

    Attributes
    ----------
    max_shift : int
        Each image is moved by up to this many pixels each way; the border repeats.
    max_noise : float
        Half of the images get Gaussian noise, of a deviation of up to this many grey levels.
    encoder : PixelEncoder
    """

    max_shift: int
    max_noise: float
    encoder: PixelEncoder

    def __repr__(self) -> str:
        kept = f"levels={self.encoder.levels}, shape={self.encoder.shape}"
        return f"Augmentation({self.max_shift}, {self.max_noise}, {kept})"

    def __call__(self, flat: Tensor, generator: torch.Generator) -> Tensor:
        """Flat bytes (N, V) to normalised variables (N, V)."""
        moved = shift_images(flat, self.encoder.shape, self.max_shift, generator)
        return self.encoder(add_noise(moved, self.max_noise, generator))


def add_noise(flat: Tensor, max_noise: float, generator: torch.Generator) -> Tensor:
    """Flat images (N, V), half of them with noise of a deviation of up to ``max_noise``, within 0 and 255."""
    if max_noise == 0.0:
        return flat
    share = torch.rand(len(flat), 1, generator=generator, device=flat.device)
    noise = torch.randn(flat.shape, generator=generator, device=flat.device)
    return (flat + max_noise * (2.0 * share - 1.0).clamp_min(0.0) * noise).clamp(0.0, 255.0)


def shift_images(flat: Tensor, shape: tuple[int, int, int], distance: int, generator: torch.Generator) -> Tensor:
    """Flat images (N, V) of a shape (H, W, C), each moved by up to ``distance`` pixels each way; the border repeats."""
    if distance == 0:
        return flat
    height, width, channels = shape
    images = flat.view(-1, channels, height, width)

    def places(side: int) -> Tensor:
        moves = torch.randint(-distance, distance + 1, (len(flat), 1), generator=generator, device=flat.device)
        return (torch.arange(side, device=flat.device) + moves).clamp(0, side - 1)

    rows, columns = places(height), places(width)
    moved = images.gather(2, rows[:, None, :, None].expand_as(images))
    return moved.gather(3, columns[:, None, None, :].expand_as(images)).flatten(1)
