"""scikit-learn estimators."""

from socratic.estimators.classifier import CircuitClassifier
from socratic.estimators.density import CircuitDensity
from socratic.estimators.guard import CircuitGuard
from socratic.estimators.image_classifier import CircuitImageClassifier
from socratic.estimators.image_density import CircuitImageDensity
from socratic.estimators.image_reasons import ImageReasons
from socratic.estimators.monitoring import DriftMonitor
from socratic.estimators.outlier import CircuitOutlierDetector
from socratic.uncertainty.answers import Answer, DensityUncertainty, Uncertainty
from socratic.uncertainty.drift import ColumnDrift, DriftReport
from socratic.uncertainty.reasons import Reason, Reasons

__all__ = [
    "Answer",
    "CircuitClassifier",
    "CircuitDensity",
    "CircuitGuard",
    "CircuitImageClassifier",
    "CircuitImageDensity",
    "CircuitOutlierDetector",
    "ColumnDrift",
    "DensityUncertainty",
    "DriftMonitor",
    "DriftReport",
    "ImageReasons",
    "Reason",
    "Reasons",
    "Uncertainty",
]
