"""Corruptions that mix neighbouring pixels. Images are float32 (N, C, H, W) from 0 to 1."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy import ndimage

from socratic_experiments.shifts.pixels import Draws, truncated
from socratic_experiments.shifts.resample import (
    apply_pairs,
    for_both_axes,
    gaussian_blur,
    kernel_pairs,
    look_up,
    smear,
    zoom_matrix,
)


def defocus_blur(x: np.ndarray, constants: tuple[float, float], draws: Draws) -> np.ndarray:  # noqa: ARG001
    """Spread each pixel over a disk: a lens out of focus."""
    return apply_pairs(x, kernel_pairs(_disk(*constants), *x.shape[2:]))


def _disk(radius: float, smoothing: float) -> np.ndarray:
    """A disk of mass 1, its edge softened by a Gaussian of 3 or, for large disks, 5 pixels."""
    reach, half = (8, 1) if radius <= 8 else (math.floor(radius), 2)
    place = np.arange(-reach, reach + 1)
    disk = (place[:, None] ** 2 + place**2 <= radius**2).astype(float)
    weights = np.exp(-(np.arange(-half, half + 1) ** 2) / (2 * smoothing**2))
    disk /= disk.sum()
    for axis in (0, 1):
        disk = ndimage.correlate1d(disk, weights / weights.sum(), axis=axis, mode="mirror")
    return disk


def glass_blur(x: np.ndarray, constants: tuple[float, int, int], draws: Draws) -> np.ndarray:
    """Blur, let pixels take the colour of a random neighbour a few times, and blur again: frosted glass.

    As in the published images, the neighbour keeps its colour too; the two are not swapped.
    """
    sigma, reach, n_rounds = constants
    blurred = truncated(gaussian_blur(x, sigma)) / np.float32(255)
    n_images, _, height, width = x.shape
    rows, columns = (np.arange(size - reach, reach, -1) for size in (height, width))
    places = np.tile((rows[:, None] * width + columns).ravel(), n_rounds)
    moves = draws.fields.integers(-reach, reach, size=(n_images, len(places), 2))
    # (places, images): each step below reads and writes whole rows.
    origins = np.ascontiguousarray((places + moves[..., 0] * width + moves[..., 1]).T)
    source = np.repeat(np.arange(height * width)[:, None], n_images, axis=1)
    images = np.arange(n_images)
    # One pixel after the other, for a colour may travel on.
    for place, origin in zip(places, origins, strict=True):
        source[place] = source[origin, images]
    return gaussian_blur(look_up(blurred, source.T.reshape(n_images, 1, height, width)), sigma)


def motion_blur(x: np.ndarray, constants: tuple[float, float], draws: Draws) -> np.ndarray:
    """Smear each image in its own direction, at most 45 degrees from the horizontal: a camera that moves."""
    radius, sigma = constants
    return smear(x, radius, sigma, draws.images.uniform(-45, 45, size=len(x)))


def zoom_blur(x: np.ndarray, constants: tuple[float, int], draws: Draws) -> np.ndarray:  # noqa: ARG001
    """Mean of the image and of enlargements of its middle: a camera that approaches."""
    step, n_factors = constants
    factors = 1 + step * np.arange(n_factors)
    zoomed = apply_pairs(x, (for_both_axes(x, partial(zoom_matrix, factor=factor)) for factor in factors))
    return (x + zoomed) / np.float32(n_factors + 1)
