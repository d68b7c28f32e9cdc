"""Classifiers that answer a row, or refuse it for one of two reasons: it is unfamiliar, or it is ambiguous."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np

from socratic.errors import CalibrationWarning
from socratic.estimators.parameters import check_risk
from socratic.estimators.rejection import RejectingEstimator
from socratic.uncertainty.ambiguity import AMBIGUOUS, FAMILIAR, UNFAMILIAR, Ambiguity, familiar_rows_needed
from socratic.uncertainty.answers import Answer


class JudgingClassifier(RejectingEstimator):
    """A classifier whose answers come with a verdict."""

    risk: float | None
    risk_confidence: float | None
    rejected_label: Any
    classes_: np.ndarray
    ambiguity_: Ambiguity

    @abstractmethod
    def answer(self, X: Any) -> Answer:  # noqa: N803
        """Everything the classifier can say of each row, from one evaluation."""

    def verdict(self, X: Any) -> np.ndarray:  # noqa: N803
        """What to make of each row: (N,) of "familiar", "unfamiliar" or "ambiguous".

        *Unfamiliar* is what :meth:`reject` refuses. Of the others those are *ambiguous* that could not be answered
        without the errors among answered rows exceeding the chosen ``risk``, on average or with the chosen
        ``risk_confidence``; without a risk there are none. Says with a ``CalibrationWarning`` if the model cannot keep
        what it promises.
        """
        verdicts = self.verdicts(self.answer(X))
        self._warn_unless_kept()
        return verdicts

    def reject(self, X: Any) -> np.ndarray:  # noqa: N803
        """Which rows are unfamiliar: (N,) booleans.

        At most ``rejection_rate`` of familiar rows are refused, if the model is ``calibrated_``; if it is not, this
        says so with a ``CalibrationWarning``.
        """
        rejected = self.is_rejected(self.answer(X))
        self._warn_unless_calibrated()
        return rejected

    def predict_or_reject(self, X: Any) -> np.ndarray:  # noqa: N803
        """The labels of :meth:`predict`, with ``rejected_label`` for rows that are unfamiliar or ambiguous."""
        answer = self.answer(X)
        labels = self.classes_[answer.probabilities.argmax(1)].astype(object)
        labels[self.verdicts(answer) != FAMILIAR] = self.rejected_label
        self._warn_unless_kept()
        return labels

    def is_rejected(self, answer: Answer) -> np.ndarray:
        """Which of the rows that were answered are unfamiliar, at the present ``rejection_rate``: (N,) booleans."""
        return answer.uncertainty.p_value <= self._rate()

    def verdicts(self, answer: Answer) -> np.ndarray:
        """The verdict (N,) on rows that were answered, at the present ``rejection_rate`` and ``risk``."""
        risk = self._risk()
        ambiguous = np.zeros(len(answer.probabilities), dtype=bool) if risk is None else self.risks(answer) > risk
        return np.where(self.is_rejected(answer), UNFAMILIAR, np.where(ambiguous, AMBIGUOUS, FAMILIAR))

    def risks(self, answer: Answer) -> np.ndarray:
        """The smallest ``risk`` at which each row that was answered is not ambiguous, by ``risk_confidence``: (N,).

        NaN for models from files that were written before there was such a verdict.
        """
        if not hasattr(self, "ambiguity_"):
            return np.full(len(answer.probabilities), np.nan)
        return self.ambiguity_.risk(answer.probabilities.max(1), self._rate(), self._risk_confidence())

    def _risk(self) -> float | None:
        """The chosen risk, which the model must be able to judge by."""
        check_risk("risk", self.risk)
        if self.risk is not None and not hasattr(self, "ambiguity_"):
            raise ValueError(
                f"risk must be None for this model, which was saved before models could keep one; got {self.risk!r}: "
                "fit it again"
            )
        return self.risk

    def _risk_confidence(self) -> float | None:
        check_risk("risk_confidence", self.risk_confidence)
        return self.risk_confidence

    def _check_fitted(self) -> None:
        super()._check_fitted()
        self._risk()
        self._risk_confidence()

    def _warn_unless_kept(self, stacklevel: int = 3) -> None:
        """Warn if the rejection rate or the risk cannot be kept."""
        self._warn_unless_calibrated(stacklevel + 1)
        problem = self._risk_problem()
        if problem is not None:
            warnings.warn(problem, CalibrationWarning, stacklevel=stacklevel)

    def _risk_problem(self) -> str | None:
        """Why no row can be answered at the chosen risk."""
        risk = self._risk()
        if risk is None:
            return None
        confidence = self._risk_confidence()
        smallest = self.ambiguity_.smallest_risk(self._rate(), confidence)
        if smallest <= risk:
            return None
        n_familiar = int((self.ambiguity_.p_value > self._rate()).sum())
        promise = f"risk={risk:g}" if confidence is None else f"risk={risk:g} with risk_confidence={confidence:g}"
        weaker = "raise risk" if confidence is None else "raise risk, or lower risk_confidence"
        needed = familiar_rows_needed(risk, confidence)
        if n_familiar < needed:
            return (
                f"{promise} needs at least {needed} familiar rows to calibrate on, and there are {n_familiar}: every "
                f"row is ambiguous; fit more rows, or hold out more of them with calibration_fraction, or {weaker}"
            )
        return (
            f"{promise} is less than the calibration rows allow, of which the surest ones tell of {smallest:.2g}: "
            f"every row is ambiguous; {weaker}, or fit more rows"
        )
