"""Labelled images, what every reader returns, and their conversion to another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from socratic.errors import check_count

_BLOCK = 1024  # images converted at once
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R 601


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

    def like(self, height: int, width: int, channels: int) -> Images:
        """The images in the shape of others, as :func:`convert` makes them; labels and name stay."""
        return replace(self, images=convert(self.images, (height, width, channels)))


def convert(images: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Bring images to another height, width and number of channels.

    First the channels: a grey image becomes a coloured one by repetition, a coloured one grey by the luma of
    ITU-R 601, ``0.299 R + 0.587 G + 0.114 B``. Then the size. If no side differs by more than a quarter of the
    smaller, pixels stay what they are: of a longer side the middle is taken (32 to 28), a shorter one is filled up
    with black on both ends (28 to 32); where the difference is odd, the end has the additional pixel. Otherwise the
    whole image is resized to the new height and width, by linear interpolation over a window that widens
    as the image shrinks, so that every pixel counts.

    Parameters
    ----------
    images : np.ndarray (N, H, W, C) of uint8
        C is 1 or 3.
    shape : tuple of int
        The new (H, W, C).

    Returns
    -------
    np.ndarray (N, *shape) of uint8
        ``images`` itself if it has that shape.
    """
    height, width, channels = (
        check_count(name, size) for name, size in zip(("height", "width", "channels"), shape, strict=True)
    )
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[3] not in (1, 3):
        raise ValueError(
            f"images must hold uint8 of shape (N, H, W, 1 or 3); got {images.dtype} of shape {images.shape}"
        )
    if channels not in (1, 3):
        raise ValueError(f"channels must be 1 or 3; got {channels}")
    target = (height, width, channels)
    if images.shape[1:] == target:
        return images
    output = np.zeros((len(images), *target), dtype=np.uint8)
    for start in range(0, len(images), _BLOCK):
        block = _to_channels(images[start : start + _BLOCK], channels)
        _to_size(block, output[start : start + _BLOCK])
    return output


def _to_channels(images: np.ndarray, channels: int) -> np.ndarray:
    if images.shape[3] < channels:
        return images.repeat(channels, axis=3)
    return _to_bytes(images @ _LUMA[:, None]) if images.shape[3] > channels else images


def _to_size(images: np.ndarray, output: np.ndarray) -> None:
    """Write the images (N, H, W, C) to ``output`` (N, H', W', C), which holds zeros."""
    sides = list(zip(images.shape[1:3], output.shape[1:3], strict=True))
    if all(4 * max(side) <= 5 * min(side) for side in sides):
        rows, columns = (_middles(*side) for side in sides)
        output[:, rows[1], columns[1]] = images[:, rows[0], columns[0]]
    elif images.size:
        vertical, horizontal = (_weights(*side) for side in sides)
        output[...] = _to_bytes(np.einsum("ih,nhwc,jw->nijc", vertical, images, horizontal, optimize=True))


def _middles(source: int, target: int) -> tuple[slice, slice]:
    """The part of a side that is kept, and where it lies in the other."""
    kept = min(source, target)
    before, after = (source - kept) // 2, (target - kept) // 2
    return slice(before, before + kept), slice(after, after + kept)


def _weights(source: int, target: int) -> np.ndarray:
    """Weights (target, source) of the pixels along a side; those of each new pixel add up to 1."""
    scale = source / target
    centres = (np.arange(target) + 0.5) * scale - 0.5
    distance = np.abs(np.arange(source) - centres[:, None])
    weights = np.maximum(1.0 - distance / max(scale, 1.0), 0.0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def _to_bytes(values: np.ndarray) -> np.ndarray:
    return (values + 0.5).clip(0, 255).astype(np.uint8)
