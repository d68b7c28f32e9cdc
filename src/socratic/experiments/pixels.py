"""From the bytes of images to what a model reads: one normalisation for all sets, wavelets, and small shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from socratic.errors import check_choice, check_count

NORMALISATIONS = ("train", "own")
_SAMPLE = 20000
_FLAT = 1e-3  # in grey levels: a band that never varies is not blown up


@dataclass(frozen=True, eq=False)
class PixelScaler:
    """Centred and scaled pixels, or wavelet coefficients of opponent colours.

    With ``levels`` of Haar's wavelet, blocks of 2^levels x 2^levels pixels are turned into their mean and details at
    each scale, and red, green and blue into brightness and two differences of colour. Both are rotations: a density
    of the coefficients is one of the pixels, but neighbouring pixels, which are nearly equal, have become variables
    that are nearly independent. That is what lets a circuit with independent leaves see how smooth an image is. A
    coefficient stands where a pixel of its block stood, so that neighbours stay neighbours.

    Attributes
    ----------
    levels : int
        Levels of the wavelet; 0 keeps pixels and colours as they are.
    shape : tuple of int
        Height, width and channels of an image.
    mean, scale : Tensor (C, B, B)
        Mean and deviation of each channel and place in a block of B = 2^levels pixels, over all blocks.
    """

    levels: int
    shape: tuple[int, int, int]
    mean: Tensor
    scale: Tensor

    @classmethod
    def fit(cls, images: np.ndarray, levels: int = 0) -> PixelScaler:
        """From training images (N, H, W, C) of uint8; H and W must be multiples of 2^levels."""
        block = 2 ** check_count("levels", levels, minimum=0)
        height, width, channels = images.shape[1:]
        if height % block or width % block:
            raise ValueError(
                f"levels must be such that the image's sides are multiples of {block}; got {height} x {width} pixels"
            )
        empty = torch.empty(0)
        scaler = cls(levels, (height, width, channels), empty, empty)
        step = max(1, len(images) // _SAMPLE)
        coefficients = scaler._coefficients(_channels_first(images[::step], torch.device("cpu")))
        blocks = coefficients.view(len(coefficients), channels, height // block, block, width // block, block)
        mean, scale = blocks.double().mean((0, 2, 4)), blocks.double().std((0, 2, 4))
        return replace(scaler, mean=mean.float(), scale=scale.clamp_min(_FLAT).float())

    def to(self, device: torch.device) -> PixelScaler:
        """The same on another device."""
        return replace(self, mean=self.mean.to(device), scale=self.scale.to(device))

    def of(self, images: np.ndarray, normalise: str = "train") -> PixelScaler:
        """The normalisation to use for these images: this one ("train"), or one of their own, as in the TDI paper."""
        check_choice("normalise", normalise, NORMALISATIONS)
        if normalise == "train":
            return self
        return PixelScaler.fit(images, self.levels).to(self.mean.device)

    def bytes_of(self, images: np.ndarray) -> Tensor:
        """Images (N, H, W, C) as flat bytes (N, V), channel by channel and row by row, on the scaler's device."""
        if images.shape[1:] != self.shape:
            raise ValueError(f"images must have the shape (N, {', '.join(map(str, self.shape))}); got {images.shape}")
        return _channels_first(images, self.mean.device).flatten(1)

    def __call__(self, flat: Tensor) -> Tensor:
        """Flat bytes (N, V) to normalised variables (N, V) of float32, in the same order."""
        height, width, channels = self.shape
        block = 2**self.levels
        repeats = (1, height // block, width // block)
        coefficients = self._coefficients(flat.view(-1, channels, height, width))
        return ((coefficients - self.mean.repeat(repeats)) / self.scale.repeat(repeats)).flatten(1)

    def _coefficients(self, images: Tensor) -> Tensor:
        """Coefficients (N, C, H, W) of images of bytes (N, C, H, W)."""
        values = images.float()
        if self.levels and values.shape[1] == 3:
            values = _opponent_colours(values)
        return haar(values, self.levels)


@dataclass(frozen=True)
class Augmentation:
    """Small changes of training images, anew in every step, before they are normalised.

    Attributes
    ----------
    max_shift : int
        Each image is moved by up to this many pixels each way; the border repeats.
    max_noise : float
        Half of the images get Gaussian noise, of a deviation of up to this many grey levels.
    scaler : PixelScaler
    """

    max_shift: int
    max_noise: float
    scaler: PixelScaler

    def __repr__(self) -> str:
        kept = f"levels={self.scaler.levels}, shape={self.scaler.shape}"
        return f"Augmentation({self.max_shift}, {self.max_noise}, {kept})"

    def __call__(self, flat: Tensor, generator: torch.Generator) -> Tensor:
        """Flat bytes (N, V) to normalised variables (N, V)."""
        moved = shift_images(flat, self.scaler.shape, self.max_shift, generator)
        return self.scaler(add_noise(moved, self.max_noise, generator))


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


def haar(images: Tensor, levels: int) -> Tensor:
    """Haar's orthonormal wavelet transform (..., H, W) in place of the pixels of each block of 2^levels."""
    output = images.clone()
    for level in range(levels):
        step = 2**level
        near, far = slice(0, None, 2 * step), slice(step, None, 2 * step)
        a, b, c, d = (output[..., rows, columns].clone() for rows in (near, far) for columns in (near, far))
        output[..., near, near] = (a + b + c + d) / 2
        output[..., near, far] = (a - b + c - d) / 2
        output[..., far, near] = (a + b - c - d) / 2
        output[..., far, far] = (a - b - c + d) / 2
    return output


def _opponent_colours(images: Tensor) -> Tensor:
    """Red, green and blue (N, 3, H, W) as brightness, red against blue, and green against both: a rotation."""
    red, green, blue = images.unbind(1)
    brightness, warmth, greenness = red + green + blue, red - blue, red - 2.0 * green + blue
    return torch.stack([brightness / math.sqrt(3.0), warmth / math.sqrt(2.0), greenness / math.sqrt(6.0)], 1)


def _channels_first(images: np.ndarray, device: torch.device) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).to(device)
