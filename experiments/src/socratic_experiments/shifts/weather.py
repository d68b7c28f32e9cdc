"""Corruptions that put something in front of the image. Images are float32 (N, C, H, W) from 0 to 1."""

from __future__ import annotations

from functools import partial

import numpy as np

from socratic_experiments.shifts.pixels import Draws, truncated
from socratic_experiments.shifts.resample import apply_pairs, for_both_axes, gaussian_blur, smear, zoom_matrix

_LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)[:, None, None]  # of red, green and blue
# Mean colour and deviation of the five photographs that the published frost is cut from, levels from 0 to 255.
# The second and the third show the same picture.
_FROST_COLOURS = np.array([[77, 149, 165], [198, 202, 212], [198, 202, 212], [143, 157, 170], [102, 113, 125]])
_FROST_DEVIATIONS = np.array([14, 18, 18, 26, 34])


def snow(x: np.ndarray, constants: tuple[float, ...], draws: Draws) -> np.ndarray:
    """Whiten the image and add flakes, enlarged noise above a threshold, smeared in one direction and its opposite."""
    mean, deviation, zoom, threshold, radius, sigma, share = constants
    flakes = mean + deviation * draws.fields.standard_normal((len(x), 1, *x.shape[2:]), dtype=np.float32)
    flakes = apply_pairs(flakes, [for_both_axes(x, partial(zoom_matrix, factor=zoom))])
    flakes = truncated(np.where(flakes < threshold, 0, flakes)) / np.float32(255)
    flakes = smear(flakes, radius, sigma, draws.images.uniform(-135, -45, size=len(x)))
    whitened = np.maximum(x, 1.5 * _grey(x) + 0.5)
    return share * x + (1 - share) * whitened + flakes + flakes[:, :, ::-1, ::-1]


def frost(x: np.ndarray, constants: tuple[float, float, float], draws: Draws) -> np.ndarray:
    """Add a texture of ice, weighted as published.

    The texture is a stand-in: the published corruption cuts it from photographs, which are not part of this
    library. Here it is made of needles along three directions at 60 degrees, with the mean colours and deviations
    of the photographs.
    """
    image_weight, frost_weight, grain = constants
    kind, turn, shade = draws.images.random((len(x), 3)).T
    kind = (kind * len(_FROST_COLOURS)).astype(int)
    texture = _needles(draws.fields.standard_normal((len(x), 6, *x.shape[2:]), dtype=np.float32), grain, 60 * turn)
    # Crops of one photograph differ in brightness, by about 10 levels.
    texture = _FROST_DEVIATIONS[kind, None, None, None] * texture + (36 * (shade - 0.5))[:, None, None, None]
    ice = np.clip((_FROST_COLOURS[kind][:, :, None, None] + texture) / 255, 0, 1).astype(np.float32)
    return image_weight * x + frost_weight * (ice if x.shape[1] == 3 else _grey(ice))


def _needles(noise: np.ndarray, grain: float, degrees: np.ndarray) -> np.ndarray:
    """Needles along three directions at 60 degrees; which of them are seen varies from region to region.

    Parameters
    ----------
    noise : np.ndarray (N, 6, H, W)
        White noise: three planes for the needles, three for their regions.
    grain : float
        Thickness of a needle in pixels.
    degrees : np.ndarray (N,)
        The first direction.

    Returns
    -------
    np.ndarray (N, 1, H, W)
        With mean 0 and variance 1 in each image.
    """
    fine = gaussian_blur(noise[:, :3], grain, mode="wrap")
    regions = _standardised(gaussian_blur(noise[:, 3:], 6 * grain, mode="wrap"))
    needles = []
    for direction in range(3):
        plane = slice(direction, direction + 1)
        trails = _standardised(smear(fine[:, plane], 5 * grain, 5 * grain, degrees + 60 * direction))
        needles.append(trails * np.exp(0.6 * regions[:, plane]))
    return _standardised(np.max(needles, axis=0))


def _standardised(x: np.ndarray) -> np.ndarray:
    """Each plane with mean 0 and variance 1."""
    centred = x - x.mean(axis=(2, 3), keepdims=True)
    return centred / np.maximum(centred.std(axis=(2, 3), keepdims=True), np.float32(1e-6))


def fog(x: np.ndarray, constants: tuple[float, float], draws: Draws) -> np.ndarray:
    """Add clouds and darken the sum, so that the brightest value stays; a black image stays black."""
    thickness, decay = constants
    height, width = x.shape[2:]
    clouds = _plasma(len(x), 1 << (max(height, width) - 1).bit_length(), decay, draws.fields)
    brightest = x.max(axis=(1, 2, 3), keepdims=True)
    return (x + thickness * clouds[:, None, :height, :width]) * brightest / (brightest + thickness)


def _plasma(n_maps: int, size: int, decay: float, generator: np.random.Generator) -> np.ndarray:
    """Fractal clouds by the diamond-square algorithm on a torus.

    Squares are halved again and again; new points get the mean of four old ones around them plus noise, whose
    amplitude falls by ``decay ** 2`` from one halving to the next.

    Returns
    -------
    np.ndarray (n_maps, size, size)
        From 0 to 1 in each map. ``size`` must be a power of two.
    """
    noise = 2 * generator.random((n_maps, size * size), dtype=np.float32) - 1
    clouds = np.zeros((n_maps, size, size), dtype=np.float32)
    amplitude, used, step = 1.0, 0, size
    while step >= 2:
        half, n_cells = step // 2, size // step
        bumps = amplitude * noise[:, used : used + 3 * n_cells**2].reshape(n_maps, 3, n_cells, n_cells)
        corners = clouds[:, ::step, ::step].copy()
        below, right = np.roll(corners, -1, axis=1), np.roll(corners, -1, axis=2)
        centres = (corners + below + right + np.roll(below, -1, axis=2)) / 4 + bumps[:, 0]
        clouds[:, half::step, half::step] = centres
        clouds[:, ::step, half::step] = (corners + right + centres + np.roll(centres, 1, axis=1)) / 4 + bumps[:, 1]
        clouds[:, half::step, ::step] = (corners + below + centres + np.roll(centres, 1, axis=2)) / 4 + bumps[:, 2]
        amplitude, used, step = amplitude / decay**2, used + 3 * n_cells**2, half
    clouds -= clouds.min(axis=(1, 2), keepdims=True)
    return clouds / clouds.max(axis=(1, 2), keepdims=True)


def brightness(x: np.ndarray, amount: float, draws: Draws) -> np.ndarray:  # noqa: ARG001
    """Raise the largest channel, at most to 1, and the others in proportion: hue and saturation stay."""
    value = x.max(axis=1, keepdims=True)
    raised = np.minimum(value + np.float32(amount), 1)
    # Black has no hue: it turns grey.
    return np.where(value > 0, x * (raised / np.maximum(value, np.float32(1e-6))), raised)


def _grey(x: np.ndarray) -> np.ndarray:
    """Luminance (N, 1, H, W)."""
    return x if x.shape[1] == 1 else (x * _LUMINANCE).sum(axis=1, keepdims=True)
