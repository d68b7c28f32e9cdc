"""The 15 common corruptions of Hendrycks and Dietterich (2019, arXiv 1903.12261)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from socratic.errors import check_choice, check_count
from socratic_experiments.shifts import blur, digital, noise, weather
from socratic_experiments.shifts.constants import CONSTANTS
from socratic_experiments.shifts.pixels import Draws, check_images, in_chunks, to_bytes, to_unit

_MIN_SIDE = 8
_MAX_SEVERITY = 5
# In the order of Hendrycks and Dietterich. Each takes images (N, C, H, W) from 0 to 1, its constants and the draws.
_FUNCTIONS: dict[str, Callable[[np.ndarray, Any, Draws], np.ndarray]] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
}

CORRUPTIONS: tuple[str, ...] = tuple(_FUNCTIONS)


def corrupt(
    images: np.ndarray, corruption: str, severity: int, *, constants: str = "cifar", seed: int = 0
) -> np.ndarray:
    """Corrupt images as CIFAR-10-C and ImageNet-C do.

    Parameters
    ----------
    images : np.ndarray (N, H, W, C) of uint8
        Images of at least 8 x 8 pixels, grey (C = 1) or colour (C = 3: red, green, blue).
    corruption : str
        One of ``CORRUPTIONS``. ``"frost"`` is a stand-in: its texture is synthetic, not cut from photographs.
        ``"jpeg_compression"`` needs Pillow.
    severity : int
        From 1, mild, to 5; 0 returns a copy of the images.
    constants : str
        What the severities mean: ``"cifar"``, made for 32 x 32 pixels, or ``"imagenet"``, made for 224 x 224. Lengths
        in pixels hold as published for images of every size, so ``"imagenet"`` blurs small images beyond
        recognition. Only the elastic transform, whose corners would leave a small image, is scaled to it.
    seed : int
        Seed of the random draws, at least 0. An image's draws depend on the seed, the corruption and the image's
        place in the batch only: ``corrupt(images[:k], ...)`` equals ``corrupt(images, ...)[:k]``. The severities of
        most corruptions share their draws, scaled.

    Returns
    -------
    np.ndarray (N, H, W, C) of uint8
        New images. Values are rounded down, as in the published data sets.
    """
    _check(images)
    check_choice("corruption", corruption, CORRUPTIONS)
    check_choice("constants", constants, CONSTANTS)
    if check_count("severity", severity, minimum=0) > _MAX_SEVERITY:
        raise ValueError(f"severity must be a whole number from 0 to {_MAX_SEVERITY}; got {severity!r}")
    draws = Draws.seeded(check_count("seed", seed, minimum=0), CORRUPTIONS.index(corruption))
    if severity == 0:
        return images.copy()
    settings = CONSTANTS[constants][corruption][severity - 1]
    function = _FUNCTIONS[corruption]
    return in_chunks(images, lambda part: to_bytes(function(to_unit(part), settings, draws)))


def _check(images: np.ndarray) -> None:
    check_images(images)
    _, height, width, n_channels = images.shape
    if n_channels not in (1, 3):
        raise ValueError(
            f"images must have 1 channel (grey) or 3 (red, green, blue), along the last axis; got {n_channels} "
            f"in the shape {images.shape}: move the channels there, and drop an alpha channel"
        )
    if min(height, width) < _MIN_SIDE:
        raise ValueError(
            f"images must have at least {_MIN_SIDE} x {_MIN_SIDE} pixels; got {height} x {width}: pad or enlarge them"
        )
