"""One way to read a model file, whatever is in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from socratic.circuit.storage import FORMATS, load_circuit, read_format
from socratic.errors import ModelFileError

_OTHERS = {"socratic.checkpoint": "the checkpoint of a training that was interrupted; fit again with it to go on"}


def load(path: str | os.PathLike[str], *, device: str | torch.device = "cpu", model: Any = None) -> Any:
    """Read a model that its ``save`` wrote: a circuit, a graph or a fitted estimator.

    Parameters
    ----------
    path : path
    device : str or torch.device
        Where the model is to compute.
    model : classifier or callable, optional
        What a :class:`~socratic.CircuitGuard` is to guard: its file holds the guard alone.

    Returns
    -------
    Circuit, Graph or estimator
        Of the kind that was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, holds no model, or has another format version.
    ValueError
        If ``model`` is missing for a guard, is another than the guard was fitted for, or is given for anything else.
    """
    source = Path(path)
    kind = read_format(source)
    loaded: Any
    if kind in FORMATS:
        loaded = load_circuit(source, kind, device)
    else:
        from socratic.estimators import storage

        if kind not in storage.FORMATS:
            raise ModelFileError(f"{source} holds no model: it is {_OTHERS.get(kind, f'a {kind}')}")
        loaded = storage.load_estimator(source, kind, device)
    guards = hasattr(loaded, "guard")
    if guards and model is None:
        raise ValueError(f"{source} holds a guard without its model: give it as model")
    if not guards and model is not None:
        raise ValueError(f"model is for guards; {source} holds a {type(loaded).__name__}")
    return loaded.guard(model) if guards else loaded
