"""Spatial binary trees for images: neighbouring pixels meet low in the tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from socratic.errors import check_count
from socratic.structure.region_graph import ROOT, RegionGraph, RegionGraphBuilder


def spatial_binary_trees(
    height: int,
    width: int,
    n_channels: int = 1,
    *,
    patch_size: int = 1,
    depth: int | None = None,
    n_repetitions: int = 1,
) -> RegionGraph:
    """Halve the image along its longer side, down to patches.

    The channels of a pixel always stay together. Further repetitions shift the first cut in each direction
    by up to a quarter of the side, so that the seams of one tree lie inside the patches of another.

    Parameters
    ----------
    height, width, n_channels : int
        Shape of an image. Variables are numbered channel by channel and row by row, as in an image of
        shape (n_channels, height, width) that was flattened.
    patch_size : int
        Regions of at most this many pixels on their longer side are not split.
    depth : int or None
        Stop after this many splits, whatever the patches' size. ``None``: no such limit.
    n_repetitions : int
        Number of trees.
    """
    height, width = check_count("height", height), check_count("width", width)
    n_channels = check_count("n_channels", n_channels)
    patch_size = check_count("patch_size", patch_size)
    n_repetitions = check_count("n_repetitions", n_repetitions)
    levels = height * width if depth is None else check_count("depth", depth, minimum=0)
    pixels = np.arange(n_channels * height * width).reshape(n_channels, height, width)
    builder = RegionGraphBuilder(pixels.size)

    def scope(block: np.ndarray) -> tuple[int, ...]:
        return tuple(map(int, block.ravel()))

    def grow(region: int, block: np.ndarray, levels: int, shifts: dict[int, float]) -> None:
        axis = 1 if block.shape[1] >= block.shape[2] else 2
        side = block.shape[axis]
        if levels == 0 or side == 1 or side <= patch_size:
            return
        # The first cut along each axis takes that axis' shift; the halves inherit what is left of it.
        cut = int(np.clip(round(side * (0.5 + shifts.get(axis, 0.0))), 1, side - 1))
        rest = {other: shift for other, shift in shifts.items() if other != axis}
        halves = np.split(block, [cut], axis=axis)
        children = builder.split(region, *(scope(half) for half in halves))
        for child, half in zip(children, halves, strict=True):
            grow(child, half, levels - 1, rest)

    for shift_rows, shift_columns in _shifts(n_repetitions):
        if levels == 0 or max(height, width) <= max(patch_size, 1):
            builder.split(ROOT, scope(pixels))
        else:
            grow(ROOT, pixels, levels, {1: shift_rows, 2: shift_columns})
    return builder.build()


def _shifts(n_repetitions: int) -> Iterator[tuple[float, float]]:
    """First-cut shifts as fractions of a side, in [-1/4, 1/4): none first, then spread evenly.

    The additive recurrence with the plastic number's powers is the two-dimensional analogue of the golden
    ratio: any number of repetitions fills the square of shifts evenly, and asking for more keeps the first.
    """
    plastic = 1.3247179572447460
    for repetition in range(n_repetitions):
        rows = (0.5 + repetition / plastic) % 1.0
        columns = (0.5 + repetition / plastic**2) % 1.0
        yield (rows - 0.5) / 2, (columns - 0.5) / 2
