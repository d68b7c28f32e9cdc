"""What the images of an experiment look like: every shift at every level."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from socratic.pages import new_figure, save_figure
from socratic_experiments.shifted import ANGLES, SEVERITIES, shifted_images
from socratic_experiments.shifts import CORRUPTIONS

_GAP = 2  # pixels


def save_samples(experiment: str, images: np.ndarray, constants: str, folder: Path) -> Path:
    """Draw some of the images (N, H, W, C) at every level, as ``samples.png`` in a folder."""
    if experiment == "rotation":
        columns, rows = [f"{angle}°" for angle in ANGLES], ["", "", ""]
        picked = _spread(images, len(rows))
        grid = [[shifted_images(image[None], "rotation", angle, constants)[0] for angle in ANGLES] for image in picked]
    else:
        columns, rows = [name.replace("_", "\n") for name in CORRUPTIONS], [f"severity {s}" for s in SEVERITIES]
        picked = _spread(images, len(columns))
        grid = [
            [
                shifted_images(image[None], name, s, constants)[0]
                for name, image in zip(CORRUPTIONS, picked, strict=True)
            ]
            for s in SEVERITIES
        ]
    figure = new_figure(0.66 * len(rows) + 0.6, 0.66 * len(columns) + 0.8)
    axis = figure.subplots()
    # One picture with labels: an axis for each image would take many times as long to lay out.
    height, width = np.add(images.shape[1:3], _GAP)
    axis.imshow(_mosaic(grid).squeeze(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axis.set_xticks(width * np.arange(len(columns)) + (width - _GAP) / 2 - 0.5, columns, fontsize=7)
    axis.set_yticks(height * np.arange(len(rows)) + (height - _GAP) / 2 - 0.5, rows, fontsize=7)
    axis.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    axis.spines[:].set_visible(False)
    return save_figure(figure, folder, "samples", ("png",))[0]


def _mosaic(grid: list[list[np.ndarray]]) -> np.ndarray:
    """Images (H, W, C) of a grid side by side, with white between them."""
    edge = ((0, _GAP), (0, _GAP), (0, 0))
    lines = [np.concatenate([np.pad(image, edge, constant_values=255) for image in line], 1) for line in grid]
    return np.concatenate(lines)


def _spread(images: np.ndarray, n: int) -> np.ndarray:
    return images[np.linspace(0, len(images) - 1, n).astype(int)]
