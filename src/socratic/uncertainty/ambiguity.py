"""Ambiguity: how often answers as sure as this one are wrong, and which rows to leave unanswered for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from socratic.uncertainty.conformal import check_weighted

FAMILIAR, UNFAMILIAR, AMBIGUOUS = VERDICTS = ("familiar", "unfamiliar", "ambiguous")
"""What can be said of a row. One that is neither unfamiliar nor ambiguous is answered."""


class Answered(NamedTuple):
    """What calibration rows tell of the rows that are answered at a chosen risk.

    ``coverage`` is the share of the familiar rows that are answered, and ``error`` the share of these that are wrong.
    """

    coverage: float
    error: float


@dataclass(frozen=True, eq=False)
class Ambiguity:
    """How sure the answers to calibration rows were, and whether they were right.

    Rows are answered from the surest on, as many as can be with (1 + errors) / (1 + answered rows) of at most the
    chosen risk. The error among answered fresh rows of the same source is then at most the risk on average over
    calibrations, those that answer nothing counted as without error. The docs have the proof; it needs rows of equal
    weight, and nothing else.

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
        return values, np.minimum.accumulate((1.0 + n_wrong) / (1.0 + n_left))
