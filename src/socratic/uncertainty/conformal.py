"""Conformal p-values: how often a row like the calibration rows is at least as unusual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

UNREACHABLE = 1e300
"""A finite stand-in for an infinite score."""


@dataclass(frozen=True, eq=False)
class Conformal:
    """Scores of calibration rows to compare others with.

    For a row exchangeable with the calibration rows, the p-value is at most alpha with a probability of at most alpha,
    for every alpha; of exactly floor(alpha (n + 1)) / (n + 1) if the rows weigh the same and no scores are tied.
    Weights that differ may add about alpha / n to it.

    Attributes
    ----------
    scores : np.ndarray (n,)
        Ascending; higher is more unusual.
    weights : np.ndarray (n,)
        Of the scores, scaled so that they sum to the number of independent rows they are worth.
    """

    scores: np.ndarray
    weights: np.ndarray

    @classmethod
    def fit(cls, scores: ArrayLike, weights: ArrayLike | None = None) -> Conformal:
        """Sort the scores of calibration rows.

        Parameters
        ----------
        scores : array (n,)
            May be infinite; no NaN.
        weights : array (n,), optional
            Not negative, 1 by default. Only their proportions matter: a row of weight 2 is a single draw that stands
            for twice as many rows, not two draws.
        """
        values, weight = check_weighted("scores", scores, weights)
        order = np.argsort(values, kind="stable")
        return cls(values[order], weight[order])

    def p_value(self, scores: ArrayLike) -> np.ndarray:
        """P-values (N,) of scores (N,): (weight of the calibration scores >= s, plus 1) / (total weight, plus 1).

        Without calibration rows they are 1. NaN counts as more unusual than anything.
        """
        place = np.searchsorted(self.scores, np.asarray(scores, dtype=np.float64), side="left")
        return self._levels()[place]

    def threshold(self, alpha: float) -> float:
        """The score above which p-values are at most ``alpha``; a very large one if no score can be that unusual."""
        if not self.reaches(alpha):
            return UNREACHABLE
        kept = self.scores[self._levels()[:-1] > alpha]
        return float(kept[-1]) if len(kept) else -UNREACHABLE

    def reaches(self, alpha: float) -> bool:
        """Whether the p-value of the most unusual score is at most ``alpha``: otherwise there are too few rows."""
        return bool(self._levels()[-1] <= alpha)

    def _levels(self) -> np.ndarray:
        """The p-value (n + 1,) of each calibration score, and of a higher one."""
        above = np.append(np.cumsum(self.weights[::-1])[::-1], 0.0)
        return (above + 1.0) / (above[0] + 1.0)


def check_weighted(name: str, scores: ArrayLike, weights: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Scores and weights as float64 arrays (n,), or a ValueError that says why not.

    The weights are scaled to sum to the number of independent rows they are worth, (sum w)^2 / sum w^2 (Kish).
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name} must have the shape (n,); got {values.shape}")
    n_missing = int(np.isnan(values).sum())
    if n_missing:
        raise ValueError(f"{name} must hold no NaN; got {n_missing} among {values.size} numbers")
    counts = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    if counts.shape != values.shape:
        raise ValueError(f"the weights of {name} must have the shape {values.shape}, like them; got {counts.shape}")
    if not (np.isfinite(counts) & (counts >= 0.0)).all():
        raise ValueError(f"the weights of {name} must be finite and at least 0; got a minimum of {counts.min():g}")
    return values, _scaled(counts)


def _scaled(weights: np.ndarray) -> np.ndarray:
    if not weights.any() or np.isclose(weights.sum(), (weights**2).sum(), rtol=1e-12):  # they are already
        return weights
    relative = weights / weights.max()  # equal weights become exactly 1
    return relative * (relative.sum() / (relative**2).sum())
