"""Ambiguity: how often answers as sure as this one are wrong, and which rows to leave unanswered for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from socratic.uncertainty.conformal import check_weighted

FAMILIAR, UNFAMILIAR, AMBIGUOUS = VERDICTS = ("familiar", "unfamiliar", "ambiguous")
"""What can be said of a row. One that is neither unfamiliar nor ambiguous is answered."""


CONFIDENCE = 0.9
"""With which the error among answered rows is at most the chosen risk."""
_MOST_TRIED = 1000
"""Thresholds that are tried, at most."""
_ITERATIONS = 12


class Answered(NamedTuple):
    """What calibration rows tell of the rows that are answered at a chosen risk.

    ``coverage`` is the share of the familiar rows that are answered, and ``error`` the share of these that are wrong.
    """

    coverage: float
    error: float


@dataclass(frozen=True, eq=False)
class Ambiguity:
    """How sure the answers to calibration rows were, and whether they were right.

    Rows are answered from the surest on, as many as can be with an upper bound of the error among them of at most the
    chosen risk. With a probability of ``CONFIDENCE`` over calibrations the error among fresh rows of the same source is
    then at most the risk, if surer rows are not wrong more often. The docs have the proof; it needs rows of equal
    weight.

    Attributes
    ----------
    confidence : np.ndarray (n,)
        The probability of the predicted class.
    correct : np.ndarray (n,) of bool
        Whether it was the right one.
    p_value : np.ndarray (n,)
        How familiar the rows are: only those above the rejection rate count.
    weight : np.ndarray (n,)
        Only their proportions matter.
    """

    confidence: np.ndarray
    correct: np.ndarray
    p_value: np.ndarray
    weight: np.ndarray

    @classmethod
    def fit(
        cls,
        confidence: ArrayLike,
        correct: ArrayLike,
        weight: ArrayLike | None = None,
        p_value: ArrayLike | None = None,
    ) -> Ambiguity:
        """Check the answers to calibration rows.

        Parameters
        ----------
        confidence : array (n,)
        correct : array (n,) of bool
        weight : array (n,), optional
            Not negative, 1 by default.
        p_value : array (n,), optional
            By default all rows are familiar.
        """
        sure, weights = check_weighted("confidence", confidence, weight)
        right = np.asarray(correct)
        familiarity = np.ones(len(sure)) if p_value is None else np.asarray(p_value, dtype=np.float64)
        if right.dtype != np.bool_ or right.shape != sure.shape:
            raise ValueError(
                f"correct must hold a boolean for each of {len(sure)} rows; got {right.dtype} of shape {right.shape}"
            )
        if familiarity.shape != sure.shape or np.isnan(familiarity).any():
            raise ValueError(f"p_value must hold a number for each of {len(sure)} rows; got shape {familiarity.shape}")
        return cls(sure, right, familiarity, weights)

    def risk(self, confidence: ArrayLike, rate: float = 0.0) -> np.ndarray:
        """The smallest risk (N,) at which rows with such a confidence (N,) are answered.

        Parameters
        ----------
        confidence : array (N,)
            NaN counts as not sure at all.
        rate : float
            The rejection rate: calibration rows with a p-value of at most this are not answered, so they do not count.
        """
        values, levels = self._levels(rate)
        asked = np.asarray(confidence, dtype=np.float64)
        return np.where(np.isnan(asked), 1.0, levels[np.searchsorted(values, asked, side="left")])

    def smallest_risk(self, rate: float = 0.0) -> float:
        """The smallest risk at which any row is answered."""
        return float(self._levels(rate)[1].min())

    def answered(self, risk: float, rate: float = 0.0) -> Answered | None:
        """What to expect of the rows that are answered at this risk; None if there are none."""
        sure, weights, wrong = self._familiar(rate)
        kept = self.risk(sure, rate) <= risk
        n_answered = float(weights[kept].sum())
        if not n_answered > 0.0:
            return None
        return Answered(n_answered / float(weights.sum()), float(wrong[kept].sum()) / n_answered)

    def _familiar(self, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Confidence, weight and weight if wrong (m,) of the familiar calibration rows."""
        used = self.p_value > rate
        sure, weights = check_weighted("confidence", self.confidence[used], self.weight[used])
        return sure, weights, weights * ~self.correct[used]

    def _levels(self, rate: float) -> tuple[np.ndarray, np.ndarray]:
        """The distinct confidences (d,), ascending, and the risk (d + 1,) of rows above the first 0, 1, ... of them."""
        sure, weights, wrong = self._familiar(rate)
        values, group = np.unique(sure, return_inverse=True)
        n_left, n_wrong = (
            np.append(np.cumsum(np.bincount(group, each, len(values))[::-1])[::-1], 0.0) for each in (weights, wrong)
        )
        tried = np.unique(np.linspace(0, len(values), min(len(values), _MOST_TRIED) + 1).astype(np.int64))
        bounds = np.ones(len(values) + 1)
        bounds[tried] = error_bound(n_wrong[tried], n_left[tried], float(weights.sum()))
        return values, np.minimum.accumulate(bounds)


def needed_rows(risk: float) -> int:
    """The number of calibration rows, none of them wrong, without which no row can be answered at a risk."""
    return math.ceil(math.log1p(-CONFIDENCE) / math.log1p(-risk) - 1e-9)


def error_bound(n_wrong: np.ndarray, n_answered: np.ndarray, n_rows: float) -> np.ndarray:
    """The largest error (K,) that goes with so many errors (K,) among the surest (K,) of so many rows.

    It is the upper bound of Clopper and Pearson, at a level that allows for all numbers of answered rows being tried:
    with rows that are wrong with a probability r, the bound is below r for any number of them with a probability of at
    most 1 - CONFIDENCE.
    """
    bound = np.ones(len(n_answered))
    right = n_answered - n_wrong
    some = right > 1e-9  # otherwise all are wrong, and nothing bounds the error
    found = betaincinv(n_wrong[some] + 1.0, right[some], CONFIDENCE)
    for _ in range(_ITERATIONS):  # ascends to the smallest error that is its own bound
        found = betaincinv(n_wrong[some] + 1.0, right[some], 1.0 - (1.0 - CONFIDENCE) / _tries(found * n_rows))
    bound[some] = found
    return bound


def _tries(expected: np.ndarray) -> np.ndarray:
    """How many independent tries all numbers of answered rows are worth, for so many expected errors among all rows.

    Found by computing, step by step, how often the bound fails for some number of rows.
    """
    return np.maximum(1.0, 1.0 + 1.7 * np.log2(np.maximum(expected, 1.0) / 3.3))
