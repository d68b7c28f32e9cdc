"""Model files of estimators: what ``fit`` set, part by part, as tensors and JSON; arguments as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.forest import Forest
from socratic.circuit.graph import Graph
from socratic.circuit.storage import circuit_parts, restore
from socratic.errors import check_choice, check_count
from socratic.estimators.base import SocraticEstimator
from socratic.estimators.classifier import CircuitClassifier
from socratic.estimators.committee import Committee
from socratic.estimators.density import CircuitDensity
from socratic.estimators.guard import CircuitGuard
from socratic.estimators.image_building import ImageSizes
from socratic.estimators.image_classifier import CircuitImageClassifier
from socratic.estimators.image_density import CircuitImageDensity
from socratic.estimators.outlier import CircuitOutlierDetector
from socratic.families import Family, as_family
from socratic.images import PixelEncoder
from socratic.inference.weight_posterior import WeightPosterior
from socratic.learning.settings import Epoch, History
from socratic.model_files import ModelFile, building, write_tensors
from socratic.tables.columns import Table
from socratic.uncertainty.ambiguity import Ambiguity
from socratic.uncertainty.by_class import ClassConformal
from socratic.uncertainty.conformal import Conformal
from socratic.uncertainty.detector import Detector
from socratic.uncertainty.expected import ExpectedScores
from socratic.uncertainty.levels import Levels
from socratic.uncertainty.profile import Profile
from socratic.uncertainty.reasons import FamiliarSurprises

FORMAT = "socratic.estimator"
VERSION = 1
ESTIMATORS: dict[str, type[SocraticEstimator]] = {
    estimator.__name__: estimator
    for estimator in (
        CircuitClassifier,
        CircuitDensity,
        CircuitGuard,
        CircuitImageClassifier,
        CircuitImageDensity,
        CircuitOutlierDetector,
    )
}
"""The estimators that can be in a file."""

_TEXT, _TIMES, _NUMBERS = ("O", "U"), "mM", "biuf"
"""Kinds of labels, as NumPy calls them: stored without a size, as numbers, and as they are."""
_MOST_TEXT, _MOST_UNFOLDED = 2**24, 64
"""Characters in an array of labels, and how many times as many as the labels have, whichever is more."""

Tensors = Mapping[str, Tensor]
State = tuple[Tensors, Any]
"""Tensors by name, and what JSON can hold."""


class Part(NamedTuple):
    """How a fitted attribute is written, and read from what was written, on a device."""

    write: Callable[[Any], State]
    read: Callable[[Tensors, Any, torch.device | str], Any]


def save_estimator(model: SocraticEstimator, path: str | Path) -> None:
    """Write a fitted estimator to ``path``, completely or not at all."""
    write_tensors(Path(path), FORMAT, VERSION, *_write_estimator(model))


def load_estimator(file: ModelFile, device: torch.device | str) -> SocraticEstimator:
    """The estimator in a file; a guard comes without its model."""
    tensors, config = file.content(FORMAT, VERSION)
    name = config.get("estimator")
    with building(file.source, f"a {name}" if isinstance(name, str) and name in ESTIMATORS else "an estimator"):
        return _read_estimator(tensors, config, device)


def _write_estimator(model: SocraticEstimator) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors: dict[str, Tensor] = {}
    fitted = {}
    for name, value in sorted(model._stored().items()):
        some, fitted[name] = PARTS[name].write(value)
        tensors |= {f"{name}/{key}": tensor for key, tensor in some.items()}
    return tensors, {"estimator": type(model).__name__, "parameters": _plain_parameters(model), "fitted": fitted}


def _read_estimator(tensors: Tensors, config: Any, device: torch.device | str) -> SocraticEstimator:
    model = _unfitted(config)
    for name, state in config["fitted"].items():
        setattr(model, name, PARTS[name].read(_below(tensors, f"{name}/"), state, device))
    model._restore()
    model._check_fitted()
    return model


def _write_folds(folds: Sequence[SocraticEstimator]) -> State:
    parts = [_write_estimator(fold) for fold in folds]
    tensors = {f"{number}/{key}": part for number, (some, _) in enumerate(parts) for key, part in some.items()}
    return tensors, [_without_risk(config) for _, config in parts]


def _read_folds(tensors: Tensors, configs: Any, device: torch.device | str) -> tuple[SocraticEstimator, ...]:
    parts = [(_below(tensors, f"{number}/"), config) for number, config in enumerate(configs)]
    return tuple(_read_estimator(some, _without_risk(config), device) for some, config in parts)


def _without_risk(config: dict[str, Any]) -> dict[str, Any]:
    """A fold as it is stored: which risk is taken is for the whole to say, as folds count no errors of their own."""
    return {**config, "parameters": {name: value for name, value in config["parameters"].items() if name != "risk"}}


def _plain_parameters(model: SocraticEstimator) -> dict[str, Any]:
    """Constructor arguments that JSON can hold; the others take their defaults when the model is read.

    The model of a guard is never stored.
    """
    plain = {name: _plain(value) for name, value in model.get_params(deep=False).items() if name != "model"}
    kinds = (bool, int, float, str, list, dict)
    return {name: value for name, value in plain.items() if value is None or isinstance(value, kinds)}


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's, families and estimators as dictionaries; also what is in containers."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Family):
        return value.to_dict()
    if isinstance(value, SocraticEstimator):
        return {"estimator": type(value).__name__, "parameters": _plain_parameters(value)}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def _unfitted(config: Mapping[str, Any]) -> SocraticEstimator:
    """An estimator from its name and :func:`_plain_parameters`."""
    check_choice("its estimator", config["estimator"], ESTIMATORS)
    estimator = ESTIMATORS[config["estimator"]]
    parameters = dict(config["parameters"])
    if parameters.get("leaf") is not None:
        leaves = parameters["leaf"].items()
        parameters["leaf"] = {name: leaf if isinstance(leaf, str) else as_family(leaf) for name, leaf in leaves}
    if parameters.get("density") is not None:
        parameters["density"] = _unfitted(parameters["density"])
    return estimator(None, **parameters) if estimator is CircuitGuard else estimator(**parameters)


def _write_circuit(circuit: Any) -> State:
    kind, tensors, config = circuit_parts(circuit)
    return tensors, {"kind": kind, "config": config}


def _read_circuit(tensors: Tensors, state: Any) -> Circuit | Graph:
    return restore(state["kind"], state["config"], tensors)


def _write_committee(committee: Committee) -> State:
    tensors: dict[str, Tensor] = {}
    states = []
    for number, (circuit, posterior) in enumerate(zip(committee.circuits, committee.weight_posteriors, strict=True)):
        members = {"circuit": _write_circuit(circuit), "weights": posterior.parts()}
        tensors |= {f"{number}/{name}/{key}": part for name, (some, _) in members.items() for key, part in some.items()}
        states.append({name: state for name, (_, state) in members.items()})
    return tensors, states


def _read_committee(tensors: Tensors, states: Any, device: torch.device | str) -> Committee:
    circuits, posteriors = [], []
    for number, state in enumerate(states):
        circuits.append(_read_circuit(_below(tensors, f"{number}/circuit/"), state["circuit"]).to(device))
        found = WeightPosterior.from_parts(_below(tensors, f"{number}/weights/"), state["weights"])
        posteriors.append(found.to(device))
    return Committee(tuple(circuits), tuple(posteriors))


def _below(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, by the rest of their names."""
    return {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}


