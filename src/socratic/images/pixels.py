"""From the bytes of images to the variables of a circuit: wavelets, opponent colours, one normalisation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from socratic.errors import check_count

_SAMPLE, _VALUES = 20000, 2**27
"""Images, and values in them, that decide on the normalisation: about as many of the first, at most of the second."""
_FLAT = 1e-3  # in grey levels: a band that never varies is not blown up


@dataclass(frozen=True, eq=False)
class PixelEncoder:
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
    def fit(cls, images: np.ndarray, levels: int = 0) -> PixelEncoder:
        """From training images (N, H, W, C) of uint8; H and W must be multiples of 2^levels."""
        block = 2 ** check_count("levels", levels, minimum=0)
        height, width, channels = images.shape[1:]
        if height % block or width % block:
            raise ValueError(
                f"levels must be such that the image's sides are multiples of {block}; got {height} x {width} pixels"
            )
        empty = torch.empty(0)
        encoder = cls(levels, (height, width, channels), empty, empty)
        step = max(1, len(images) // _SAMPLE, -(-images.size // _VALUES))
        coefficients = encoder._coefficients(_channels_first(images[::step], torch.device("cpu")))
        blocks = coefficients.view(len(coefficients), channels, height // block, block, width // block, block)
        mean, scale = blocks.double().mean((0, 2, 4)), blocks.double().std((0, 2, 4))
        return replace(encoder, mean=mean.float(), scale=scale.clamp_min(_FLAT).float())

    def check(self) -> None:
        """Raise ``ValueError`` unless the parts that a model file gave fit together."""
        height, width, channels = (check_count("a side of an image", size) for size in self.shape)
        levels = check_count("levels", self.levels, minimum=0)
        # Before it is a power of 2 that no memory holds.
        if levels > min(height, width).bit_length() or height % 2**levels or width % 2**levels:
            raise ValueError(f"{levels} levels of a wavelet do not fit images of {height} x {width} pixels")
        expected = (channels, 2**levels, 2**levels)
        for name, part in (("mean", self.mean), ("scale", self.scale)):
            if part.shape != expected or part.dtype != torch.float32 or not bool(torch.isfinite(part).all()):
                raise ValueError(f"{name} of pixels must hold finite numbers of the shape {expected}")
        if not bool((self.scale > 0.0).all()):
            raise ValueError("scale of pixels must be above 0")

    def to(self, device: torch.device) -> PixelEncoder:
        """The same on another device."""
        return replace(self, mean=self.mean.to(device), scale=self.scale.to(device))

    @property
    def log_scale(self) -> float:
        """What a log-density of normalised variables exceeds that of the pixels, in grey levels, by."""
        height, width, _ = self.shape
        blocks = (height // 2**self.levels) * (width // 2**self.levels)
        return blocks * float(self.scale.double().log().sum())

    def bytes_of(self, images: np.ndarray) -> Tensor:
        """Images (N, H, W, C) as flat bytes (N, V), channel by channel and row by row, on the encoder's device."""
        if images.shape[1:] != self.shape:
            raise ValueError(f"images must have the shape (N, {', '.join(map(str, self.shape))}); got {images.shape}")
        return _channels_first(images, self.mean.device).flatten(1)

    def images_of(self, flat: Tensor) -> np.ndarray:
        """Flat bytes (N, V) as the images (N, H, W, C) that :meth:`bytes_of` made them from."""
        height, width, channels = self.shape
        return flat.view(-1, channels, height, width).permute(0, 2, 3, 1).contiguous().cpu().numpy()

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
