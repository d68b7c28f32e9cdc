"""What classifiers share, whatever they classify: the prior, dropout and calibration at fit, answers and refusals."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_rate
from socratic.estimators.explaining import ExplainingEstimator
from socratic.estimators.posterior import circuit_posterior
from socratic.estimators.preparation import Parts
from socratic.estimators.rejection import RejectingEstimator
from socratic.inference.posterior import Posterior, class_shares
from socratic.learning.settings import Rows
from socratic.uncertainty.answers import Answer, Uncertainty
from socratic.uncertainty.conformal import Conformal
from socratic.uncertainty.detector import Detector, fit_detector
from socratic.uncertainty.rates import choose_rate
from socratic.uncertainty.scores import Scores, score_rows

_MOST_JUDGED = 1000
"""Held-out rows that decide on the rate of dropout, at most."""


class CircuitClassifierBase(ClassifierMixin, RejectingEstimator, ExplainingEstimator):
    """A classifier around a circuit with a root for each class.

    A subclass trains ``circuit_`` in its ``fit`` and then calls :meth:`_calibrate`; :meth:`_shifts` makes rows of the
    kind that is trained on, which look natural and are not.
    """

    _used_in_answers: ClassVar = ("masks", "leaf_variance", "posterior")

    classes_: np.ndarray
    class_prior_: np.ndarray
    dropout_: float
    detector_: Detector
    n_calibration_: int

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Class probabilities p(class | x): (N, C)."""
        check_is_fitted(self)
        return np.concatenate([self._shares(self._log_joint(x)) for x in self._batches(X)])

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The most probable class of each row: (N,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def answer(self, X: Any) -> Answer:  # noqa: N803
        """Everything the classifier can say of each row, from one evaluation."""
        check_is_fitted(self)
        return Answer.concatenate([self.answer_rows(x) for x in self._batches(X)])

    def answer_rows(self, x: Tensor) -> Answer:
        """The same of rows (N, V) as the circuit reads them."""
        log_joint = self._log_joint(x)
        doubt = self._doubt(x, log_joint)
        doubt = replace(doubt, p_value=self.detector_.p_value(score_rows(doubt)))
        return Answer(self._shares(log_joint), doubt)

    def is_rejected(self, answer: Answer) -> np.ndarray:
        """Which of the rows that were answered are to be refused, at the present ``rejection_rate``: (N,) booleans."""
        return answer.uncertainty.p_value <= self._rate()

    def uncertainty(self, X: Any) -> Uncertainty:  # noqa: N803
        """Everything the classifier can say of its doubt about each row."""
        return self.answer(X).uncertainty

    def reject(self, X: Any) -> np.ndarray:  # noqa: N803
        """Which rows to refuse: (N,) booleans.

        At most ``rejection_rate`` of familiar rows are refused, if the model is ``calibrated_``; if it is not, this
        says so with a ``CalibrationWarning``.
        """
        rejected = self.is_rejected(self.answer(X))
        self._warn_unless_calibrated()
        return rejected

    def predict_or_reject(self, X: Any) -> np.ndarray:  # noqa: N803
        """The labels of :meth:`predict`, with ``rejected_label`` for refused rows."""
        answer = self.answer(X)
        labels = self.classes_[answer.probabilities.argmax(1)].astype(object)
        labels[self.is_rejected(answer)] = self.rejected_label
        self._warn_unless_calibrated()
        return labels

    @abstractmethod
    def _shifts(self, x: Tensor, rng: np.random.Generator) -> Sequence[Tensor]:
        """Synthetic shifts of such rows."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        given = self.leaf_variance
        if self.posterior == "monte-carlo" and any(given.values() if isinstance(given, Mapping) else [given]):
            raise ValueError(
                f"posterior='monte-carlo' samples masks alone, and leaf_variance={given!r} cannot be sampled; use "
                "'expansion', 'log-moments' or 'auto', or set leaf_variance to 0"
            )

    def _check_fitted(self) -> None:
        super()._check_fitted()
        n_classes = self.circuit_.n_classes
        if len(self.classes_) != n_classes or self.class_prior_.shape != (n_classes,):
            raise ValueError("its classes do not fit its circuit")
        check_rate("dropout_", self.dropout_)

    def _encode_classes(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Set ``classes_`` to those of the rows of positive weight, and return the number of each row's class (N,)."""
        used = weight > 0
        self.classes_, numbers = np.unique(y[used], return_inverse=True)
        if len(self.classes_) < 2:
            (label,) = self.classes_.tolist()
            raise ValueError(f"Classifier can't train when only one class is present; got {label!r} alone")
        labels = np.zeros(len(y), dtype=np.int64)
        labels[used] = numbers
        return labels

    def _set_prior(self, train: Rows) -> None:
        """Set ``class_prior_`` to what was asked for, or to the frequencies of the training rows."""
        n_classes = len(self.classes_)
        if self.class_prior is None:
            counts = np.bincount(train.y.cpu().numpy(), train.weight.double().cpu().numpy(), minlength=n_classes)
            self.class_prior_ = counts / counts.sum()
            return
        uniform = isinstance(self.class_prior, str)
        prior = np.full(n_classes, 1.0 / n_classes) if uniform else np.asarray(self.class_prior, dtype=np.float64)
        if prior.shape != (n_classes,) or not (prior >= 0).all() or not abs(prior.sum() - 1.0) <= 1e-6:
            raise ValueError(
                f"class_prior must hold {n_classes} probabilities that sum to 1, in the order of the classes "
                f"{self.classes_.tolist()}; got {self.class_prior!r}"
            )
        self.class_prior_ = prior

    def _calibrate(self, parts: Parts, rng: np.random.Generator) -> None:
        """Choose the dropout rate on held-out rows and fit the detector; with too few rows, on the training rows."""
        self.n_calibration_ = len(parts.calibration)
        held_out = (parts.reference, parts.calibration)
        reference, calibration = held_out if self.n_calibration_ else (parts.train, parts.train)
        self.dropout_ = self._choose_dropout(parts.validation or reference or parts.train)
        self.detector_ = fit_detector(
            self.detector,
            self._scores(reference.x),
            [self._scores(shifted) for shifted in self._shifts(reference.x, rng)],
            self._scores(calibration.x),
            reference.weight.double().cpu().numpy(),
            calibration.weight.double().cpu().numpy(),
        )
        self._remember(calibration)
        self._warn_unless_calibrated(stacklevel=4)

    def _choose_dropout(self, rows: Rows) -> float:
        if not isinstance(self.dropout, str):
            return float(self.dropout)
        rows = rows.take(torch.arange(0, len(rows), -(-len(rows) // _MOST_JUDGED)))
        x = self._read(rows.x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # rates that are too large are tried on purpose
            return choose_rate(
                lambda rate: self._posterior(x, rate).mean.double().cpu().numpy(),
                rows.y.cpu().numpy(),
                rows.weight.double().cpu().numpy(),
            )

    def _scores(self, x: Tensor) -> Scores:
        """Scores of rows of the kind that is trained on."""
        parts = [score_rows(self._doubt(part, self._log_joint(part))) for part in self._read_in_batches(x)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _doubt(self, x: Tensor, log_joint: Tensor) -> Uncertainty:
        """What the circuit says of its doubt, before it is compared with familiar rows."""
        return Uncertainty.of_posterior(self._posterior(x, self.dropout_), self._log_density(x, log_joint))

    def _posterior(self, x: Tensor, dropout: float) -> Posterior:
        randomness = self._randomness(dropout)
        return circuit_posterior(self.posterior, self.circuit_, x, randomness, self.class_prior_.tolist())

    def _shares(self, log_joint: Tensor) -> np.ndarray:
        return class_shares(log_joint, self._log_prior(self.circuit_)).double().cpu().numpy()

    def _log_prior(self, circuit: Circuit | Graph) -> Tensor:
        with np.errstate(divide="ignore"):  # a class may have a prior of 0
            log_prior = np.log(self.class_prior_)
        return torch.as_tensor(log_prior, dtype=circuit.dtype, device=circuit.device)

    def _conformal(self) -> Conformal:
        return self.detector_.calibration
