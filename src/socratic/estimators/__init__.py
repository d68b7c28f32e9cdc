"""scikit-learn estimators."""

from socratic.estimators.classifier import CircuitClassifier, Uncertainty
from socratic.estimators.density import CircuitDensity
from socratic.estimators.outlier import CircuitOutlierDetector
from socratic.estimators.storage import load_classifier

__all__ = ["CircuitClassifier", "CircuitDensity", "CircuitOutlierDetector", "Uncertainty", "load_classifier"]
