"""What ``socratic evaluate`` measures, under names that stay the same: what is printed, drawn, and written as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from socratic.cli.refusals import Refusal
from socratic.estimators import Answer
from socratic.estimators.classification import CircuitClassifierBase
from socratic.uncertainty.ambiguity import AMBIGUOUS, FAMILIAR, UNFAMILIAR, VERDICTS
from socratic.uncertainty.metrics import (
    accuracy,
    aupr,
    auroc,
    brier_score,
    class_aurocs,
    confusion_matrix,
    fpr_at_95,
    reliability,
    risk_coverage,
)

ORDERS = ("p_value", "entropy", "probability")
"""Scores by which rows may be answered from the most certain on."""


@dataclass(frozen=True, eq=False)
class Results:
    """The rows of a table as a model sees them, with their classes as numbers if they are known."""

    answer: Answer
    verdict: np.ndarray
    classes: np.ndarray | None
    n_dropped: int
    refusals: Sequence[Refusal]  # empty unless asked for

    @property
    def scores(self) -> dict[str, np.ndarray]:
        """Scores (N,), each higher for rows that are more unusual or less certain."""
        doubt = self.answer.uncertainty
        return {
            "p_value": -doubt.p_value,
            "entropy": doubt.entropy,
            "log_likelihood": -doubt.log_likelihood,
            "probability": -self.answer.probabilities.max(1),
        }

    @property
    def correct(self) -> np.ndarray:
        """Whether each predicted class is the right one (N,)."""
        return self.answer.probabilities.argmax(1) == self.classes


def measure(known: Results, model: CircuitClassifierBase) -> dict[str, Any]:
    """Every measure of rows whose classes are known; None where there are no rows to measure it by."""
    shares, classes = known.answer.probabilities, known.classes
    assert classes is not None
    own = shares[np.arange(len(classes)), classes]
    answered, wrong = known.verdict == FAMILIAR, ~known.correct
    curves = {name: risk_coverage(known.scores[name], known.correct) for name in ORDERS}
    bins = reliability(shares, classes)
    areas = class_aurocs(shares, classes)
    return {
        "rows": len(classes),
        "rows_left_out": known.n_dropped,
        "accuracy": accuracy(shares, classes),
        "log_loss": float(-np.log(np.maximum(own, np.finfo(float).tiny)).mean()),
        "brier_score": brier_score(shares, classes),
        "calibration_error": bins.error,
        "auc": _mean(areas),
        "aurc": {name: curve.area for name, curve in curves.items()},
        "augrc": {name: curve.generalised_area for name, curve in curves.items()},
        "rejection_rate": model.rejection_rate,
        "risk": model.risk,
        "risk_confidence": model.risk_confidence,
        "verdicts": {verdict: float(np.mean(known.verdict == verdict)) for verdict in VERDICTS},
        "coverage": float(answered.mean()),
        "error_answered": _mean(wrong[answered]),
        "classes": _by_class(known, model, areas),
        "confusion_matrix": confusion_matrix(shares, classes).tolist(),
        "reliability": [
            {"confidence": float(confidence), "accuracy": float(right), "rows": int(n_rows)}
            for confidence, right, n_rows in zip(bins.confidence, bins.accuracy, bins.n_rows, strict=True)
        ],
    }


def measure_others(known: Results, unknown: Results) -> dict[str, Any]:
    """How well rows from elsewhere are told apart."""
    measures = {"auroc": auroc, "aupr": aupr, "fpr95": fpr_at_95}
    return {
        "rows": len(unknown.verdict),
        "verdicts": {verdict: float(np.mean(unknown.verdict == verdict)) for verdict in VERDICTS},
        "scores": {
            name: {kind: of(known.scores[name], scores) for kind, of in measures.items()}
            for name, scores in unknown.scores.items()
        },
    }


def _by_class(known: Results, model: CircuitClassifierBase, areas: np.ndarray) -> list[dict[str, Any]]:
    """The same of the rows of each class."""
    assert known.classes is not None
    found = []
    for number, label in enumerate(model.classes_.tolist()):
        own = known.classes == number
        answered = own & (known.verdict == FAMILIAR)
        found.append(
            {
                "class": label,
                "rows": int(own.sum()),
                "recall": _mean(known.correct[own]),
                "auc": _mean(areas[[number]]),
                UNFAMILIAR: _mean(known.verdict[own] == UNFAMILIAR),
                AMBIGUOUS: _mean(known.verdict[own] == AMBIGUOUS),
                "error_answered": _mean(~known.correct[answered]),
            }
        )
    return found


def _mean(values: np.ndarray) -> float | None:
    """The mean of those that are numbers, if any are."""
    numbers = values[~np.isnan(values.astype(np.float64))]
    mean = float(numbers.mean()) if len(numbers) else math.nan
    return None if math.isnan(mean) else mean
