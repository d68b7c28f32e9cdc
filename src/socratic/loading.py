"""One way to read a model file, whatever is in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from socratic.circuit.storage import FORMATS, load_circuit
from socratic.errors import ModelFileError
from socratic.model_files import ModelFile, read_bytes

_OTHERS = {"socratic.checkpoint": "the checkpoint of a training that was interrupted; fit again with it to go on"}


def load(
    path: str | os.PathLike[str],
    *,
    device: str | torch.device = "cpu",
    model: Any = None,
    trusted: str | os.PathLike[str] | None = None,
) -> Any:
    """Read a model that its ``save`` wrote: a circuit, a graph or a fitted estimator.

    Parameters
    ----------
    path : path
    device : str or torch.device
        Where the model is to compute.
    model : classifier or callable, optional
        What a :class:`~socratic.CircuitGuard` is to guard: its file holds the guard alone.
    trusted : path, optional
        A file with a public key: only model files that are signed with it are read (``socratic sign``).

    Returns
    -------
    Circuit, Graph or estimator
        Of the kind that was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, holds no model, has another format version, or is not signed with the ``trusted`` key.
    ValueError
        If ``model`` is missing for a guard, is another than the guard was fitted for, or is given for anything else.
    """
    source = Path(path)
    return load_bytes(read_bytes(source), source, device=device, model=model, trusted=trusted)


def load_bytes(
    content: bytes,
    source: str | os.PathLike[str],
    *,
    device: str | torch.device = "cpu",
    model: Any = None,
    trusted: str | os.PathLike[str] | None = None,
) -> Any:
    """Read a model from the content of its file, as :func:`load` does, for those who have read the file already.

    Parameters
    ----------
    content : bytes
    source : path
        Where it is from, for messages.
    device, model, trusted
        As for :func:`load`.
    """
    torch.empty(0, device=device)  # a device that is not there is no damage
    file = ModelFile.of(content, Path(source))
    if trusted is not None:
        file.check_signature(trusted)
    loaded: Any
    if file.kind in FORMATS:
        loaded = load_circuit(file, device)
    else:
        from socratic.estimators import storage

        if file.kind != storage.FORMAT:
            raise ModelFileError(f"{source} holds no model: it is {_OTHERS.get(file.kind, f'a {file.kind}')}")
        loaded = storage.load_estimator(file, device)
    guards = hasattr(loaded, "guard")
    if guards and model is None:
        raise ValueError(f"{source} holds a guard without its model: give it as model")
    if not guards and model is not None:
        raise ValueError(f"model is for guards; {source} holds a {type(loaded).__name__}")
    return loaded.guard(model) if guards else loaded
