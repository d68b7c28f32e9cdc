"""What every shift shares: the check of the images, the passage from bytes to numbers and back, the draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_CHUNK_VALUES = 1 << 20  # pixel values handled at a time: bounds the memory, and suits the cache


class Draws(NamedTuple):
    """Where random numbers come from.

    Each generator is drawn from in one kind of call, with the images along the first axis. So an image's numbers
    depend on the seed and on its place in the batch, not on how many images follow.

    Attributes
    ----------
    fields : np.random.Generator
        For what varies from pixel to pixel.
    images : np.random.Generator
        For what an image has a few of, such as an angle.
    """

    fields: np.random.Generator
    images: np.random.Generator

    @classmethod
    def seeded(cls, seed: int, corruption: int) -> Draws:
        """Generators for one corruption, given by its number: each corruption has draws of its own."""
        streams = np.random.SeedSequence(seed, spawn_key=(corruption,)).spawn(2)
        return cls(*map(np.random.default_rng, streams))


def check_images(images: Any) -> None:
    """Raise unless ``images`` is an array (N, H, W, C) of uint8 whose images have pixels."""
    if not isinstance(images, np.ndarray):
        raise TypeError(f"images must be a numpy array (N, H, W, C) of uint8; got {type(images).__name__}")
    if images.ndim != 4:
        raise ValueError(
            f"images must have the shape (N, H, W, C); got {images.shape}: give grey images a last axis of one channel "
            "(images[..., None]), and a single image a first axis (image[None])"
        )
    if images.dtype != np.uint8:
        raise TypeError(
            f"images must be uint8, with values from 0 to 255; got {images.dtype}: rescale and convert them"
        )
    if 0 in images.shape[1:]:
        raise ValueError(f"images must have pixels; got the shape {images.shape}")


def in_chunks(images: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply ``change``, which keeps shape and type, to a few images after the other, in order."""
    result = np.empty(images.shape, images.dtype)
    size = max(1, _CHUNK_VALUES // math.prod(images.shape[1:]))
    for start in range(0, len(images), size):
        part = slice(start, start + size)
        result[part] = change(images[part])
    return result


def to_unit(images: np.ndarray) -> np.ndarray:
    """Bytes (N, H, W, C) as float32 (N, C, H, W) from 0 to 1: channels first make every row of pixels contiguous."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2), dtype=np.float32) / np.float32(255)


def to_bytes(x: np.ndarray) -> np.ndarray:
    """Numbers (N, C, H, W) as bytes (N, H, W, C), rounded down as in the published images."""
    return truncated(x).astype(np.uint8).transpose(0, 2, 3, 1)


def truncated(x: np.ndarray) -> np.ndarray:
    """The 256 levels of numbers from 0 to 1, rounded down: float32, whole, from 0 to 255."""
    # The small term keeps whole levels whole: float32 may put them a little too low.
    return np.floor(np.clip(x, 0, 1) * np.float32(255) + np.float32(1e-3))
