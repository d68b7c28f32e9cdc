"""A workbench on scikit-learn's digits with a set of unknown images, small enough for every test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from socratic_experiments.records import Records
from socratic_experiments.settings import ExperimentSettings
from socratic_experiments.workbench import Workbench

OVERRIDES = {
    "circuit": {"n_epochs": 12, "n_sums": 6, "batch_size": 50, "learning_rate": 0.05},
    "circuit without dropout": {"n_epochs": 4, "n_sums": 6},
    "circuit with noise": {"n_epochs": 2, "n_sums": 4},
    "paper's circuit": {"n_epochs": 1, "n_sums": 4, "depth": 2, "n_repetitions": 2},
    "paper's circuit with dropout": {"n_epochs": 1, "n_sums": 4, "depth": 2, "n_repetitions": 2},
    "MLP": {"n_epochs": 3},
    "LeNet-5": {"n_epochs": 2},
    "LeNet-5 ensemble": {"n_epochs": 1, "n_members": 2},
}


@pytest.fixture(scope="session")
def images_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of image sets that holds one: patches of noise."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("images")
    (folder / "noise" / "test").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(60):
        pixels = rng.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "noise" / "test" / f"{number:02d}.png")
    return folder


@pytest.fixture(scope="session")
def settings() -> ExperimentSettings:
    return ExperimentSettings("digits", ("noise",), n_images=80, n_passes=5, overrides=OVERRIDES)


@pytest.fixture(scope="session")
def bench(settings: ExperimentSettings, images_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    folder = tmp_path_factory.mktemp("models")
    return Workbench.open(settings, images_folder, folder, torch.device("cpu"))


@pytest.fixture
def records(tmp_path: Path, settings: ExperimentSettings) -> Records:
    return Records(tmp_path / "results", settings.to_dict())
