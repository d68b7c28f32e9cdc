"""What the tests of several parts share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Numbers drawn without a generator are the same whichever tests ran before."""
    torch.manual_seed(0)


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
