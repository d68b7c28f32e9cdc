"""What is measured of an answer: figures, curves and histograms that a record can hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from socratic.uncertainty import aupr, auroc, fpr_at_95, risk_coverage
from socratic_experiments.methods import Answer

N_THRESHOLDS, N_BINS = 101, 40
_MAX_STD = 0.5  # no variable in [0, 1] has a larger one


def accuracy_of(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Share of rows (N, C) whose most probable class is the label."""
    return float(np.mean(probabilities.argmax(1) == labels))


def describe(answer: Answer, labels: np.ndarray | None) -> dict[str, Any]:
    """Means over rows: accuracy (with labels), entropy, deviation, share rejected; None where a method has none.

    With labels also ``aurc`` and ``augrc``: how well the score tells right answers from errors.
    """
    probabilities, doubt, std = answer.probabilities, answer.entropy, answer.std
    right = None if probabilities is None or labels is None else probabilities.argmax(1) == labels
    curve = None if right is None else risk_coverage(answer.score, right)
    return {
        "n": len(answer.score),
        "accuracy": None if right is None else float(right.mean()),
        "aurc": None if curve is None else curve.area,
        "augrc": None if curve is None else curve.generalised_area,
        "entropy": None if doubt is None else float(doubt.mean()),
        "std": None if std is None else float(std.mean()),
        "rejected": None if answer.rejected is None else float(answer.rejected.mean()),
    }


def distribution(answer: Answer, n_classes: int) -> dict[str, Any]:
    """How entropy and deviation are spread.

    ``flagged``: the share of rows above each of ``N_THRESHOLDS`` entropies from 0 to log C. ``paper_auc``: the area
    under that curve in percent of the largest, the AUC of the TDI paper's Table 1.
    """
    if answer.entropy is None or answer.std is None:
        return dict.fromkeys(("max_entropy", "flagged", "entropy_counts", "std_counts", "paper_auc"))
    limit = math.log(n_classes)
    doubt = np.sort(np.clip(answer.entropy, 0.0, limit))
    above = len(doubt) - np.searchsorted(doubt, np.linspace(0.0, limit, N_THRESHOLDS), side="right")
    return {
        "max_entropy": limit,
        "flagged": (above / len(doubt)).tolist(),
        "entropy_counts": _histogram(doubt, limit),
        "std_counts": _histogram(np.clip(answer.std, 0.0, _MAX_STD), _MAX_STD),
        "paper_auc": 100.0 * float(doubt.mean()) / limit,
    }


def separation(known: np.ndarray, unknown: np.ndarray) -> dict[str, float]:
    """How well scores (N,) of known and (M,) of unknown rows are told apart."""
    return {
        "auroc": auroc(known, unknown),
        "aupr": aupr(known, unknown),
        "fpr95": fpr_at_95(known, unknown),
        "detected_at_5": flagged_share(known, unknown),
    }


def flagged_share(known: np.ndarray, scores: np.ndarray) -> float:
    """Share of scores above 95 % of the known ones."""
    return float(np.mean(scores > np.quantile(known, 0.95, method="higher")))


def _histogram(values: np.ndarray, limit: float) -> list[float]:
    counts, _ = np.histogram(values, N_BINS, (0.0, limit))
    return (counts / max(1, len(values))).tolist()
