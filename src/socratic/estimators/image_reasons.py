"""Reasons in images: which regions do not go with the rest, and a heat map of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_place
from socratic.images import PixelEncoder
from socratic.inference.queries import region_surprise
from socratic.notebook import axes_or_new
from socratic.uncertainty.reasons import FamiliarSurprises, Reasons

_PIXELS = 16
"""Regions of fewer pixels tell noise."""
_LARGEST, _SMALLEST = 4, 16
"""Regions of more than a fourth of an image do not say where, nor need they be smaller than a sixteenth."""


@dataclass(frozen=True, eq=False)
class ImageReasons(Reasons):
    """How surprising each region of each image is, given the rest of it.

    Attributes
    ----------
    names : tuple of str
        The Q regions of the circuit of up to a fourth of the image, such as "rows 0-6, columns 7-13".
    surprise, excess, p_value : np.ndarray (N, Q)
        See :class:`Reasons`.
    heat : np.ndarray (N, H, W)
        The excess at each pixel, in nats: that of a region is spread evenly over its pixels, and a pixel has the mean
        of the regions it lies in.
    """

    heat: np.ndarray

    def plot_heat(self, row: int = 0, *, ax: Any = None) -> Any:
        """The heat of an image: red where it is more surprising than usual, blue where it is less.

        Parameters
        ----------
        row : int
            Which image.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        heat = self.heat[check_place("row", row, len(self.heat))]
        largest = max(float(np.abs(heat).max()), 1e-12)
        ax = axes_or_new(ax)
        ax.imshow(heat, cmap="RdBu_r", vmin=-largest, vmax=largest)
        ax.set_axis_off()
        return ax


class ImageParts(NamedTuple):
    """The regions of a circuit that say where in an image something is."""

    circuit: Circuit | Graph
    min_columns: int
    kept: list[int]  # the numbers of these Q regions among all of at least ``min_columns``
    areas: np.ndarray  # (Q, H, W) of booleans

    @classmethod
    def of(cls, circuit: Circuit | Graph, encoder: PixelEncoder) -> ImageParts:
        """Those of up to a fourth of the image; all, if there are none."""
        height, width, channels = encoder.shape
        block = 2**encoder.levels
        min_columns = channels * max(1, block**2, min(_PIXELS, height * width // _SMALLEST))
        nothing = np.empty((0, circuit.n_features))
        scopes = region_surprise(circuit, nothing, min_columns=min_columns).scopes
        small = [number for number, scope in enumerate(scopes) if len(scope) <= circuit.n_features // _LARGEST]
        kept = small or list(range(len(scopes)))
        areas = np.zeros((len(kept), height, width), dtype=bool)
        for area, number in zip(areas, kept, strict=True):
            area.flat[np.array(scopes[number]) % (height * width)] = True
        # A coefficient of a wavelet stands at one pixel and speaks for its block.
        blocks = areas.reshape(len(kept), height // block, block, width // block, block).any((2, 4))
        return cls(circuit, min_columns, kept, blocks.repeat(block, 1).repeat(block, 2))

    def surprise(self, x: Tensor, class_prior: Tensor) -> np.ndarray:
        """Surprises (n, Q) of images (n, V) as the circuit reads them."""
        found = region_surprise(self.circuit, x, min_columns=self.min_columns, class_prior=class_prior)
        return found.values[:, self.kept].double().cpu().numpy()

    def compare(self, familiar: FamiliarSurprises, surprise: np.ndarray) -> ImageReasons:
        """Surprises (N, Q) beside those of familiar images, and where they are."""
        reasons = familiar.compare([_name(area) for area in self.areas], surprise)
        spread = self.areas / self.areas.sum((1, 2), keepdims=True) / np.maximum(self.areas.sum(0), 1)
        heat = np.einsum("nq,qhw->nhw", reasons.excess, spread)
        return ImageReasons(reasons.names, reasons.surprise, reasons.excess, reasons.p_value, heat)


def _name(area: np.ndarray) -> str:
    """Where an area (H, W) is: the rows and columns that hold it."""
    rows, columns = (np.flatnonzero(area.any(axis)) for axis in (1, 0))
    return f"rows {rows[0]}-{rows[-1]}, columns {columns[0]}-{columns[-1]}"
