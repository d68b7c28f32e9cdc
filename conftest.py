"""What all tests share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Numbers drawn without a generator are the same whichever tests ran before."""
    torch.manual_seed(0)
