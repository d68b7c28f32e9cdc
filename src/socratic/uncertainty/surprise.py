"""Surprise: how rare a score is among reference rows, which makes scores of any kind comparable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from socratic.uncertainty.conformal import Conformal, on_grid

_TAIL = 0.25
LARGEST = 1e100  # in place of infinity: a finite number can be interpolated


@dataclass(frozen=True, eq=False)
class Surprise:
    """The surprise of a score, increasing in it: -log of the share of reference rows at least as unusual.

    Linear between the scores of reference rows. Above them it goes on rising as an exponential tail would, with the
    mean excess of the upper quarter, so that the most unusual rows are still told apart. Without reference rows it is
    the score itself.

    Scores are read on the grid of :func:`~socratic.uncertainty.conformal.on_grid`: between reference rows that differ
    by rounding alone, as do the entropies of a model that is very sure, a surprise would depend on the arithmetic.

    Attributes
    ----------
    knots, values : np.ndarray (K,)
        The distinct scores of the reference rows, ascending, and their surprises.
    top, slope : float
        Surprise just above all reference rows, and its rise from there.
    """

    knots: np.ndarray
    values: np.ndarray
    top: float
    slope: float

    @classmethod
    def fit(cls, scores: np.ndarray, weights: np.ndarray) -> Surprise:
        """From the scores (n,) of reference rows and their weights (n,)."""
        scores = _finite(scores[weights > 0.0])
        weights = weights[weights > 0.0]
        if not len(scores):
            return cls(np.empty(0), np.empty(0), 0.0, 0.0)
        reference = Conformal.fit(scores, weights)
        knots = np.unique(scores)
        below = np.cumsum(reference.weights)
        quantile = reference.scores[np.searchsorted(below, (1.0 - _TAIL) * below[-1])]
        tail = (scores > quantile) & (scores < LARGEST)
        # Where the rows say nothing of the tail, a nat of the score, which all scores are in, is a nat of surprise.
        slope = 1.0 / np.average(scores[tail] - quantile, weights=weights[tail]) if tail.any() else 1.0
        return cls(knots, -np.log(reference.p_value(knots)), math.log1p(below[-1]), float(slope))

    def __call__(self, scores: ArrayLike) -> np.ndarray:
        """Surprises (N,) of scores (N,)."""
        finite = _finite(np.asarray(scores, dtype=np.float64))
        if not len(self.knots):
            return finite
        excess = finite - self.knots[-1]
        return np.where(excess > 0.0, self.top + self.slope * excess, np.interp(finite, self.knots, self.values))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to rebuild it from."""
        return {"knots": self.knots, "values": self.values, "tail": np.array([self.top, self.slope])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Surprise:
        """Rebuild what :meth:`to_arrays` gave."""
        knots, values, tail = arrays["knots"], arrays["values"], arrays["tail"]
        if knots.ndim != 1 or knots.shape != values.shape or tail.shape != (2,):
            raise ValueError(f"{len(values)} surprises do not fit {len(knots)} scores")
        if not all(np.isfinite(part).all() for part in (knots, values, tail)) or (np.diff(knots) <= 0.0).any():
            raise ValueError("surprises must be finite, and their scores must ascend")
        return cls(knots, values, *tail.tolist())


def _finite(scores: np.ndarray) -> np.ndarray:
    return on_grid(np.clip(scores, -LARGEST, LARGEST))
