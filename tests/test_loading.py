"""One function reads every model file, and says what a file is that it cannot read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import socratic
from socratic.errors import ModelFileError
from socratic.model_files import write_tensors


def test_every_kind_of_model_is_read(tmp_path: Path) -> None:
    circuit = socratic.rat_spn(4, 2, depth=1)
    density = socratic.CircuitDensity(n_epochs=1, n_sums=2, n_repetitions=1)
    density.fit(np.random.default_rng(0).normal(size=(30, 3)))
    for model in (circuit, circuit.to_graph(), density):
        model.save(tmp_path / "model")
        assert type(socratic.load(tmp_path / "model", device="cpu")) is type(model)
        assert type(socratic.load(str(tmp_path / "model"), device=torch.device("cpu"))) is type(model)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("socratic.checkpoint", "it is the checkpoint of a training that was interrupted; fit again with it to go on"),
        ("socratic.experiment-model", "it is a socratic.experiment-model"),
    ],
)
def test_other_files_are_named(tmp_path: Path, kind: str, what: str) -> None:
    write_tensors(tmp_path / "other", kind, 1, {"x": torch.zeros(1)}, {})
    with pytest.raises(ModelFileError, match=re.escape(f"{tmp_path / 'other'} holds no model: {what}")):
        socratic.load(tmp_path / "other")
