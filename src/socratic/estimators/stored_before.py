"""Model files written when only classifiers could be saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from socratic.errors import ModelFileError

FORMAT_BEFORE = "socratic.classifier"
VERSION_BEFORE = 1

_NAMES = {("structure", "auto"): "random", ("posterior", "log-moments"): "auto"}
"""Arguments that meant what another name says today."""


def upgraded(
    path: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and configuration of such a file, as they are stored today."""
    moved = {"class_prior": "class_prior_/values"}
    for name in tensors:
        part, _, rest = name.partition("/")
        if part in ("circuit", "detector"):
            moved[name] = f"{part}_/{rest}"
    try:
        kind = "graph" if "graph" in config else "circuit"
        facts = config["fitted"]
        fitted = {
            "circuit_": {"kind": kind, "config": config[kind]},
            "table_": config["table"],
            "detector_": config["detector"],
            "classes_": {"labels": config["classes"], "kind": config["classes_kind"]},
            "class_prior_": None,
            "history_": config["history"],
            "n_calibration_": len(tensors["detector/calibration.scores"]) if facts["calibrated_"] else 0,
            **{name: facts[name] for name in ("dropout_", "n_iter_", "n_features_in_")},
        }
        if config["feature_names"]:
            fitted["feature_names_in_"] = config["feature_names"]
        parameters = {name: _renamed(name, value) for name, value in config["parameters"].items()}
        renamed = {moved[name]: tensor for name, tensor in tensors.items()}
    except (AttributeError, LookupError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged: it does not describe a classifier ({error})") from error
    return renamed, {"estimator": "CircuitClassifier", "parameters": parameters, "fitted": fitted}


def _renamed(name: str, value: Any) -> Any:
    return _NAMES.get((name, value), value) if isinstance(value, str) else value
