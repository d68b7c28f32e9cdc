"""Linear maps of whole batches: along rows and columns by matrices, along curves by look-up.

Images are float32 (N, C, H, W) here. A map along columns and rows is a pair of matrices, applied as
``rows @ x @ columns.T``; every matrix is (output size, input size).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from scipy import ndimage

Pair = tuple[np.ndarray, np.ndarray]


def apply_pairs(x: np.ndarray, pairs: Iterable[Pair]) -> np.ndarray:
    """Sum of ``rows @ x @ columns.T`` over the pairs."""
    total: np.ndarray | None = None
    for rows, columns in pairs:
        mapped = rows.astype(np.float32) @ x @ columns.astype(np.float32).T
        total = mapped if total is None else np.add(total, mapped, out=total)
    if total is None:
        raise ValueError("pairs must hold at least one pair of matrices; got none")
    return total


def for_both_axes(x: np.ndarray, matrix: Callable[[int], np.ndarray]) -> Pair:
    """The pair that treats rows and columns of ``x`` alike; ``matrix`` makes a matrix for a number of pixels."""
    return matrix(x.shape[2]), matrix(x.shape[3])


def gaussian_blur(x: np.ndarray, sigma: float, *, mode: str = "nearest", truncate: float = 4.0) -> np.ndarray:
    """Gaussian blur with the borders of ``scipy.ndimage.gaussian_filter1d``."""
    if sigma == 0:
        return x
    blur = partial(ndimage.gaussian_filter1d, sigma=sigma, axis=0, mode=mode, truncate=truncate)
    return apply_pairs(x, [for_both_axes(x, lambda size: blur(np.eye(size)))])


def kernel_pairs(kernel: np.ndarray, height: int, width: int) -> list[Pair]:
    """Pairs that filter with ``kernel``, mirroring the image at the centres of its outermost pixels.

    The singular value decomposition writes any kernel as a sum of products of a column and a row; those that blur
    need few of them.
    """
    left, values, right = np.linalg.svd(kernel)
    n_parts = int(np.sum(values > 1e-7 * values[0]))

    def matrix(size: int, weights: np.ndarray) -> np.ndarray:
        return ndimage.correlate1d(np.eye(size), weights, axis=0, mode="mirror")

    return [(matrix(height, values[i] * left[:, i]), matrix(width, right[i])) for i in range(n_parts)]


def zoom_matrix(size: int, factor: float) -> np.ndarray:
    """Enlarge the middle of ``size`` pixels to ``size`` pixels, by linear interpolation."""
    n_kept = math.ceil(size / factor)
    n_enlarged = round(n_kept * factor)
    start, surplus = (size - n_kept) // 2, (n_enlarged - size) // 2
    # The first and the last pixel that are kept lie on the first and the last enlarged one.
    place = (np.arange(size) + surplus) * (n_kept - 1) / max(n_enlarged - 1, 1)
    distance = np.abs(place[:, None] + start - np.arange(size))
    return np.maximum(1 - distance, 0)


def box_matrix(size: int, new_size: int) -> np.ndarray:
    """Mean over the pixels whose centres lie in the span of the new pixel; the nearest one where it is smaller."""
    scale = size / new_size
    span = max(scale, 1.0)
    centres = (np.arange(new_size) + 0.5) * scale
    offset = (np.arange(size) + 0.5 - centres[:, None]) / span
    inside = ((offset > -0.5) & (offset <= 0.5)).astype(float)
    return inside / inside.sum(axis=1, keepdims=True)


def sample(x: np.ndarray, rows: np.ndarray, columns: np.ndarray, *, border: str) -> np.ndarray:
    """Values of ``x`` between its pixels, by bilinear interpolation.

    Parameters
    ----------
    x : np.ndarray (N, C, H, W)
        Images.
    rows, columns : np.ndarray (N or 1, H, W)
        Where to look, counted in pixels from the centre of the first one.
    border : str
        What lies outside: ``"zero"``; ``"mirror"``, the image mirrored at the centres of its outermost pixels; or
        ``"reflect"``, mirrored at their edges.
    """
    height, width = x.shape[2:]
    first_row, first_column = np.floor(rows).astype(np.intp), np.floor(columns).astype(np.intp)
    row_share, column_share = (rows - first_row).astype(np.float32), (columns - first_column).astype(np.float32)
    total = np.zeros_like(x)
    for row, row_weight in ((first_row, 1 - row_share), (first_row + 1, row_share)):
        for column, column_weight in ((first_column, 1 - column_share), (first_column + 1, column_share)):
            weight = row_weight * column_weight
            if border == "zero":
                weight = weight * ((row >= 0) & (row < height) & (column >= 0) & (column < width))
            place = _fold(row, height, border) * width + _fold(column, width, border)
            total += weight[:, None] * look_up(x, place[:, None])
    return total


def _fold(index: np.ndarray, size: int, border: str) -> np.ndarray:
    """Indices brought back into the image."""
    if border == "zero":
        return np.clip(index, 0, size - 1)
    # Both mirrors repeat after there and back, "mirror" without doubling the outermost pixels.
    doubled = 1 if border == "reflect" else 0
    period = max(2 * size - 2 + 2 * doubled, 1)
    index = index % period
    return np.where(index < size, index, period - doubled - index)


def look_up(x: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Pixels of ``x`` (N, C, H, W) by their place in their plane; ``place`` broadcasts to the same shape."""
    n_images, n_channels, height, width = x.shape
    planes = np.arange(n_images * n_channels).reshape(n_images, n_channels, 1, 1) * (height * width)
    return np.take(x.ravel(), planes + place, mode="clip")


def smear(x: np.ndarray, radius: float, sigma: float, degrees: np.ndarray) -> np.ndarray:
    """Motion blur: a trail from each pixel in one direction, with the weights of half a Gaussian.

    Parameters
    ----------
    x : np.ndarray (N, C, H, W)
        Images; beyond their borders the outermost pixels go on.
    radius : float
        The trail has ``2 * radius + 1`` pixels.
    sigma : float
        Standard deviation of the Gaussian.
    degrees : np.ndarray (N,)
        Direction of each image's trail: 0 is to the right, 90 downwards.
    """
    height, width = x.shape[2:]
    steps = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights = (weights / weights.sum()).astype(np.float32)
    angles = np.deg2rad(degrees)[:, None]
    # The nearest pixel on the line, halves towards the start.
    down, right = (np.ceil(steps * part - 0.5).astype(np.intp) for part in (np.sin(angles), np.cos(angles)))
    total = np.zeros_like(x)
    for step in np.flatnonzero(weights > 1e-6):  # the others are too weak to be seen
        row = np.clip(np.arange(height) + down[:, step, None], 0, height - 1)
        column = np.clip(np.arange(width) + right[:, step, None], 0, width - 1)
        place = row[:, :, None] * width + column[:, None, :]
        total += weights[step] * look_up(x, place[:, None])
    return total
