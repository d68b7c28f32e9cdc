"""Served models of images, and images as requests bring them."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from socratic.errors import DataFileError
from socratic.estimators.classification import CircuitClassifierBase
from socratic.images.folders import FORMATS, EncodedImage, image_size, read_images
from socratic.serve.model import (
    Options,
    Record,
    ServedModel,
    Take,
    classifier_records,
    leave,
    likelihood_records,
    with_reasons,
)
from socratic.serve.problems import RequestError
from socratic.uncertainty.answers import Answer, Judgement


class ServedImages(ServedModel):
    """An estimator of images."""

    takes = "images"

    def __init__(self, name: str, estimator: Any) -> None:
        super().__init__(name, estimator)
        self.kind = "classifier" if isinstance(estimator, CircuitClassifierBase) else "density"
        self.shape: tuple[int, int, int] = estimator.image_shape_

    def check(self, asked: np.ndarray) -> np.ndarray:
        """Images (N, H, W, C) of bytes, of the size that the model was trained on."""
        images = asked[..., None] if asked.ndim == 3 else asked
        if images.dtype != np.uint8 or images.shape[1:] != self.shape:
            height, width, channels = self.shape
            raise RequestError(
                f"images must have the shape (N, {height}, {width}, {channels}) and hold bytes, 0 to 255; got "
                f"{asked.shape} of {asked.dtype}"
            )
        return images

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """All images."""
        return np.concatenate(parts)

    def answer(self, asked: np.ndarray, options: Options, take: Take = leave) -> list[Record]:
        """One record for each image."""
        model = self.variant(options)
        judged: list[tuple[Tensor, Judgement]] = []
        if isinstance(model, CircuitClassifierBase):
            batches = list(model._batches(asked))
            answers, judgements = zip(*map(model.answer_and_judge, batches), strict=True)
            judged = list(zip(batches, judgements, strict=True))
            records = classifier_records(model, Answer.concatenate(answers))
        else:
            records = likelihood_records(model.score_samples(asked), None, None, None)
        records = with_reasons(records, model.explain(asked) if options.reasons else None, options.reasons)
        for x, judgement in judged:
            take(x, judgement)
        return records

    def describe(self) -> dict[str, Any]:
        """What it is, with the shape of its images."""
        return {**super().describe(), "image_shape": list(self.shape)}

    def decode(self, content: str, resize: bool, max_pixels: int) -> np.ndarray:
        """An image file (1, H, W, C), from base64.

        Parameters
        ----------
        content : str
        resize : bool
            Whether an image of another size is resized or refused.
        max_pixels : int
            Images of more are refused before they are unpacked.
        """
        height, width, n_channels = self.shape
        try:
            source = EncodedImage("image", base64.b64decode(content, validate=True))
        except (binascii.Error, ValueError):
            raise RequestError("image must be a file in base64; it holds something else") from None
        try:
            declared = image_size(source)
            if math.prod(declared) > max_pixels:
                raise RequestError(f"image has {_sides(declared)}, more than {max_pixels}; send a smaller one", 413)
            size = (height, width) if resize else None
            images = read_images([source], size, resize=resize, n_channels=n_channels)
        except DataFileError:
            raise RequestError(f"image is damaged or none of {', '.join(FORMATS)}") from None
        if images.shape[1:3] != (height, width):
            raise RequestError(
                f"image has {_sides(images.shape[1:3])}, and the model was trained on {height} x {width}; resize "
                "it, or send resize: true"
            )
        return images

    def from_pixels(self, pixels: Sequence[Any]) -> np.ndarray:
        """An image (1, H, W, C) from nested lists (H, W) or (H, W, C) of whole numbers from 0 to 255."""
        try:
            values = np.array(pixels)
        except ValueError:
            values = np.empty(0)
        allowed = values.size and values.dtype.kind in "iu" and values.min() >= 0 and values.max() <= 255
        if values.ndim not in (2, 3) or not allowed:
            raise RequestError(
                "pixels must be lists of rows of pixels, (H, W) or (H, W, C), each a whole number from 0 to 255"
            )
        return values.astype(np.uint8)[None]


def _sides(sides: Sequence[int]) -> str:
    return f"{sides[0]} x {sides[1]} pixels"