def _write_encoder(encoder: PixelEncoder) -> State:
    return {"mean": encoder.mean, "scale": encoder.scale}, {"levels": encoder.levels, "shape": list(encoder.shape)}


def _read_encoder(tensors: Tensors, state: Any, device: torch.device | str) -> PixelEncoder:
    height, width, channels = state["shape"]
    encoder = PixelEncoder(state["levels"], (height, width, channels), tensors["mean"], tensors["scale"])
    encoder.check()
    return encoder.to(torch.device(device))


def _write_classes(classes: np.ndarray) -> State:
    kind = classes.dtype.kind if classes.dtype.kind in _TEXT else classes.dtype.str
    labels = classes.view(np.int64) if classes.dtype.kind in _TIMES else classes
    return {}, {"labels": labels.tolist(), "kind": kind}


def _read_classes(_: Tensors, state: Any, __: torch.device | str) -> np.ndarray:
    labels, kind = state["labels"], np.dtype(state["kind"])
    if state["kind"] not in _TEXT and (kind.kind not in _NUMBERS + _TIMES or kind.itemsize > 8):
        raise ValueError(f"its classes are of the type {state['kind']!r}")
    if kind.kind == "U":
        # An array of text has room for the longest in each place.
        longest = max(map(len, labels))
        if len(labels) * longest > max(_MOST_TEXT, _MOST_UNFOLDED * sum(map(len, labels))):
            raise ValueError(f"one of its {len(labels)} classes has a name of {longest} characters")
    stored = np.array(labels, dtype=np.int64 if kind.kind in _TIMES else kind)
    if stored.ndim != 1 or stored.tolist() != labels or len(set(labels)) < len(labels):
        raise ValueError(f"its classes are no different values of the type {state['kind']!r}")
    return stored.view(kind) if kind.kind in _TIMES else stored


