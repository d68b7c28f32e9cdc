"""By whose statistics the images of a set are normalised."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from socratic.errors import check_choice
from socratic.images import PixelEncoder

NORMALISATIONS = ("train", "own")


def rows_of(images: np.ndarray, encoder: PixelEncoder, normalise: str) -> Tensor:
    """Images (N, H, W, C) of bytes as rows (N, V) of a model, on the encoder's device.

    Parameters
    ----------
    encoder : PixelEncoder
        Fitted to the training images.
    normalise : {"train", "own"}
        Whether the training images' statistics are used, or those of ``images``, as in the TDI paper.
    """
    check_choice("normalise", normalise, NORMALISATIONS)
    if normalise == "own":
        encoder = PixelEncoder.fit(images, encoder.levels).to(encoder.mean.device)
    return encoder(encoder.bytes_of(images))
