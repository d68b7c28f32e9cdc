from __future__ import annotations

import numpy as np
import pytest

from socratic.images import PixelEncoder
from socratic_experiments.normalisation import encoder_for


def test_own_normalisation() -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    encoder = PixelEncoder.fit(images)
    dark = images // 4
    assert encoder_for(dark, encoder, "train") is encoder
    assert abs(float(encoder_for(dark, encoder, "own")(encoder.bytes_of(dark)).mean())) < 1e-3
    with pytest.raises(ValueError, match="normalise must be one of 'train', 'own'; got 'none'"):
        encoder_for(dark, encoder, "none")
