"""Model files: parameters as safetensors, everything else as JSON in the file's metadata.

Nothing is ever unpickled, and a file is checked in full before a circuit is returned.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from socratic.circuit.circuit import Circuit
from socratic.errors import ModelFileError

FORMAT = "socratic.circuit"
VERSION = 1


def save(circuit: Circuit, path: str | os.PathLike[str]) -> None:
    """Write ``circuit`` to ``path``, completely or not at all."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file to save the model to")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot save to {target}: there is no folder {target.parent}")
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in circuit.state_dict().items()}
    metadata = {"format": FORMAT, "version": str(VERSION), "config": json.dumps(circuit.to_config())}
    handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        save_file(tensors, draft, metadata=metadata)
        os.chmod(draft, 0o666 & ~_umask())
        os.replace(draft, target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Circuit:
    """Read a circuit that :meth:`Circuit.save` wrote.

    Raises
    ------
    ModelFileError
        If the file is damaged, is no socratic model, or has another format version.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"no model file at {source}")
    try:
        with safe_open(source, framework="pt") as file:
            config = _read_config(source, file.metadata() or {})
            circuit = _empty_circuit(source, config)
            expected = {name: tuple(tensor.shape) for name, tensor in circuit.state_dict().items()}
            names = list(file.keys())
            _check_tensors(source, expected, {name: tuple(file.get_slice(name).get_shape()) for name in names})
            tensors = {name: file.get_tensor(name) for name in expected}
    except SafetensorError as error:
        raise ModelFileError(f"{source} is damaged or no model file ({error}); save the model again") from error
    kinds = {tensor.dtype for tensor in tensors.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        raise ModelFileError(f"{source} is damaged: its parameters are of the types {sorted(map(str, kinds))}")
    circuit.load_state_dict(tensors, assign=True)
    return circuit.to(device)


def _read_config(source: Path, metadata: dict[str, str]) -> dict[str, Any]:
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{source} is a safetensors file but no socratic model; save one with circuit.save()")
    if metadata.get("version") != str(VERSION):
        raise ModelFileError(
            f"{source} has format version {metadata.get('version')!r}; this version of socratic reads '{VERSION}'"
        )
    try:
        config = json.loads(metadata["config"])
    except (KeyError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{source} is damaged: its configuration is not readable ({error})") from error
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


def _check_tensors(source: Path, expected: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> None:
    if expected.keys() != found.keys():
        wrong = sorted(expected.keys() ^ found.keys())[0]
        state = "missing" if wrong in expected else "unknown"
        raise ModelFileError(f"{source} is damaged: the parameter {wrong!r} is {state}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise ModelFileError(f"{source} is damaged: {name!r} has the shape {found[name]}, expected {shape}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
