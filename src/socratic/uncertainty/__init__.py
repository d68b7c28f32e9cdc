"""Uncertainty: measures of how well it tells known from unknown, and right from wrong."""

from socratic.uncertainty.metrics import (
    RiskCoverage,
    accuracy,
    aupr,
    auroc,
    brier_score,
    expected_calibration_error,
    fpr_at_95,
    risk_coverage,
)

__all__ = [
    "RiskCoverage",
    "accuracy",
    "aupr",
    "auroc",
    "brier_score",
    "expected_calibration_error",
    "fpr_at_95",
    "risk_coverage",
]
