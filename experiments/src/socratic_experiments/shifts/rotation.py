"""Rotated images."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from socratic_experiments.shifts.pixels import check_images, in_chunks
from socratic_experiments.shifts.resample import sample


def rotate(images: np.ndarray, degrees: float) -> np.ndarray:
    """Turn images counter-clockwise about their centre.

    Values between pixels are interpolated bilinearly and rounded. What turns in from outside the image is black
    (0): the background of MNIST and its relatives.

    Parameters
    ----------
    images : np.ndarray (N, H, W, C) of uint8
        Images with any number of channels.
    degrees : float
        Any finite angle; below 0 turns clockwise. Multiples of 90 move pixels of square images without a change.

    Returns
    -------
    np.ndarray (N, H, W, C) of uint8
        New images; corners that leave the frame are lost.
    """
    check_images(images)
    if isinstance(degrees, bool) or not isinstance(degrees, Real) or not math.isfinite(degrees):
        raise ValueError(f"degrees must be a finite number, the angle counter-clockwise; got {degrees!r}")
    # Whole turns are taken off before the sine: it is exact for small angles only.
    angle = math.radians(math.fmod(float(degrees), 360.0))
    sine, cosine = math.sin(angle), math.cos(angle)
    height, width = images.shape[1:3]
    middle_row, middle_column = (height - 1) / 2, (width - 1) / 2
    down, right = np.meshgrid(np.arange(height) - middle_row, np.arange(width) - middle_column, indexing="ij")
    # Each new pixel looks up where it came from: the turn backwards. Rows count downwards.
    rows = (middle_row + cosine * down + sine * right)[None]
    columns = (middle_column - sine * down + cosine * right)[None]

    def turn(part: np.ndarray) -> np.ndarray:
        x = part.transpose(0, 3, 1, 2).astype(np.float32)
        return np.rint(sample(x, rows, columns, border="zero")).astype(np.uint8).transpose(0, 2, 3, 1)

    return in_chunks(images, turn)
