"""What estimators of images share: pixels and their encoding, sizes by the images, and training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from socratic.estimators.building import choose_device, progress_bar
from socratic.estimators.explaining import ExplainingEstimator
from socratic.estimators.image_building import ImageSizes, choose_image_sizes, train_image_circuit
from socratic.estimators.image_reasons import ImageParts, ImageReasons
from socratic.estimators.members import Fitted, Member, fit_members
from socratic.images import PixelEncoder
from socratic.images.checks import check_images
from socratic.learning.settings import Rows
from socratic.memory import table_rows


class ImageEstimator(ExplainingEstimator):
    """An estimator of images: ``encoder_`` says how their bytes become variables of the circuit."""

    verbose: bool
    device: str
    image_shape_: tuple[int, int, int]
    sizes_: ImageSizes
    encoder_: PixelEncoder

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if not self.image_shape_ == self.encoder_.shape or self.circuit_.n_features != math.prod(self.image_shape_):
            raise ValueError("its images do not fit its circuit")

    def _choose(self, images: np.ndarray) -> None:
        """Set the sizes and the encoder by the images (N, H, W, C) to train on."""
        height, width, channels = images.shape[1:]
        self.image_shape_ = (height, width, channels)
        self.sizes_ = choose_image_sizes(self, self.image_shape_, len(images))
        self.encoder_ = PixelEncoder.fit(images, self.sizes_.wavelet_levels).to(choose_device(self.device))

    def _rows(self, images: np.ndarray, labels: np.ndarray) -> Rows:
        """Images as flat bytes (N, V), with the numbers (N,) of their classes."""
        flat = self.encoder_.bytes_of(images)
        return Rows(flat, torch.as_tensor(labels).to(flat.device), torch.ones(len(flat), device=flat.device))

    def _train(self, train: Rows, log_prior: Tensor, seed: int) -> None:
        """Train ``circuit_`` on such rows, with a root for each class of a log-prior (C,)."""

        def fit(member: Member) -> Fitted:
            with progress_bar(self.verbose, self.sizes_.n_epochs, member.title) as progress:
                return train_image_circuit(
                    self, self.sizes_, self.encoder_, train, log_prior, member=member, progress=progress
                )

        circuits, self.history_ = fit_members(self, seed, fit)
        self._set_circuits(circuits)
        self.n_iter_ = len(self.history_.epochs)

    def _batches(self, X: Any) -> Iterator[Tensor]:  # noqa: N803
        images = check_images(X)
        step = table_rows(math.prod(self.image_shape_))
        for start in range(0, len(images), step):
            yield self._read(self.encoder_.bytes_of(images[start : start + step]))

    def explain(self, X: Any) -> ImageReasons:  # noqa: N803
        """Why images are unusual: how surprising each region is given the rest of the image, beside familiar images.

        All regions together take one pass up through the circuit and one down.
        """
        check_is_fitted(self)
        return self._compare(self._surprises(self._batches(X)))

    def _read(self, x: Tensor) -> Tensor:
        return self.encoder_(x)

    def _surprise(self, x: Tensor) -> np.ndarray:
        return ImageParts.of(self.circuit_, self.encoder_).surprise(x, torch.exp(self._log_prior(self.circuit_)))

    def _compare(self, surprise: np.ndarray) -> ImageReasons:
        return ImageParts.of(self.circuit_, self.encoder_).compare(self.familiar_, surprise)

    def _log_volume(self, x: Tensor) -> float:  # noqa: ARG002
        return self.encoder_.log_scale
