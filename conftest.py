"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

NOBODY = 65534


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Numbers drawn without a generator are the same whichever tests ran before."""
    torch.manual_seed(0)


@pytest.fixture
def ordinary_folder() -> Iterator[Path]:
    """An empty folder for a test of permissions, which runs without the rights of root, whom no permission stops."""
    with TemporaryDirectory() as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        os.chown(name, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)
