"""Ambiguity: how often answers as sure as this one are wrong, and which rows to leave unanswered for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from socratic.uncertainty.conformal import check_weighted, rows_needed

FAMILIAR, UNFAMILIAR, AMBIGUOUS = VERDICTS = ("familiar", "unfamiliar", "ambiguous")
"""What can be said of a row. One that is neither unfamiliar nor ambiguous is answered."""


_ROWS_PER_ERROR, _MOST_ERRORS = 150, 8
"""The search for a bound starts at a set with one error for so many rows; with fewer, one error would stop it."""
_MOST_KNOWN = 8
"""Levels that are kept, of as many pairs of rejection rate and confidence."""

Risks = tuple[np.ndarray, np.ndarray]
"""The distinct confidences (d,), ascending, and the risk (d + 1,) of rows above the first 0, 1, ... of them."""


class Answered(NamedTuple):
    """What calibration rows tell of the rows that are answered at a chosen risk.

    ``coverage`` is the share of the familiar rows that are answered, and ``error`` the share of these that are wrong.
    """

    coverage: float
    error: float


@dataclass(frozen=True, eq=False)
class Ambiguity:
    """How sure the answers to calibration rows were, and whether they were right.

    Rows are answered from the surest on, as many as the chosen risk allows. There are two promises to choose from, for
    rows of equal weight. The docs have the proofs.

    *With a confidence*, ``risk_confidence``: in that share of calibrations the error among answered fresh rows of the
    same source is at most the risk. Sets of rows are tested, larger and larger ones, by an exact binomial bound of
    their error (Clopper and Pearson, 1934), until one fails: a fixed sequence, in which every test may have the whole
    level. It starts where the rows are so many that they pass with j errors. With many rows j is more than 0, and half
    of the level is kept for one more test, of all rows.

    *On average*, if that is None: rows are answered while (1 + errors) / (1 + answered rows) is at most the risk. The
    mean error over calibrations is then at most the risk, those that answer nothing counted as without error.

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

    def risk(self, confidence: ArrayLike, rate: float = 0.0, risk_confidence: float | None = None) -> np.ndarray:
        """The smallest risk (N,) at which rows with such a confidence (N,) are answered.

        Parameters
        ----------
        confidence : array (N,)
            NaN counts as not sure at all.
        rate : float
            The rejection rate: calibration rows with a p-value of at most this are not answered, so they do not count.
        risk_confidence : float, optional
            The share of calibrations in which the risk is kept; None keeps it on average.
        """
        values, levels = self._levels(rate, risk_confidence)
        asked = np.asarray(confidence, dtype=np.float64)
        return np.where(np.isnan(asked), 1.0, levels[np.searchsorted(values, asked, side="left")])

    def smallest_risk(self, rate: float = 0.0, risk_confidence: float | None = None) -> float:
        """The smallest risk at which any row is answered."""
        return float(self._levels(rate, risk_confidence)[1].min())

    def answered(self, risk: float, rate: float = 0.0, risk_confidence: float | None = None) -> Answered | None:
        """What calibration rows tell of the rows that are answered at this risk; None if there are none."""
        sure, weights, wrong = self._familiar(rate)
        kept = self.risk(sure, rate, risk_confidence) <= risk
        n_answered = float(weights[kept].sum())
        if not n_answered > 0.0:
            return None
        return Answered(n_answered / float(weights.sum()), float(wrong[kept].sum()) / n_answered)

    def _familiar(self, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Confidence, weight and weight if wrong (m,) of the familiar calibration rows."""
        used = self.p_value > rate
        sure, weights = check_weighted("confidence", self.confidence[used], self.weight[used])
        return sure, weights, weights * ~self.correct[used]

    @cached_property
    def _known(self) -> dict[tuple[float, float | None], Risks]:
        """Levels by what they were asked for: every request of a service asks for the same."""
        return {}

    def _levels(self, rate: float, risk_confidence: float | None) -> Risks:
        """The levels at this rejection rate and confidence."""
        found = self._known.get((rate, risk_confidence))
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[rate, risk_confidence] = self._find_levels(rate, risk_confidence)
        return found

    def _find_levels(self, rate: float, risk_confidence: float | None) -> Risks:
        sure, weights, wrong = self._familiar(rate)
        values, group = np.unique(sure, return_inverse=True)
        # Of the rows above each of the confidences, the surest first: no row, those of the highest, ..., all.
        n_rows, n_wrong = (
            np.append(0.0, np.cumsum(np.bincount(group, each, len(values))[::-1])) for each in (weights, wrong)
        )
        if risk_confidence is None:
            return values, np.minimum.accumulate(((1.0 + n_wrong) / (1.0 + n_rows))[::-1])
        level, start = _level(risk_confidence, n_rows[-1]), min(_MOST_ERRORS, int(n_rows[-1] // _ROWS_PER_ERROR))
        bounds = _bounds(n_rows, n_wrong, start, level)
        if start:
            bounds = np.minimum(bounds, _largest_error(n_rows[-1:], n_wrong[-1:], level))
        return values, bounds[::-1]


def familiar_rows_needed(risk: float, risk_confidence: float | None) -> int:
    """The number of familiar calibration rows without which no row is answered at this risk."""
    if risk_confidence is None:
        return rows_needed(risk)
    needed = 1
    while True:
        more = math.ceil(math.log(_level(risk_confidence, needed)) / math.log1p(-risk) - 1e-9)
        if more <= needed:
            return needed
        needed = more


def _level(risk_confidence: float, n_rows: float) -> float:
    """The level of each test: with many rows there are two."""
    return (1.0 - risk_confidence) / (1.0 if n_rows < _ROWS_PER_ERROR else 2.0)


def _bounds(n_rows: np.ndarray, n_wrong: np.ndarray, start: int, level: float) -> np.ndarray:
    """The risk (d + 1,) at which growing sets of rows are answered, by the search that begins with ``start`` errors.

    At a risk r it begins with the first set that is so large that ``start`` errors among its rows are less likely than
    ``level`` if the error is r. That does not depend on which rows are wrong. If there are no more errors in it, it
    goes on until a set fails the test. Bounds fall up to the last set with so few errors: a risk of at least its bound
    begins there or before, and comes so far. So sets up to it are answered at its bound, and each larger one at the
    largest bound from there to it.
    """
    counted = np.maximum(n_wrong, start)
    first = int(np.flatnonzero(n_wrong <= start)[-1])
    # Between errors bounds only fall: the largest are where errors come in.
    rises = np.append(first, first + 1 + np.flatnonzero(np.diff(counted[first:]) > 0.0))
    bounds = np.zeros(len(n_rows))
    bounds[rises] = _largest_error(n_rows[rises], counted[rises], level)
    bounds[:first] = bounds[first]
    return np.maximum.accumulate(bounds)


def _largest_error(n_rows: np.ndarray, n_wrong: np.ndarray, level: float) -> np.ndarray:
    """The error (d,) at which so few of these rows are wrong with a probability of ``level`` (Clopper and Pearson)."""
    from scipy.special import betaincinv

    all_wrong = n_wrong >= n_rows
    n_right = np.where(all_wrong, 1.0, n_rows - n_wrong)
    return np.where(all_wrong, 1.0, betaincinv(n_wrong + 1.0, n_right, 1.0 - level))
