"""What counts as images: arrays of bytes, all of one size, grey or coloured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_CHANNELS = (1, 3)


def check_images(images: Any) -> np.ndarray:
    """Images as an array (N, H, W, C) of bytes.

    Parameters
    ----------
    images : array (N, H, W), (N, H, W, 1) or (N, H, W, 3) of uint8, or a sequence of N such images

    Raises
    ------
    ValueError
        If there are none, or they are no bytes, of several sizes, or of another shape.
    """
    array = _stacked(images) if isinstance(images, Sequence) else np.asarray(images)
    if array.ndim not in (3, 4):
        raise ValueError(
            f"images must have the shape (N, H, W) or (N, H, W, C); got {array.shape}"
            + (": a single image is images[None]" if array.ndim == 2 else "")
        )
    if array.dtype != np.uint8:
        raise ValueError(f"images must hold bytes, uint8 from 0 to 255; got {array.dtype}{_remedy(array)}")
    array = array[..., None] if array.ndim == 3 else array
    if array.shape[3] not in _CHANNELS:
        hint = ": leave out the fourth, images[..., :3]" if array.shape[3] == 4 else ""
        raise ValueError(f"images must have 1 channel (grey) or 3 (red, green, blue); got {array.shape[3]}{hint}")
    if not array.size:
        raise ValueError(f"images must hold at least one image of at least one pixel; got the shape {array.shape}")
    return array


def _stacked(images: Sequence[Any]) -> np.ndarray:
    parts = [np.asarray(image) for image in images]
    for place, part in enumerate(parts):
        if part.shape != parts[0].shape:
            raise ValueError(
                f"images must have one size; image 0 has the shape {parts[0].shape}, image {place} {part.shape}: "
                "resize them, for example by load_image_folder(folder, size=(height, width))"
            )
    return np.stack(parts) if parts else np.empty((0, 0, 0), dtype=np.uint8)


def _remedy(array: np.ndarray) -> str:
    """How to make bytes of an array, where that is plain."""
    if array.dtype == np.bool_:
        return ": convert them by images.astype(np.uint8) * 255"
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array) or not array.size:
        return ""
    low, high = array.min(), array.max()
    if np.issubdtype(array.dtype, np.floating) and low >= 0.0 and high <= 1.0:
        return " from 0 to 1: convert them by (images * 255).round().astype(np.uint8)"
    if low >= 0 and high <= 255:
        return f" from {low:g} to {high:g}: convert them by images.astype(np.uint8), scaled to 255 for white"
    return f" from {low:g} to {high:g}: scale them to 0 to 255 first"
