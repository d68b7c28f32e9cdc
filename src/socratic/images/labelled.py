"""Labelled images: what readers of image files return."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


def spread_evenly(n_images: int, limit: int) -> np.ndarray:
    """Positions of at most ``limit`` of ``n_images``, from the first to the last: many sets come class by class."""
    if limit >= n_images:
        return np.arange(n_images)
    return np.linspace(0, n_images - 1, limit).astype(int)


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images.

    Attributes
    ----------
    images : np.ndarray (N, H, W, C) of uint8
        Rows, columns, channels; C is 1 for grey images and 3, red, green and blue, for coloured ones.
    labels : np.ndarray (N,) of int64
        The class of each image.
    name : str
        Name of the set, or of the file or folder the images came from, without its ending.
    classes : tuple of str
        Names of the classes by number, where the source has names; otherwise empty.
    """

    images: np.ndarray
    labels: np.ndarray
    name: str
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.images)

    def named_labels(self) -> np.ndarray:
        """The class (N,) of each image by its name, or by its number where the source has no names."""
        return np.array(self.classes)[self.labels] if self.classes else self.labels

    def flat(self) -> np.ndarray:
        """One row of variables an image: float32 (N, C*H*W), values as stored (0 to 255).

        Variables are numbered channel by channel and row by row, as in an image of shape (C, H, W) that was
        flattened: the order that ``socratic.spatial_binary_trees`` expects.
        """
        channel_major = self.images.transpose(0, 3, 1, 2)  # (N, C, H, W)
        rows = np.ascontiguousarray(channel_major, dtype=np.float32)
        return rows.reshape(len(rows), math.prod(rows.shape[1:]))

    def take(self, index: slice | np.ndarray | Sequence[int]) -> Images:
        """Some of the images with their labels.

        Parameters
        ----------
        index : slice or array-like (M,)
            Which, and in which order: a slice, positions, or N booleans.
        """
        images = self.images[index]
        if images.ndim != 4:
            raise ValueError(f"index must be a slice or a list of positions or booleans; got {index!r}")
        return replace(self, images=images, labels=self.labels[index])
