from __future__ import annotations

import numpy as np
import pytest
import torch

from socratic.images import PixelEncoder
from socratic_experiments.normalisation import rows_of


def test_own_normalisation() -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    encoder = PixelEncoder.fit(images)
    dark = images // 4
    assert torch.equal(rows_of(dark, encoder, "train"), encoder(encoder.bytes_of(dark)))
    assert abs(float(rows_of(dark, encoder, "own").mean())) < 1e-3
    with pytest.raises(ValueError, match="normalise must be one of 'train', 'own'; got 'none'"):
        rows_of(dark, encoder, "none")
