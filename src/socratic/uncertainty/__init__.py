"""Uncertainty: measures of how well it tells known from unknown, and right from wrong."""

from socratic.uncertainty.metrics import (
    Reliability,
    RiskCoverage,
    accuracy,
    aupr,
    auroc,
    brier_score,
    class_aurocs,
    confusion_matrix,
    expected_calibration_error,
    fpr_at_95,
    reliability,
    risk_coverage,
)

__all__ = [
    "Reliability",
    "RiskCoverage",
    "accuracy",
    "aupr",
    "auroc",
    "brier_score",
    "class_aurocs",
    "confusion_matrix",
    "expected_calibration_error",
    "fpr_at_95",
    "reliability",
    "risk_coverage",
]
