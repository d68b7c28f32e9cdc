"""What estimators that refuse rows promise: how many familiar rows, and whether they can keep it."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod

from socratic.errors import CalibrationWarning, check_count, check_rate
from socratic.estimators.base import SocraticEstimator
from socratic.uncertainty.conformal import Conformal


class RejectingEstimator(SocraticEstimator):
    """An estimator that refuses at most ``rejection_rate`` of familiar rows, if enough could be held out for that."""

    rejection_rate: float
    n_calibration_: int
    """Rows that were held out to calibrate on."""

    @property
    def calibrated_(self) -> bool:
        """Whether ``rejection_rate`` can be kept: enough rows were held out to calibrate on."""
        return self._calibration_problem() is None

    @abstractmethod
    def _conformal(self) -> Conformal:
        """What p-values compare with."""

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self._rate()
        check_count("n_calibration_", self.n_calibration_, minimum=0)
        self._conformal()

    def _rate(self) -> float:
        return check_rate("rejection_rate", self.rejection_rate)

    def _warn_unless_calibrated(self, stacklevel: int = 3) -> None:
        problem = self._calibration_problem()
        if problem is not None:
            warnings.warn(problem, CalibrationWarning, stacklevel=stacklevel)

    def _calibration_problem(self) -> str | None:
        rate, conformal, n_rows = self._rate(), self._conformal(), self.n_calibration_
        needed = f"at least {math.ceil(1.0 / rate - 1e-9) - 1}" if rate > 0.0 else "some"
        remedy = "fit more rows, or hold out more of them with calibration_fraction"
        if not n_rows:
            return (
                f"no rows were held out to calibrate on, and rejection_rate={rate:g} needs {needed}: p-values compare "
                f"with the training rows, and more familiar rows than that may be refused; {remedy}"
            )
        if rate > 0.0 and not conformal.reaches(rate):
            worth = conformal.weights.sum()
            weighing = f" (worth {worth:.1f} by their weights)" if worth < n_rows - 0.05 else ""
            return (
                f"{n_rows} rows{weighing} were held out to calibrate on, and rejection_rate={rate:g} needs {needed}: "
                f"no row is refused; {remedy}, or raise rejection_rate"
            )
        return None
