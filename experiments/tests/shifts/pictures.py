"""Images that the tests corrupt."""

from __future__ import annotations

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits, load_sample_image


def photographs(side: int, n_images: int = 12) -> np.ndarray:
    """Square pieces of a photograph, shrunk by 2 for detail: (n_images, side, side, 3)."""
    picture = load_sample_image("china.jpg")[::2, ::2]
    rows = np.linspace(0, picture.shape[0] - side, 3).astype(int)
    columns = np.linspace(0, picture.shape[1] - side, -(-n_images // 3)).astype(int)
    return np.stack([picture[i : i + side, j : j + side] for j in columns for i in rows])[:n_images]


def digits(n_images: int = 12) -> np.ndarray:
    """Handwritten digits, enlarged to 24 pixels in a black frame: (n_images, 28, 28, 1)."""
    enlarged = ndimage.zoom(load_digits().images[:n_images], (1, 3, 3), order=1) * (255 / 16)
    return np.pad(enlarged, ((0, 0), (2, 2), (2, 2)))[..., None].astype(np.uint8)
