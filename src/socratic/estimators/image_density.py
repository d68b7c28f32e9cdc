"""A density of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import DensityMixin

from socratic.estimators.building import threads
from socratic.estimators.image_estimator import ImageEstimator
from socratic.estimators.image_parameters import IMAGE_PARAMETERS
from socratic.images.checks import check_images


class CircuitImageDensity(DensityMixin, ImageEstimator):
    """Probabilistic circuit density of images.

    Settings that are "auto" are chosen by the shape and the number of the images: ``sizes_`` says what they became.

    {parameters}

    Attributes
    ----------
    image_shape_ : tuple of int
        Height, width and channels of an image.
    sizes_ : ImageSizes
        What was chosen where a setting is "auto".
    encoder_ : PixelEncoder
        How the bytes of images become variables of the circuit.
    circuit_ : Circuit
        Of one class.
    weight_posterior_ : WeightPosterior
        The distribution of its weights that the training images leave.
    familiar_ : FamiliarSurprises
        Of familiar images, which ``explain`` compares with.
    history_ : History
        Losses of each epoch; of several circuits, one after the other, each from epoch 0 on.
    n_iter_ : int
        Epochs, of all circuits.
    """

    _parameters: ClassVar = IMAGE_PARAMETERS
    cross_entropy_weight = 0.0  # there are no classes to tell apart

    def __init__(
        self,
        *,
        structure: str = "spatial",
        patch_size: int | str = "auto",
        depth: int | str = "auto",
        n_repetitions: int | str = "auto",
        n_sums: int | str = "auto",
        n_circuits: int = 1,
        min_variance: float = 0.05,
        max_variance: float = 2.0,
        leaves_from_data: bool = True,
        wavelet_levels: int | str = "auto",
        max_shift: int | str = "auto",
        max_noise: float = 0.0,
        n_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        learning_rate_schedule: str = "cosine",
        training_dropout: float = 0.1,
        leaf_dropout: float | str = "auto",
        checkpoint: str | Path | None = None,
        verbose: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: str = "auto",
    ) -> None:
        self.structure = structure
        self.patch_size = patch_size
        self.depth = depth
        self.n_repetitions = n_repetitions
        self.n_sums = n_sums
        self.n_circuits = n_circuits
        self.min_variance = min_variance
        self.max_variance = max_variance
        self.leaves_from_data = leaves_from_data
        self.wavelet_levels = wavelet_levels
        self.max_shift = max_shift
        self.max_noise = max_noise
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.training_dropout = training_dropout
        self.leaf_dropout = leaf_dropout
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None) -> CircuitImageDensity:  # noqa: ARG002, N803
        """Learn the distribution of images.

        Parameters
        ----------
        X : array (N, H, W), (N, H, W, 1) or (N, H, W, 3) of uint8
            Grey or coloured images of one size.
        y : ignored
        """
        self._check_parameters()
        images = check_images(X)
        seed = int(self._generator().integers(2**31 - 1))
        with threads(self.n_jobs):
            self._choose(images)
            train = self._rows(images, np.zeros(len(images), dtype=np.int64))
            self._train(train, torch.zeros(1, device=train.x.device), seed)
            self._count_visits(train)
            self._remember(train)
        return self

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002, N803
        """Mean log p(x)."""
        return float(self.score_samples(X).mean())

    def _leaf_variance(self) -> None:
        return None