def _read_history(_: Tensors, state: Any, __: torch.device | str) -> History:
    epochs = (Epoch(check_count("an epoch", number, 0), *map(float, losses)) for number, *losses in state["epochs"])
    return History(tuple(epochs), state["best"])


def _of_arrays(state: tuple[Mapping[str, np.ndarray], Any]) -> State:
    arrays, config = state
    return {name: torch.as_tensor(np.asarray(array)) for name, array in arrays.items()}, config


def _arrays(tensors: Tensors) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


_PLAIN = Part(lambda value: ({}, _plain(value)), lambda _, state, __: state)

PARTS: dict[str, Part] = {
    "circuit_": Part(_write_circuit, lambda tensors, state, device: _read_circuit(tensors, state).to(device)),
    "table_": Part(lambda table: ({}, table.to_list()), lambda _, state, __: Table.from_list(state)),
    "encoder_": Part(_write_encoder, _read_encoder),
    "sizes_": Part(lambda sizes: ({}, asdict(sizes)), lambda _, state, __: ImageSizes(**state)),
    "image_shape_": Part(lambda shape: ({}, list(shape)), lambda _, state, __: tuple(state)),
    "detector_": Part(
        lambda detector: _of_arrays(detector.to_state()),
        lambda tensors, state, _: Detector.from_state(_arrays(tensors), state),
    ),
    "conformal_": Part(
        lambda conformal: _of_arrays((conformal.to_arrays(), None)),
        lambda tensors, _, __: Conformal.from_arrays(_arrays(tensors)),
    ),
    "class_conformal_": Part(
        lambda conformal: _of_arrays((conformal.to_arrays(), None)),
        lambda tensors, _, __: ClassConformal.from_arrays(_arrays(tensors)),
    ),
    "ambiguity_": Part(
        lambda ambiguity: _of_arrays((asdict(ambiguity), None)),
        lambda tensors, _, __: Ambiguity.fit(**{each.name: tensors[each.name].numpy() for each in fields(Ambiguity)}),
    ),
    "density_": Part(_write_estimator, _read_estimator),
    "forest_": Part(
        lambda forest: _of_arrays(forest.parts()), lambda tensors, state, _: Forest.from_parts(_arrays(tensors), state)
    ),
    "folds_": Part(_write_folds, _read_folds),
    "divided_": Part(
        lambda circuit: ({}, None) if circuit is None else _write_circuit(circuit),
        lambda tensors, state, device: None if state is None else _read_circuit(tensors, state).to(device),
    ),
    "committee_": Part(_write_committee, _read_committee),
    "weight_posterior_": Part(
        lambda posterior: posterior.parts(),
        lambda tensors, state, device: WeightPosterior.from_parts(tensors, state).to(device),
    ),
    **dict.fromkeys(
        ("profile_", "class_profile_"),
        Part(
            lambda profile: _of_arrays(profile.to_state()),
            lambda tensors, state, _: Profile.from_state(_arrays(tensors), state),
        ),
    ),
    "expected_": Part(
        lambda expected: _of_arrays(expected.to_state()),
        lambda tensors, state, _: ExpectedScores.from_state(_arrays(tensors), state),
    ),
    "levels_": Part(
        lambda levels: _of_arrays((levels.to_arrays(), None)),
        lambda tensors, _, __: Levels.from_arrays(_arrays(tensors)),
    ),
    "familiar_": Part(
        lambda familiar: _of_arrays((familiar.to_arrays(), None)),
        lambda tensors, _, __: FamiliarSurprises.from_arrays(_arrays(tensors)),
    ),
    "classes_": Part(_write_classes, _read_classes),
    "class_prior_": Part(
        lambda prior: _of_arrays(({"values": prior}, None)), lambda tensors, _, __: tensors["values"].numpy()
    ),
    "history_": Part(
        lambda history: ({}, {"epochs": [list(epoch) for epoch in history.epochs], "best": history.best}), _read_history
    ),
    "feature_names_in_": Part(
        lambda names: ({}, list(names)), lambda _, state, __: np.array([str(name) for name in state], dtype=object)
    ),
    **dict.fromkeys(
        ("structure_", "structure_reason_", "doubt_", "dropout_", "n_calibration_", "n_iter_", "n_features_in_"), _PLAIN
    ),
}
"""How each fitted attribute is stored, by its name."""
