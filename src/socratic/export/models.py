"""Which exported program a model has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.estimators.base import CircuitEstimator
from socratic.estimators.classification import CircuitClassifierBase
from socratic.estimators.outlier import CircuitOutlierDetector
from socratic.export.circuits import ExportedCircuit
from socratic.export.classifiers import ExportedClassifier
from socratic.export.densities import ExportedDensity, ExportedDetector
from socratic.export.outputs import Exported
from socratic.inference.doubt import Doubt


def exported(model: Any, class_prior: Sequence[float] | Tensor | None = None, doubt: Doubt | None = None) -> Exported:
    """What a model computes, ready to be recorded; arguments as for :func:`~socratic.export.export_program`."""
    device = getattr(getattr(model, "circuit_", model), "device", None)
    if isinstance(device, torch.device) and device.type != "cpu":
        raise ValueError(f"models are exported from the CPU, and this one is on {device}: load it with device='cpu'")
    if isinstance(model, Circuit | Graph):
        return ExportedCircuit(model, class_prior, doubt)
    for name, given in (("class_prior", class_prior), ("doubt", doubt)):
        if given is not None:
            raise ValueError(f"{name} is for circuits and graphs; a fitted {type(model).__name__} has its own")
    if isinstance(model, CircuitEstimator):
        check_is_fitted(model)
    if isinstance(model, CircuitClassifierBase):
        return ExportedClassifier(model)
    if isinstance(model, CircuitOutlierDetector):
        return ExportedDetector(model)
    if isinstance(model, CircuitEstimator):
        return ExportedDensity(model)
    raise ValueError(
        "model must be a circuit, a graph, or a fitted classifier, density or outlier detector; "
        f"got a {type(model).__name__}"
    )
