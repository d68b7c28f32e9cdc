"""Checkpoints: the state of a training in a file, from which an interrupted one resumes to the same result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.graph_parts import graph_parts
from socratic.learning.settings import Epoch, Source, TrainingSettings
from socratic.model_files import building, read_tensors, write_tensors
from socratic.workers import Workers

FORMAT = "socratic.checkpoint"
VERSION = 1

State = tuple[dict[str, Tensor], list[Epoch], dict[str, Any]]
"""Tensors to resume from, the epochs so far, and what else there is to know."""


class Checkpoint:
    """A file that holds the latest state of one training, named by what is trained on what.

    Parameters
    ----------
    path : Path
        The file. Written completely or not at all, after every epoch.
    fingerprint : str
        Identifies circuit, data and settings; a file with another one is not resumed from but replaced.
    workers : Workers
        The processes that train together, of which the first alone touches the file.
    """

    def __init__(self, path: Path, fingerprint: str, workers: Workers) -> None:
        self.path, self.fingerprint, self.workers = path, fingerprint, workers

    def save(self, tensors: dict[str, Tensor], epochs: Sequence[Epoch], extra: dict[str, Any]) -> None:
        """Replace the file by this state."""
        if not self.workers.is_first:
            return
        state = {"fingerprint": self.fingerprint, "epochs": [list(epoch) for epoch in epochs], "extra": extra}
        write_tensors(self.path, FORMAT, VERSION, tensors, state)

    def load(self) -> State | None:
        """The state in the file, in all processes, or None if there is none for this training.

        Raises
        ------
        ModelFileError
            If there is a file that is no checkpoint: it would be replaced.
        """
        found = self._read() if self.workers.is_first else None
        header = self.workers.of_first(None if found is None else (list(found[0]), *found[1:]))
        if header is None:
            return None
        names, epochs, extra = header
        tensors = {} if found is None else found[0]
        # One by one: they are handed on by way of GPUs, which may not hold all of them at once.
        return {name: self.workers.of_first(tensors.get(name, torch.empty(0))) for name in names}, epochs, extra

    def _read(self) -> State | None:
        if not self.path.is_file():
            return None
        tensors, state = read_tensors(self.path, FORMAT, VERSION)
        if state.get("fingerprint") != self.fingerprint:
            return None
        with building(self.path, "a checkpoint"):
            return tensors, [Epoch(*row) for row in state["epochs"]], dict(state["extra"])

    def remove(self) -> None:
        """Delete the file, once the training is over."""
        if self.workers.is_first:
            self.path.unlink(missing_ok=True)


def data_digest(rows: Sequence[Source], settings: TrainingSettings) -> str:
    """A digest of what is trained on and how."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([asdict(settings), torch.__version__]).encode())
    for part in rows:
        digest.update(part.digest())
    return digest.hexdigest()


def fingerprint(circuit: Circuit | Graph, data: str, augmentation: str) -> str:
    """A digest of everything that decides the result of a training; ``data`` is the :func:`data_digest`."""
    digest = hashlib.blake2b(digest_size=16)
    tensors, config = (
        graph_parts(circuit) if isinstance(circuit, Graph) else (circuit.state_dict(), circuit.to_config())
    )
    digest.update(json.dumps([config, data, augmentation]).encode())
    for tensor in tensors.values():
        digest.update(tensor.detach().cpu().numpy().tobytes())
    return digest.hexdigest()
