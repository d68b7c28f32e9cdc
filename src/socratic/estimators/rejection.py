"""What estimators that refuse rows promise: how many familiar rows, and whether they can keep it."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from socratic.errors import CalibrationWarning, check_count, check_rate
from socratic.estimators.base import SocraticEstimator
from socratic.uncertainty.by_class import ClassConformal
from socratic.uncertainty.conformal import Conformal, rows_needed


class RejectingEstimator(SocraticEstimator):
    """An estimator that refuses at most ``rejection_rate`` of familiar rows, if enough could be held out for that."""

    rejection_rate: float
    n_calibration_: int
    """Rows that were calibrated on, and that the model which scored them was not trained on."""
    folds_: tuple[Any, ...] = ()
    """Models that were each trained without a part of the rows, of cross-fitted estimators."""

    @property
    def calibrated_(self) -> bool:
        """Whether ``rejection_rate`` can be kept: enough rows were held out to calibrate on."""
        return self._calibration_problem() is None

    @abstractmethod
    def _conformal(self) -> Conformal | ClassConformal:
        """What p-values compare with."""

    def calibration_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Between which shares of familiar rows this model will refuse, at the present ``rejection_rate``.

        What is promised is an average over calibrations; this is about the one at hand. With n calibration rows the
        share has a Beta(k, n + 1 - k) distribution, k = floor(rate (n + 1)), whatever the data: exact for rows that
        were held out for good, of equal weight and without ties, which make the share smaller. Of cross-fitted models
        nothing is proved: it is taken to scatter as with half as many rows, which is measured to be wide enough. With
        calibration by class it is the share of the class with the fewest rows.

        Parameters
        ----------
        confidence : float
            Probability that the share lies between the two.
        """
        from scipy.stats import beta

        check_is_fitted(self)
        check_rate("confidence", confidence)
        n = self._conformal().worth if self.n_calibration_ else 0.0
        above = math.floor(self._rate() * (n + 1.0) + 1e-9)
        if not above:
            return (0.0, 0.0) if self.n_calibration_ else (0.0, 1.0)
        worth = 0.5 if self.folds_ else 1.0
        limits = [0.5 - confidence / 2.0, 0.5 + confidence / 2.0]
        low, high = beta.ppf(limits, worth * above, worth * (n + 1.0 - above))
        return float(low), float(high)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self._rate()
        check_count("n_calibration_", self.n_calibration_, minimum=0)
        if self._conformal().n_folds != max(1, len(self.folds_)):
            raise ValueError("the scores of its calibration rows do not fit its folds")

    def _rate(self) -> float:
        return check_rate("rejection_rate", self.rejection_rate)

    def _warn_unless_kept(self, stacklevel: int = 3) -> None:
        """Warn if what is promised cannot be kept."""
        self._warn_unless_calibrated(stacklevel + 1)

    def _warn_unless_calibrated(self, stacklevel: int = 3) -> None:
        problem = self._calibration_problem()
        if problem is not None:
            warnings.warn(problem, CalibrationWarning, stacklevel=stacklevel)

    def _calibration_problem(self) -> str | None:
        rate, conformal, n_rows = self._rate(), self._conformal(), self.n_calibration_
        needed = _needed(rate)
        remedy = "fit more rows" if self.folds_ else "fit more rows, or hold out more of them with calibration_fraction"
        if not n_rows:
            return (
                f"no rows were held out to calibrate on, and rejection_rate={rate:g} needs {needed}: p-values compare "
                f"with the training rows, and more familiar rows than that may be refused; {remedy}"
            )
        if rate > 0.0 and not conformal.reaches(rate):
            weighing = f" (worth {conformal.worth:.1f} by their weights)" if conformal.worth < n_rows - 0.05 else ""
            return (
                f"{n_rows} rows{weighing} were calibrated on, and rejection_rate={rate:g} needs {needed}: "
                f"no row is refused; {remedy}, or raise rejection_rate"
            )
        return None


def _needed(rate: float) -> str:
    """How many calibration rows a rate needs, in words."""
    return f"at least {rows_needed(rate)}" if rate > 0.0 else "some"


def warn_of_few(counts: Mapping[Any, int], rate: float) -> None:
    """Name the classes that have too few calibration rows for a rate of their own, with their numbers of rows."""
    if not counts:
        return
    names = ", ".join(f"{label} ({count})" for label, count in counts.items())
    warnings.warn(
        f"too few rows to calibrate by class: {names}; rejection_rate={rate:g} needs {_needed(rate)} of each. "
        "These classes are compared with the rows of all classes together, and may be refused more often; fit more of "
        "their rows, or raise rejection_rate",
        CalibrationWarning,
        stacklevel=5,
    )


def refused_by_class(labels: ArrayLike, refused: ArrayLike) -> dict[Any, tuple[int, float]]:
    """For each class its number of rows, and the share of them that is refused.

    Parameters
    ----------
    labels : array (N,)
        The classes that rows really belong to.
    refused : array (N,) of bool
    """
    label, verdict = np.asarray(labels), np.asarray(refused, dtype=bool)
    if label.ndim != 1 or label.shape != verdict.shape:
        raise ValueError(f"labels and refused must have one shape (N,); got {label.shape} and {verdict.shape}")
    return {
        name: (int((label == name).sum()), float(verdict[label == name].mean())) for name in np.unique(label).tolist()
    }
