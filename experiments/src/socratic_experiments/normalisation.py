"""By whose statistics the images of a set are normalised."""

from __future__ import annotations

import numpy as np

from socratic.errors import check_choice
from socratic.images import PixelEncoder

NORMALISATIONS = ("train", "own")


def encoder_for(images: np.ndarray, encoder: PixelEncoder, normalise: str) -> PixelEncoder:
    """The encoder of images (N, H, W, C): that of the training images, or one of their own.

    Parameters
    ----------
    encoder : PixelEncoder
        Fitted to the training images.
    normalise : {"train", "own"}
    """
    check_choice("normalise", normalise, NORMALISATIONS)
    return encoder if normalise == "train" else PixelEncoder.fit(images, encoder.levels).to(encoder.mean.device)
