"""Circuits as the experiments train and ask them: the estimator for images, and the queries on its circuit."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from socratic import CircuitImageClassifier, Posterior, dropout_posterior, log_likelihood, monte_carlo_dropout, tdi
from socratic.images import Images
from socratic_experiments.normalisation import encoder_for
from socratic_experiments.settings import CircuitRecipe


@dataclass(frozen=True, eq=False)
class CircuitModel:
    """A fitted classifier, and ways to ask its circuit that the classifier itself does not take.

    Attributes
    ----------
    classifier : CircuitImageClassifier
    """

    classifier: CircuitImageClassifier

    @property
    def n_parameters(self) -> int:
        """Number of learnable parameters."""
        return self.classifier.circuit_.n_parameters

    @property
    def dropout(self) -> float:
        """The rate of all dropout inference."""
        return self.classifier.dropout_

    def with_rate(self, rate: float) -> CircuitModel:
        """The same weights at another rate."""
        return self._changed("dropout_", rate)

    def normalised(self, images: np.ndarray, normalise: str) -> CircuitModel:
        """The model to ask about images (N, H, W, C): see :func:`encoder_for`."""
        return self._changed("encoder_", encoder_for(images, self.classifier.encoder_, normalise))

    def rows(self, images: np.ndarray) -> Tensor:
        """Images (N, H, W, C) as rows (N, V) of the circuit, on its device."""
        encoder = self.classifier.encoder_
        return encoder(encoder.bytes_of(images))

    @torch.no_grad()
    def log_joint(self, rows: Tensor) -> Tensor:
        """log p(x, class) of rows (N, V): (N, C)."""
        return log_likelihood(self.classifier.circuit_, rows) + torch.log(self._prior())

    @torch.no_grad()
    def tdi(self, rows: Tensor, **options: Any) -> Posterior:
        """The posterior (N, C) by tractable dropout inference."""
        return tdi(self.classifier.circuit_, rows, dropout=self.dropout, **options).posterior(self._prior())

    @torch.no_grad()
    def dropout_posterior(self, rows: Tensor, **options: Any) -> Posterior:
        """The posterior (N, C) over dropout masks, by log-moment propagation unless another method is named."""
        circuit = self.classifier.circuit_
        return dropout_posterior(circuit, rows, dropout=self.dropout, class_prior=self._prior(), **options)

    @torch.no_grad()
    def monte_carlo(self, rows: Tensor, **options: Any) -> Posterior:
        """The posterior (N, C) by Monte Carlo dropout."""
        circuit = self.classifier.circuit_
        return monte_carlo_dropout(circuit, rows, dropout=self.dropout, class_prior=self._prior(), **options)

    def _prior(self) -> Tensor:
        circuit = self.classifier.circuit_
        return torch.as_tensor(self.classifier.class_prior_, dtype=circuit.dtype, device=circuit.device)

    def _changed(self, name: str, value: Any) -> CircuitModel:
        other = copy.copy(self.classifier)
        setattr(other, name, value)
        return CircuitModel(other)


def train_circuit(
    recipe: CircuitRecipe, images: Images, *, seed: int, device: torch.device, checkpoint: Path, verbose: bool = False
) -> tuple[CircuitModel, float]:
    """Fit a classifier to images, some of which it holds out, and return it and the seconds that took."""
    start = time.perf_counter()
    settings: dict[str, Any] = {"random_state": seed, "device": str(device), "checkpoint": checkpoint}
    classifier = CircuitImageClassifier(**recipe.settings, **settings, verbose=verbose)
    classifier.fit(images.images, images.labels)
    return CircuitModel(classifier), time.perf_counter() - start
