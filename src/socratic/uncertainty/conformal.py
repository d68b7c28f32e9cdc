"""Conformal p-values: how often a row like the calibration rows is at least as unusual."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

UNREACHABLE = 1e300
"""A finite stand-in for an infinite score."""
_MOST_MARGINS = 10_000_000
"""Numbers that are compared at a time."""


@dataclass(frozen=True, eq=False)
class Conformal:
    """Scores of calibration rows to compare others with.

    *Held out for good*: one model that has not seen the calibration rows scores them and all others. For a row that is
    exchangeable with them the p-value is at most alpha with a probability of at most alpha, for every alpha; of exactly
    floor(alpha (n + 1)) / (n + 1) if the rows weigh the same and no scores are tied. Weights that differ may add about
    alpha / n to it.

    *Cross-fitted*: every calibration row is scored by the model of its fold, which has not seen the fold, and other
    rows by the models of all folds, each compared with the rows of its own fold. Then the probability is at most about
    2 alpha, whatever the models; it is close to alpha if single rows make little difference to them.

    Attributes
    ----------
    scores : np.ndarray (n,)
        Ascending; higher is more unusual.
    weights : np.ndarray (n,)
        Of the scores, scaled so that they sum to the number of independent rows they are worth.
    folds : np.ndarray (n,) of int
        The model that each score is by, from 0 on.
    """

    scores: np.ndarray
    weights: np.ndarray
    folds: np.ndarray

    @classmethod
    def fit(cls, scores: ArrayLike, weights: ArrayLike | None = None, folds: ArrayLike | None = None) -> Conformal:
        """Sort the scores of calibration rows.

        Parameters
        ----------
        scores : array (n,)
            May be infinite; no NaN.
        weights : array (n,), optional
            Not negative, 1 by default. Only their proportions matter: a row of weight 2 is a single draw that stands
            for twice as many rows, not two draws.
        folds : array (n,) of int, optional
            The model that each score is by; 0 by default.
        """
        values, weight = check_weighted("scores", scores, weights)
        fold = np.zeros(len(values), dtype=np.int64) if folds is None else np.asarray(folds)
        if fold.shape != values.shape or fold.dtype.kind not in "iu" or (fold < 0).any():
            raise ValueError(f"folds must number the fold of each of {len(values)} scores from 0 on; got {folds!r}")
        order = np.argsort(values, kind="stable")
        return cls(values[order], weight[order], fold[order])

    @property
    def worth(self) -> float:
        """How many independent rows a p-value compares with."""
        return float(self.weights.sum())

    def p_value(self, scores: ArrayLike) -> np.ndarray:
        """P-values (N,): (weight of the calibration scores >= s, plus 1) / (total weight, plus 1).

        Without calibration rows they are 1. NaN counts as more unusual than anything.

        Parameters
        ----------
        scores : array (N,), or (K, N)
            Of rows, by the model of each fold. One for all folds makes p-values of cross-fitted models an
            approximation for which nothing is proved.
        """
        above = np.zeros(1)
        for fold, score in enumerate(self._by_fold(scores)):
            here = self.folds == fold
            weights = np.append(np.cumsum(self.weights[here][::-1])[::-1], 0.0)
            above = above + weights[np.searchsorted(self.scores[here], score, side="left")]
        return self._level(above)

    def margin(self, scores: ArrayLike, alpha: float) -> np.ndarray:
        """How much more unusual rows (N,) may become before their p-value is at most ``alpha``; negative if it is.

        ``scores`` are those of :meth:`p_value`, and the margins in their units. They are very large if no score is
        unusual enough for ``alpha``.
        """
        given = self._by_fold(scores)
        given = np.clip(np.where(np.isnan(given), UNREACHABLE, given), -UNREACHABLE, UNREACHABLE)
        if not self.reaches(alpha):
            return np.full(given.shape[1], UNREACHABLE)
        n_rows = max(1, _MOST_MARGINS // max(1, len(self.scores)))
        parts = np.split(given, range(n_rows, given.shape[1], n_rows), axis=1)
        return np.concatenate([self._margin(part, alpha) for part in parts])

    def threshold(self, alpha: float) -> float:
        """The score above which p-values are at most ``alpha``, by one score for all folds; see :meth:`margin`."""
        return float(self.margin(np.zeros(1), alpha)[0])

    def reaches(self, alpha: float) -> bool:
        """Whether the p-value of the most unusual score is at most ``alpha``: otherwise there are too few rows."""
        return bool(self._level(np.zeros(1))[0] <= alpha)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to rebuild it from; folds only if there are several."""
        folds = {"folds": self.folds} if self.folds.any() else {}
        return {"scores": self.scores, "weights": self.weights, **folds}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Conformal:
        """Rebuild it from :meth:`to_arrays`."""
        return cls.fit(arrays["scores"], arrays["weights"], arrays.get("folds"))

    @property
    def n_folds(self) -> int:
        """How many models the scores are by."""
        return int(self.folds.max(initial=0)) + 1

    def _level(self, above: np.ndarray) -> np.ndarray:
        """P-values of rows than which calibration rows of this weight are at least as unusual."""
        return (above + 1.0) / (self.worth + 1.0)

    def _by_fold(self, scores: ArrayLike) -> np.ndarray:
        """Scores (K, N) from those of all folds, or from one (N,) for all."""
        given = np.asarray(scores, dtype=np.float64)
        if given.ndim == 2 and len(given) != self.n_folds:
            raise ValueError(f"scores must be those of {self.n_folds} folds; got {len(given)}")
        return np.broadcast_to(given, (self.n_folds, given.shape[-1]))

    def _margin(self, scores: np.ndarray, alpha: float) -> np.ndarray:
        apart = np.clip(self.scores, -UNREACHABLE, UNREACHABLE)[:, None] - scores[self.folds]  # (n, N)
        order = np.argsort(-apart, axis=0, kind="stable")
        # With so much margin or less, this weight of rows is at least as unusual.
        levels = self._level(np.cumsum(self.weights[order], axis=0))
        place = (levels > alpha).argmax(0)
        found = np.take_along_axis(apart, np.take_along_axis(order, place[None], 0), 0)[0]
        return np.where(levels[-1] > alpha, found, -UNREACHABLE)


def rows_needed(level: float) -> int:
    """The number of calibration rows without which nothing can be shown at a level above 0: 1 / (n + 1) <= level."""
    return math.ceil(1.0 / level - 1e-9) - 1


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
