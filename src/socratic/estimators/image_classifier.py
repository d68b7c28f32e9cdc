"""A classifier of images that says when it does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.estimators.building import threads
from socratic.estimators.classification import CircuitClassifierBase
from socratic.estimators.image_building import build_image_circuit, choose_image_sizes
from socratic.estimators.image_estimator import ImageEstimator
from socratic.estimators.image_parameters import IMAGE_PARAMETERS
from socratic.estimators.preparation import Parts, split_rows
from socratic.images.checks import check_images
from socratic.tables.inputs import check_labels
from socratic.uncertainty.synthetic import image_shifts

_MOST_CALIBRATION = 4000
"""Images that are held out by default, at most."""


class CircuitImageClassifier(CircuitClassifierBase, ImageEstimator):
    """Probabilistic circuit classifier of images that says how sure it is, with calibrated rejection.

    Settings that are "auto" are chosen by the shape and the number of the images: ``sizes_`` says what they became.

    {parameters}

    Attributes
    ----------
    classes_ : ndarray (C,)
    class_prior_ : ndarray (C,)
        Their probabilities.
    image_shape_ : tuple of int
        Height, width and channels of an image.
    sizes_ : ImageSizes
        What was chosen where a setting is "auto".
    encoder_ : PixelEncoder
        How the bytes of images become variables of the circuit.
    circuit_ : Circuit
    dropout_ : float
        The dropout rate of the uncertainty.
    committee_ : Committee
        The circuits that answer together, with ``n_circuits`` above 1 only.
    doubt_ : str
        The ``doubt`` that rejection was calibrated for.
    weight_posterior_ : WeightPosterior
        The distribution of its weights that the training images leave, with the worth of a visit that was chosen.
    profile_, class_profile_ : Profile
        Familiar log-likelihoods of the parts of an image, of all classes and of each.
    detector_ : Detector
    class_conformal_ : ClassConformal or None
        What p-values compare with if they are calibrated by class.
    ambiguity_ : Ambiguity
        How sure and how right the answers to calibration rows are, which ``risk`` is kept by.
    calibrated_ : bool
        Whether enough images were held out to keep ``rejection_rate``.
    n_calibration_ : int
        How many that were.
    familiar_ : FamiliarSurprises
        Of familiar images, which ``explain`` compares with.
    history_ : History
        Losses of each epoch; of several circuits, one after the other, each from epoch 0 on.
    n_iter_ : int
        Epochs, of all circuits.
    """

    _parameters: ClassVar = IMAGE_PARAMETERS

    leaf_variance: float

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
        cross_entropy_weight: float | str = "auto",
        n_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        learning_rate_schedule: str = "cosine",
        training_dropout: float = 0.1,
        leaf_dropout: float | str = "auto",
        calibration_fraction: float | str = "auto",
        calibrate_by_class: bool = False,
        doubt: str = "weights",
        dropout: float | str = "auto",
        masks: str = "edge",
        leaf_variance: float = 0.0,
        posterior: str = "one-pass",
        class_prior: Sequence[float] | str | None = None,
        detector: str = "combined",
        rejection_rate: float = 0.05,
        risk: float | None = None,
        risk_confidence: float | None = None,
        rejected_label: Any = None,
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
        self.cross_entropy_weight = cross_entropy_weight
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_schedule = learning_rate_schedule
        self.training_dropout = training_dropout
        self.leaf_dropout = leaf_dropout
        self.calibration_fraction = calibration_fraction
        self.calibrate_by_class = calibrate_by_class
        self.doubt = doubt
        self.dropout = dropout
        self.masks = masks
        self.leaf_variance = leaf_variance
        self.posterior = posterior
        self.class_prior = class_prior
        self.detector = detector
        self.rejection_rate = rejection_rate
        self.risk = risk
        self.risk_confidence = risk_confidence
        self.rejected_label = rejected_label
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> CircuitImageClassifier:  # noqa: N803
        """Train, choose how much to doubt, and calibrate.

        Parameters
        ----------
        X : array (N, H, W), (N, H, W, 1) or (N, H, W, 3) of uint8
            Grey or coloured images of one size.
        y : array (N,)
            Class labels of any kind.

        Warns
        -----
        CalibrationWarning
            If too few images can be held out to keep ``rejection_rate``; ``calibrated_`` is False then. Or if no
            row can be answered at the chosen ``risk``.
        """
        self._check_parameters()
        images = check_images(X)
        y = check_labels(y)
        check_consistent_length(images, y)
        labels = self._encode_classes(y, np.ones(len(y)))
        rng = self._generator()
        with threads(self.n_jobs):
            parts = self._prepare(images, labels, rng)
            self._set_prior(parts.train)
            log_prior = torch.as_tensor(np.log(self.class_prior_), dtype=torch.float32, device=parts.train.x.device)
            self._train(parts.train, log_prior, seed=int(rng.integers(2**31 - 1)))
            self._calibrate(parts, rng)
        self._warn_unless_kept()
        return self

    def build_circuit(self, image_shape: tuple[int, int, int], n_classes: int) -> Circuit:
        """The circuit that ``fit`` would train on images of a shape (H, W, C), untrained."""
        self._check_parameters()
        sizes = choose_image_sizes(self, image_shape, n_images=1)
        return build_image_circuit(self, sizes, image_shape, n_classes, seed=0)

    def _prepare(self, images: np.ndarray, labels: np.ndarray, rng: np.random.Generator) -> Parts:
        """Fit the encoder, and divide the images, as flat bytes, into those to train and to calibrate on."""
        fraction = self.calibration_fraction
        if isinstance(fraction, str):
            fraction = min(0.2, _MOST_CALIBRATION / len(images))
        split = split_rows(
            labels, np.arange(len(labels)), rng, validation=0.0, calibration=float(fraction), reference=1 / 3
        )
        self._choose(images[split.train])
        train, reference, calibration, alone = (
            self._rows(images[place], labels[place])
            for place in (split.train, split.reference, split.calibration, split.alone)
        )
        return Parts(train, None, reference, calibration, alone)

    def _leaf_variance(self) -> Mapping[int, float] | None:
        return dict.fromkeys(range(self.circuit_.n_features), self.leaf_variance) if self.leaf_variance else None

    def _shifts(self, x: Tensor, rng: np.random.Generator) -> Sequence[Tensor]:
        return [self.encoder_.bytes_of(shift) for shift in image_shifts(self.encoder_.images_of(x), rng)]
