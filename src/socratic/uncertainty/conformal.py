"""Conformal p-values: how often a row like the calibration rows is at least as unusual."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

UNREACHABLE = 1e300
"""A finite stand-in for an infinite score."""
GRID_BITS = 16
"""Scores are compared on a grid: multiples of 2^-16, above 1 of 2^-16 of the power of 2 below the score.

That is a hundred thousandth of a nat near 0. Rounding, which depends on the company that a row is evaluated in, on the
number of threads and on the door it comes through, is a ten-millionth of that, and of what scores tell a hundred times
as much is left. So a row has one score, and equal rows have equal ones.
"""


def on_grid(scores: ArrayLike) -> np.ndarray:
    """Scores as they are compared: rounded to the grid of :data:`GRID_BITS`. NaN and infinity stay what they are."""
    values = np.asarray(scores, dtype=np.float64)
    finite = np.isfinite(values)
    _, exponent = np.frexp(np.where(finite, values, 0.0))  # of 2^exponent / 2 <= |value| < 2^exponent
    step = GRID_BITS - np.maximum(exponent - 1, 0)
    return np.where(finite, np.ldexp(np.rint(np.ldexp(np.where(finite, values, 0.0), step)), -step), values)


def over_folds(scores: np.ndarray) -> np.ndarray:
    """How unusual rows are (N,), by the models of all folds (K, N) or the only one: the mean.

    Of scores on the grid, as those of calibration rows are: the mean of equal scores is the same then.
    """
    return on_grid(on_grid(scores).mean(0))


@dataclass(frozen=True, eq=False)
class Conformal:
    """Scores of calibration rows to compare others with.

    *Held out for good*: one model that has not seen the calibration rows scores them and all others. For a row that is
    exchangeable with them the p-value is at most alpha with a probability of at most alpha, for every alpha; of exactly
    floor(alpha (n + 1)) / (n + 1) if the rows weigh the same and no scores are tied. Weights that differ may add about
    alpha / n to it.

    *Cross-fitted*: every calibration row is scored by the model of its fold, which has not seen the fold, and other
    rows by the mean over the models of all folds. Nothing is proved of that for all models; the probability is close to
    alpha if single rows make little difference to them.

    All scores are compared on one grid, see :func:`on_grid`.

    Attributes
    ----------
    scores : np.ndarray (n,)
        Ascending; higher is more unusual.
    weights : np.ndarray (n,)
        Of the scores, scaled so that they sum to the number of independent rows they are worth.
    folds : np.ndarray (n,) of int
        The model that each score is by, from 0 on; -1 for rows that every model has seen.
    own : np.ndarray (n,)
        The score by that model, of rows that have equal ones in other folds, too, which share a mean.
    """

    scores: np.ndarray
    weights: np.ndarray
    folds: np.ndarray
    own: np.ndarray

    @classmethod
    def fit(
        cls,
        scores: ArrayLike,
        weights: ArrayLike | None = None,
        folds: ArrayLike | None = None,
        twins: ArrayLike | None = None,
    ) -> Conformal:
        """Sort the scores of calibration rows.

        Parameters
        ----------
        scores : array (n,)
            May be infinite; no NaN.
        weights : array (n,), optional
            Not negative, 1 by default. Only their proportions matter: a row of weight 2 is a single draw that stands
            for twice as many rows, not two draws.
        folds : array (n,) of int, optional
            The model that each score is by; 0 by default. -1 marks rows that every model was trained on, since each is
            alone in its class, and a model without it would not know the class. Whatever their scores, they count as
            more unusual than anything, so that no more rows are refused than if they had been held out.
        twins : array (n,) of int, optional
            The same number for rows that are equal, whatever their folds. All of them count as unusual as a new row
            like them does: by the mean of the models that have not seen one of them. By default no rows are equal.
        """
        values, weight = check_weighted("scores", scores, weights)
        fold = np.zeros(len(values), dtype=np.int64) if folds is None else np.asarray(folds)
        if fold.shape != values.shape or fold.dtype.kind not in "iu" or (fold < -1).any():
            raise ValueError(f"folds must number the fold of each of {len(values)} scores from 0 on; got {folds!r}")
        own = np.where(fold < 0, np.inf, on_grid(values))
        compared = own if twins is None else _mean_of_folds(own, fold, np.asarray(twins))
        order = np.argsort(compared, kind="stable")
        return cls(compared[order], weight[order], fold[order], own[order])

    @property
    def worth(self) -> float:
        """How many independent rows a p-value compares with."""
        return float(self.weights.sum())

    def p_value(self, scores: ArrayLike) -> np.ndarray:
        """P-values (N,): (weight of the calibration scores >= s, plus 1) / (total weight, plus 1).

        Without calibration rows they are 1. NaN counts as more unusual than anything.

        Cross-fitted models give a row the mean of its scores by all folds.
        """
        above = np.append(np.cumsum(self.weights[::-1])[::-1], 0.0)
        return self._level(above[np.searchsorted(self.scores, on_grid(scores), side="left")])

    def threshold(self, alpha: float) -> float:
        """The score above which p-values are at most ``alpha``; very large if no score is unusual enough for that."""
        if not self.reaches(alpha):
            return UNREACHABLE
        above = np.cumsum(self.weights[::-1])[::-1]
        kept = self.scores[self._level(above) > alpha]
        return float(np.clip(kept[-1], -UNREACHABLE, UNREACHABLE)) if len(kept) else -UNREACHABLE

    def reaches(self, alpha: float) -> bool:
        """Whether any p-value can be at most ``alpha``: otherwise there are too few rows, or too many are alone."""
        return bool(self._level(self.weights[np.isposinf(self.scores)].sum()) <= alpha)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to rebuild it from; those of folds only if there are several."""
        crossed = {"folds": self.folds, "own": self.own} if self.folds.any() else {}
        return {"scores": self.scores, "weights": self.weights, **crossed}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Conformal:
        """Rebuild it from :meth:`to_arrays`."""
        scores, weights = check_weighted("scores", arrays["scores"], arrays["weights"])
        if ("folds" in arrays) != ("own" in arrays):
            raise ValueError("scores by several models must come with the fold of each and its score by its own model")
        folds, own = arrays.get("folds", np.zeros(len(scores), dtype=np.int64)), arrays.get("own", scores)
        if (np.diff(scores) < 0.0).any() or folds.shape != scores.shape or own.shape != scores.shape:
            raise ValueError("scores must ascend, and each must have a fold and a score by its model")
        if folds.dtype.kind not in "iu" or (folds < -1).any() or (folds >= max(len(folds), 1)).any():
            raise ValueError("folds must be numbers of folds, or -1")
        if own.dtype.kind != "f" or np.isnan(own).any():
            raise ValueError("the scores by the model of each fold must be numbers")
        return cls(scores, weights, folds, own)

    @property
    def n_folds(self) -> int:
        """How many models the scores are by."""
        return int(self.folds.max(initial=0)) + 1

    def _level(self, above: Any) -> Any:
        """P-values of rows than which calibration rows of this weight are at least as unusual."""
        return (above + 1.0) / (self.worth + 1.0)


