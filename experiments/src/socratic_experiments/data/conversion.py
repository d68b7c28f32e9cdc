"""Images of one set in the shape of another, and no more of them than are wanted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from socratic.errors import check_count
from socratic.images import Images, spread_evenly

_BLOCK = 1024  # images converted at once
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R 601


def like(images: Images, height: int, width: int, channels: int) -> Images:
    """Labelled images in another shape, as :func:`convert` makes them; labels and name stay."""
    return replace(images, images=convert(images.images, (height, width, channels)))


def at_most(images: Images, limit: int | None) -> Images:
    """No more than ``limit`` images, spread evenly over the set."""
    return images if limit is None or limit >= len(images) else images.take(spread_evenly(len(images), limit))


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
