"""Circuits and graphs in model files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.graph_parts import graph_from_parts, graph_parts
from socratic.model_files import ModelFile, building, write_tensors

FORMATS = {"socratic.circuit": "circuit", "socratic.graph": "graph"}
"""The formats that :func:`load_circuit` reads, and the kinds of circuit that they hold."""
VERSION = 1

Shapes = dict[str, tuple[int, ...]]


def save(model: Circuit | Graph, path: str | os.PathLike[str]) -> None:
    """Write a circuit or graph to ``path``, completely or not at all."""
    kind, tensors, config = circuit_parts(model)
    write_tensors(Path(path), f"socratic.{kind}", VERSION, tensors, config)


def load_circuit(file: ModelFile, device: str | torch.device) -> Circuit | Graph:
    """The circuit or graph in a file of one of ``FORMATS``."""
    tensors, config = file.content(file.kind, VERSION)
    with building(file.source, f"a {FORMATS[file.kind]}"):
        return restore(FORMATS[file.kind], config, tensors).to(device)


def circuit_parts(model: Circuit | Graph) -> tuple[str, dict[str, Tensor], dict[str, Any]]:
    """The kind of a circuit, "circuit" or "graph", its tensors, and the rest as JSON can hold it."""
    if not _are_numbers(model.state_dict(), certain=isinstance(model, Graph)):
        raise ValueError("the circuit has parameters that are NaN or infinite, and cannot be saved")
    if isinstance(model, Graph):
        return "graph", *graph_parts(model)
    return "circuit", model.state_dict(), model.to_config()


def restore(kind: str, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> Circuit | Graph:
    """Build the circuit of :func:`circuit_parts`, with checks of all that it is built from."""
    if kind == "graph":
        return graph_from_parts(tensors, config)
    # On the meta device parameters take no memory: a forged size cannot exhaust it before the check.
    with torch.device("meta"):
        circuit = Circuit.from_config(config)
    expected = {name: tuple(tensor.shape) for name, tensor in circuit.state_dict().items()}
    _check_shapes(expected, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    kinds = {tensor.dtype for tensor in tensors.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        raise ValueError(f"its parameters are of the types {sorted(map(str, kinds))}")
    if not _are_numbers(tensors):
        raise ValueError("its parameters are NaN or infinite")
    circuit.load_state_dict(dict(tensors), assign=True)
    return circuit


def _are_numbers(parameters: Mapping[str, Tensor], *, certain: bool = False) -> bool:
    """Whether none is NaN or infinite, but for logarithms of a weight of 0 and, in graphs, logits of certain leaves."""
    return all(
        bool(((part <= torch.inf) if certain and name.endswith(".logit") else (part < torch.inf)).all())
        for name, part in parameters.items()
    )


def _check_shapes(expected: Shapes, found: Shapes) -> None:
    if expected.keys() != found.keys():
        wrong = sorted(expected.keys() ^ found.keys())[0]
        state = "missing" if wrong in expected else "unknown"
        raise ValueError(f"the parameter {wrong!r} is {state}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise ValueError(f"{name!r} has the shape {found[name]}, expected {shape}")
