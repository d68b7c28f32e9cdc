"""Images of noise."""

from __future__ import annotations

import numpy as np


def some_images(n: int = 40, height: int = 8, width: int = 8, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, height, width, channels), dtype=np.uint8)
