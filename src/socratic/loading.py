"""One way to read a model file, whatever is in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from socratic.circuit.storage import FORMATS, load_circuit, read_format
from socratic.errors import ModelFileError

_OTHERS = {"socratic.checkpoint": "the checkpoint of a training that was interrupted; fit again with it to go on"}


def load(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Any:
    """Read a model that its ``save`` wrote: a circuit, a graph or a fitted estimator.

    Parameters
    ----------
    path : path
    device : str or torch.device
        Where the model is to compute.

    Returns
    -------
    Circuit, Graph or estimator
        Of the kind that was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, holds no model, or has another format version.
    """
    source = Path(path)
    kind = read_format(source)
    if kind in FORMATS:
        return load_circuit(source, kind, device)
    from socratic.estimators import storage

    if kind in storage.FORMATS:
        return storage.load_estimator(source, kind, device)
    raise ModelFileError(f"{source} holds no model: it is {_OTHERS.get(kind, f'a {kind}')}")
