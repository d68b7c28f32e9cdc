"""Served models of images, and images as requests bring them."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from socratic.errors import DataFileError
from socratic.estimators.classification import CircuitClassifierBase
from socratic.images.folders import FORMATS, EncodedImage, image_size, read_images
from socratic.serve.model import (
    Options,
    Record,
    ServedModel,
    Take,
    a,
    classifier_records,
    finished,
    finite,
    leave,
    with_reasons,
)
from socratic.serve.problems import RequestError
from socratic.uncertainty.answers import Answer, Judgement

_COMPARED = ("log_likelihood", "p_value", "risk", "unfamiliar", "ambiguous", "verdict", "reasons", "heat")
"""What is known of an image by comparing it with familiar ones, which miss no pixels."""


class ServedImages(ServedModel):
    """An estimator of images."""

    takes = "images"

    def __init__(self, name: str, estimator: Any) -> None:
        super().__init__(name, estimator)
        self.kind = "classifier" if isinstance(estimator, CircuitClassifierBase) else "density"
        self.shape: tuple[int, int, int] = estimator.image_shape_
        self.width = math.prod(self.shape)

    def check(self, asked: np.ndarray) -> np.ndarray:
        """Images (N, H, W, C) of bytes, of the size that the model was trained on; masked pixels are missing."""
        images = asked[..., None] if asked.ndim == 3 else asked
        if images.dtype != np.uint8 or images.shape[1:] != self.shape:
            height, width, channels = self.shape
            raise RequestError(
                f"images must have the shape (N, {height}, {width}, {channels}) and hold bytes, 0 to 255; got "
                f"{asked.shape} of {asked.dtype}"
            )
        if np.ma.is_masked(images) and self.kind != "classifier":
            raise RequestError(f"pixels must not be null: {self.name!r} is {a(self.kind)} of whole images")
        return images

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """All images."""
        return np.ma.concatenate(parts) if any(map(np.ma.is_masked, parts)) else np.concatenate(parts)

    def encode(self, asked: np.ndarray) -> Tensor:
        """Images as the circuit reads them. A wavelet speaks for a block of pixels: it misses all if it misses one."""
        encoder = self.estimator.encoder_
        x: Tensor = encoder(encoder.bytes_of(np.ma.filled(asked, 0)))
        height, width, channels = self.shape
        block = 2**encoder.levels
        missing = np.ma.getmaskarray(asked).any(3).reshape(-1, height // block, block, width // block, block)
        pixels = missing.any((2, 4)).repeat(block, 1).repeat(block, 2).reshape(len(asked), -1)
        return torch.where(torch.as_tensor(np.tile(pixels, channels)).to(x.device), torch.nan, x)

    def answer(self, asked: np.ndarray, options: Options, take: Take = leave) -> list[Record]:
        """One record for each image; those that miss pixels are compared with no others, as these miss none."""
        model = self.variant(options)
        judged: list[tuple[Tensor, Judgement]] = []
        if isinstance(model, CircuitClassifierBase):
            whole = not np.ma.is_masked(asked)
            batches = list(model._batches(asked)) if whole else [self.encode(asked)]
            answers, judgements = zip(*map(model.answer_and_judge, batches), strict=True)
            judged = list(zip(batches, judgements, strict=True)) if whole else []
            records = classifier_records(model, Answer.concatenate(answers))
        else:
            records = [finished({"log_likelihood": value}) for value in model.score_samples(asked).tolist()]
        if options.explain:
            reasons = model.explain(np.ma.getdata(asked))
            with_reasons(records, reasons, options.reasons)
            if options.heat:
                for record, heat in zip(records, reasons.heat.tolist(), strict=True):
                    record["heat"] = [[finite(value) for value in row] for row in heat]
        for record, missing in zip(records, np.ma.getmaskarray(asked), strict=True):
            if missing.any():
                record.update(dict.fromkeys(_COMPARED))
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

    def from_pixels(self, images: Sequence[Any]) -> np.ndarray:
        """Images (N, H, W, C) from nested lists (H, W) or (H, W, C) of whole numbers from 0 to 255, None is missing."""
        parts = [_pixels(image) for image in images]
        for part in parts[1:]:
            if part.shape != parts[0].shape:
                raise RequestError(f"images must have one shape; got {parts[0].shape} and {part.shape}")
        return np.ma.stack(parts) if any(map(np.ma.is_masked, parts)) else np.stack(parts)


def _pixels(image: Any) -> np.ndarray:
    """An image (H, W) or (H, W, C) of bytes, masked where it is None."""
    try:
        values = np.array(image, dtype=object)  # of any other type, short texts would become as long as the longest
    except ValueError:
        values = np.empty(0)
    kinds = set(map(type, values.flat)) if values.ndim in (2, 3) and values.size else {str}
    missing = np.zeros(values.shape, dtype=bool)
    if type(None) in kinds:
        missing = np.array([value is None for value in values.flat]).reshape(values.shape)
    numbers = np.where(missing, 0, values) if missing.any() else values
    if not kinds <= {int, type(None)} or numbers.min() < 0 or numbers.max() > 255:
        raise RequestError(
            "pixels must be lists of rows of pixels, (H, W) or (H, W, C), each a whole number from 0 to 255, or null "
            "where it is missing"
        )
    pixels = numbers.astype(np.uint8)
    return np.ma.array(pixels, mask=missing) if missing.any() else pixels


def _sides(sides: Sequence[int]) -> str:
    return f"{sides[0]} x {sides[1]} pixels"
