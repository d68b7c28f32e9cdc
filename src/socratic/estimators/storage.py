"""Model files of classifiers: the circuit's parameters and the calibration as tensors, the rest as JSON."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from socratic.circuit.graph import Graph
from socratic.circuit.graph_parts import graph_parts
from socratic.circuit.storage import read_tensors, restore_circuit, restore_graph, write_tensors
from socratic.errors import ModelFileError, check_choice, check_count, check_rate
from socratic.estimators.classifier import CircuitClassifier
from socratic.estimators.posterior import POSTERIORS
from socratic.families import Family
from socratic.inference.dropout import MASK_KINDS
from socratic.learning.settings import Epoch, History
from socratic.tables.columns import Table
from socratic.uncertainty.detector import Detector

FORMAT = "socratic.classifier"
VERSION = 1
_FITTED = ("dropout_", "n_calibration_", "n_iter_", "n_features_in_")


def save_classifier(model: CircuitClassifier, path: str | Path) -> None:
    """Write a fitted classifier to ``path``, completely or not at all."""
    arrays, detector = model.detector_.to_state()
    circuit = model.circuit_
    if isinstance(circuit, Graph):
        kind, (parts, structure) = "graph", graph_parts(circuit)
    else:
        kind, (parts, structure) = "circuit", (circuit.state_dict(), circuit.to_config())
    tensors = {f"circuit/{name}": tensor for name, tensor in parts.items()}
    tensors |= {f"detector/{name}": torch.as_tensor(np.asarray(array)) for name, array in arrays.items()}
    tensors["class_prior"] = torch.as_tensor(model.class_prior_)
    config: dict[str, Any] = {
        kind: structure,
        "table": model.table_.to_list(),
        "detector": detector,
        "classes": model.classes_.tolist(),
        "classes_kind": model.classes_.dtype.str if model.classes_.dtype.kind != "O" else "O",
        "feature_names": list(getattr(model, "feature_names_in_", [])),
        "parameters": _plain_parameters(model),
        "fitted": {name: getattr(model, name) for name in _FITTED},
        "history": {"epochs": [list(epoch) for epoch in model.history_.epochs], "best": model.history_.best},
    }
    write_tensors(Path(path), FORMAT, VERSION, tensors, config)


def load_classifier(path: str | Path, *, device: str = "cpu") -> CircuitClassifier:
    """Read a classifier that :meth:`CircuitClassifier.save` wrote.

    Raises
    ------
    ModelFileError
        If the file is damaged, is no classifier, or has another format version.
    """
    source = Path(path)
    tensors, config = read_tensors(source, FORMAT, VERSION)

    def under(prefix: str) -> dict[str, torch.Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

    try:
        model = CircuitClassifier(**config["parameters"])
        restore, part = (restore_graph, "graph") if "graph" in config else (restore_circuit, "circuit")
        model.circuit_ = restore(source, config[part], under("circuit/")).to(device)
        model.table_ = Table.from_list(config["table"])
        model.detector_ = Detector.from_state(
            {name: tensor.numpy() for name, tensor in under("detector/").items()}, config["detector"]
        )
        model.class_prior_ = tensors["class_prior"].numpy()
        kind = config["classes_kind"]
        model.classes_ = np.array(config["classes"], dtype=object if kind == "O" else np.dtype(kind))
        fitted = config["fitted"]
        if "calibrated_" in fitted:  # as files said it before they held the number of rows
            fitted["n_calibration_"] = len(model.detector_.calibration.scores) if fitted["calibrated_"] else 0
        for name in _FITTED:
            setattr(model, name, fitted[name])
        epochs = tuple(Epoch(*row) for row in config["history"]["epochs"])
        model.history_ = History(epochs, config["history"]["best"])
        if config["feature_names"]:
            model.feature_names_in_ = np.array([str(name) for name in config["feature_names"]], dtype=object)
        _check_fit(model)
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ModelFileError(f"{source} is damaged: it does not describe a classifier ({error})") from error
    return model


def _check_fit(model: CircuitClassifier) -> None:
    """Raise ``ValueError`` unless the parts of a classifier fit together."""
    n_classes, n_features = model.circuit_.n_classes, model.circuit_.n_features
    if len(model.classes_) != n_classes or model.class_prior_.shape != (n_classes,):
        raise ValueError("its classes do not fit its circuit")
    names = getattr(model, "feature_names_in_", model.table_.columns)
    if not n_features == len(model.table_.columns) == len(names) == model.n_features_in_:
        raise ValueError("its columns do not fit its circuit")
    for column in model.table_.columns:
        if not (math.isfinite(column.mean) and 0.0 < column.scale < math.inf):
            raise ValueError(f"the column {column.name!r} has no scale")
    check_rate("dropout_", model.dropout_)
    check_rate("rejection_rate", model.rejection_rate)
    check_count("n_calibration_", model.n_calibration_, minimum=0)
    check_choice("masks", model.masks, MASK_KINDS)
    check_choice("posterior", model.posterior, POSTERIORS)


def _plain_parameters(model: CircuitClassifier) -> dict[str, Any]:
    """Constructor arguments that JSON can hold; the others take their defaults when the model is read."""
    plain = {}
    for name in inspect.signature(CircuitClassifier).parameters:
        value = getattr(model, name)
        value = _plain(value)
        if value is None or isinstance(value, (bool, int, float, str, list, tuple, dict)):
            plain[name] = value
    return plain


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's and families as dictionaries, also in lists, tuples and dictionaries."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Family):
        return value.to_dict()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value
