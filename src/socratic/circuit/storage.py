"""Model files: parameters as safetensors, everything else as JSON in the file's metadata.

Nothing is ever unpickled, and a file is checked in full before a circuit is returned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.graph_parts import graph_from_parts, graph_parts
from socratic.errors import ModelFileError
from socratic.files import replacing

ENTRY = "socratic"
"""The name of the metadata entry that holds everything but the tensors."""
FORMAT = "socratic.circuit"
GRAPH_FORMAT = "socratic.graph"
FORMATS = (FORMAT, GRAPH_FORMAT)
"""The formats that :func:`load_circuit` reads."""
VERSION = 1


def write_tensors(path: Path, kind: str, version: int, tensors: Mapping[str, Tensor], config: object) -> None:
    """Write tensors and a JSON configuration to ``path``, completely or not at all."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file to write to")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    plain = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    # One entry: safetensors writes several in random order, and equal models should be equal files.
    metadata = {ENTRY: json.dumps({"format": kind, "version": version, "config": config})}
    with replacing(path) as draft:
        draft.write_bytes(to_bytes(plain, metadata))


def read_config(path: Path, kind: str, version: int) -> dict[str, Any]:
    """The configuration in a file that :func:`write_tensors` wrote, with checks that say what is wrong."""
    with _opened(path) as file:
        return _config_of(path, file.metadata() or {}, kind, version)


def read_tensors(path: Path, kind: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and configuration of a file that :func:`write_tensors` wrote."""
    with _opened(path) as file:
        config = _config_of(path, file.metadata() or {}, kind, version)
        return {name: _own(file.get_tensor(name)) for name in file.keys()}, config  # noqa: SIM118 - no iterator


def read_format(path: Path) -> str:
    """What a file says that it holds."""
    with _opened(path) as file:
        return str(_header(path, file.metadata() or {})["format"])


def save(model: Circuit | Graph, path: str | os.PathLike[str]) -> None:
    """Write a circuit or graph to ``path``, completely or not at all."""
    kind, tensors, config = circuit_parts(model)
    write_tensors(Path(path), f"socratic.{kind}", VERSION, tensors, config)


def load_circuit(source: Path, kind: str, device: str | torch.device) -> Circuit | Graph:
    """Read a circuit or graph from a file of one of ``FORMATS``."""
    if kind == GRAPH_FORMAT:
        tensors, config = read_tensors(source, GRAPH_FORMAT, VERSION)
        return restore_graph(source, config, tensors).to(device)
    with _opened(source) as file:
        circuit = _empty_circuit(source, _config_of(source, file.metadata() or {}, FORMAT, VERSION))
        expected = {name: tuple(tensor.shape) for name, tensor in circuit.state_dict().items()}
        names = list(file.keys())
        # Shapes are compared before anything is read.
        _check_shapes(source, expected, {name: tuple(file.get_slice(name).get_shape()) for name in names})
        tensors = {name: _own(file.get_tensor(name)) for name in names}
    return fill_circuit(source, circuit, tensors).to(device)


def circuit_parts(model: Circuit | Graph) -> tuple[str, dict[str, Tensor], dict[str, Any]]:
    """The kind of a circuit, "circuit" or "graph", its tensors, and the rest as JSON can hold it."""
    if isinstance(model, Graph):
        return "graph", *graph_parts(model)
    return "circuit", model.state_dict(), model.to_config()


def restore(source: Path, kind: str, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> Circuit | Graph:
    """Build the circuit of :func:`circuit_parts`; ``source`` is for messages."""
    if kind == "graph":
        return restore_graph(source, config, tensors)
    return restore_circuit(source, config, tensors)


def restore_graph(source: Path, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> Graph:
    """Build the graph of :func:`~socratic.circuit.graph_parts.graph_parts`."""
    try:
        return graph_from_parts(tensors, config)
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ModelFileError(f"{source} is damaged: it does not describe a graph ({error})") from error


def restore_circuit(source: Path, config: dict[str, Any], tensors: Mapping[str, Tensor]) -> Circuit:
    """Build the circuit of a configuration and give it these parameters."""
    circuit = _empty_circuit(source, config)
    expected = {name: tuple(tensor.shape) for name, tensor in circuit.state_dict().items()}
    _check_shapes(source, expected, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    return fill_circuit(source, circuit, tensors)


def fill_circuit(source: Path, circuit: Circuit, tensors: Mapping[str, Tensor]) -> Circuit:
    """Give a circuit without memory its parameters, which must be of one floating-point type."""
    kinds = {tensor.dtype for tensor in tensors.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        raise ModelFileError(f"{source} is damaged: its parameters are of the types {sorted(map(str, kinds))}")
    circuit.load_state_dict(dict(tensors), assign=True)
    return circuit


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise FileNotFoundError(f"no model file at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ModelFileError(f"{path} is damaged or no model file ({error}); save the model again") from error


def _header(source: Path, metadata: dict[str, str]) -> dict[str, Any]:
    """What :func:`write_tensors` put beside the tensors: format, version and configuration."""
    if ENTRY not in metadata:
        raise ModelFileError(f"{source} is a safetensors file, but no model: socratic did not write it")
    try:
        header = json.loads(metadata[ENTRY])
        return {name: header[name] for name in ("format", "version", "config")}
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{source} is damaged: its configuration is not readable ({error})") from error


def _config_of(source: Path, metadata: dict[str, str], kind: str, version: int) -> dict[str, Any]:
    found, found_version, config = _header(source, metadata).values()
    if found != kind:
        raise ModelFileError(f"{source} is no {kind}: it is a {found}")
    if found_version != version:
        raise ModelFileError(
            f"{source} has format version {found_version!r}; this version of socratic reads {version!r}"
        )
    if not isinstance(config, dict):
        raise ModelFileError(f"{source} is damaged: its configuration is no mapping")
    return config


def _empty_circuit(source: Path, config: dict[str, Any]) -> Circuit:
    # On the meta device parameters take no memory: a forged size cannot exhaust it before the check.
    try:
        with torch.device("meta"):
            return Circuit.from_config(config)
    except (AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ModelFileError(f"{source} is damaged: its configuration does not describe a circuit ({error})") from error


def _check_shapes(source: Path, expected: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> None:
    if expected.keys() != found.keys():
        wrong = sorted(expected.keys() ^ found.keys())[0]
        state = "missing" if wrong in expected else "unknown"
        raise ModelFileError(f"{source} is damaged: the parameter {wrong!r} is {state}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise ModelFileError(f"{source} is damaged: {name!r} has the shape {found[name]}, expected {shape}")


def _own(tensor: Tensor) -> Tensor:
    """A copy in memory: the tensors of an open file change with the file."""
    return tensor.clone()