def _mean_of_folds(own: np.ndarray, folds: np.ndarray, twins: np.ndarray) -> np.ndarray:
    """For rows (n,) with scores by the model of each one's fold, the mean of those of its twins, each fold once."""
    _, first = np.unique(np.stack([twins, folds]), axis=1, return_index=True)  # one of the equal rows of each fold
    n_twins = int(twins.max(initial=-1)) + 1
    total = np.bincount(twins[first], own[first], n_twins)
    return on_grid((total / np.maximum(np.bincount(twins[first], minlength=n_twins), 1))[twins])


def rows_needed(level: float) -> int:
    """The number of calibration rows without which nothing can be shown at a level above 0: 1 / (n + 1) <= level.

    Of the smallest levels it is 10^18, more than anybody has.
    """
    return math.ceil(min(1.0 / level, 1e18) - 1e-9) - 1


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
    return values, as_independent(counts)


def as_independent(weights: np.ndarray) -> np.ndarray:
    """Weights (n,) scaled to sum to the number of independent rows they are worth, (sum w)^2 / sum w^2 (Kish)."""
    if not weights.any() or np.isclose(weights.sum(), (weights**2).sum(), rtol=1e-12):  # they are already
        return weights
    relative = weights / weights.max()  # equal weights become exactly 1
    return relative * (relative.sum() / (relative**2).sum())
