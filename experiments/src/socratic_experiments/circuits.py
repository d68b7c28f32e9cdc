"""Circuits for images: built, trained, calibrated, and kept in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from socratic import Circuit, Posterior, dropout_posterior, log_likelihood, rat_spn, spatial_spn, tdi
from socratic.circuit.storage import restore_circuit
from socratic.families import Gaussian
from socratic.images import Augmentation, Images, PixelEncoder
from socratic.learning import Epoch, Rows, TrainingSettings, fit_gradient, initialise_leaves
from socratic.uncertainty.detector import Detector, fit_detector
from socratic.uncertainty.rates import choose_rate
from socratic.uncertainty.scores import Scores
from socratic.uncertainty.synthetic import synthetic_shifts
from socratic_experiments.normalisation import rows_of
from socratic_experiments.settings import CircuitRecipe

_N_JUDGED = 1000
"""Held-out images that decide on the rate of dropout."""
_CHECKPOINT_EVERY = 5


@dataclass(frozen=True, eq=False)
class CircuitModel:
    """A trained circuit with everything that its answers need.

    Attributes
    ----------
    circuit : Circuit
    encoder : PixelEncoder
    log_prior : Tensor (C,)
        Logarithms of the class frequencies of the training images.
    dropout : float
        The rate of dropout inference.
    detector : Detector
        The combined detector, fitted on held-out training images.
    """

    circuit: Circuit
    encoder: PixelEncoder
    log_prior: Tensor
    dropout: float
    detector: Detector

    @property
    def n_parameters(self) -> int:
        """Number of learnable parameters."""
        return self.circuit.n_parameters

    def rows(self, images: np.ndarray, normalise: str = "train") -> Tensor:
        """Images (N, H, W, C) of bytes as rows (N, V) of the circuit, on its device."""
        return rows_of(images, self.encoder, normalise)

    def log_joint(self, rows: Tensor) -> Tensor:
        """log p(x, class) of rows (N, V): (N, C)."""
        return log_joint(self.circuit, rows, self.log_prior)

    @torch.no_grad()
    def tdi(self, rows: Tensor, **options: Any) -> Posterior:
        """The posterior (N, C) by tractable dropout inference."""
        moments = tdi(self.circuit, rows, dropout=options.pop("dropout", self.dropout), **options)
        return moments.posterior(torch.exp(self.log_prior))

    @torch.no_grad()
    def dropout_posterior(self, rows: Tensor, **options: Any) -> Posterior:
        """The posterior (N, C) over dropout masks, by log-moment propagation unless another method is named."""
        prior = torch.exp(self.log_prior)
        return dropout_posterior(self.circuit, rows, dropout=self.dropout, class_prior=prior, **options)

    def scores(self, rows: Tensor) -> Scores:
        """What the detector combines, for rows (N, V)."""
        return detection_scores(self.circuit, rows, self.log_prior, self.dropout)

    def to_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain data to rebuild the model from."""
        arrays, detector = self.detector.to_state()
        tensors = {f"circuit/{name}": tensor for name, tensor in self.circuit.state_dict().items()}
        tensors |= {f"detector/{name}": torch.as_tensor(array) for name, array in arrays.items()}
        tensors |= {"log_prior": self.log_prior, "mean": self.encoder.mean, "scale": self.encoder.scale}
        config = {
            "circuit": self.circuit.to_config(),
            "detector": detector,
            "dropout": self.dropout,
            "levels": self.encoder.levels,
            "shape": list(self.encoder.shape),
        }
        return tensors, config

    @classmethod
    def from_state(
        cls, path: Path, tensors: Mapping[str, Tensor], config: Mapping[str, Any], device: torch.device
    ) -> CircuitModel:
        """Rebuild the model of :meth:`to_state`; ``path`` is for messages."""

        def under(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}

        height, width, channels = config["shape"]
        encoder = PixelEncoder(config["levels"], (height, width, channels), tensors["mean"], tensors["scale"])
        arrays = {name: tensor.numpy() for name, tensor in under("detector/").items()}
        return cls(
            restore_circuit(path, config["circuit"], under("circuit/")).to(device),
            encoder.to(device),
            tensors["log_prior"].to(device),
            config["dropout"],
            Detector.from_state(arrays, config["detector"]),
        )


@torch.no_grad()
def log_joint(circuit: Circuit, rows: Tensor, log_prior: Tensor) -> Tensor:
    """log p(x, class) of rows (N, V): (N, C)."""
    return log_likelihood(circuit, rows) + log_prior


@torch.no_grad()
def detection_scores(circuit: Circuit, rows: Tensor, log_prior: Tensor, dropout: float) -> Scores:
    """-log p(x), and the entropy of the mean posterior under dropout, of rows (N, V)."""
    posterior = tdi(circuit, rows, dropout=dropout).posterior(torch.exp(log_prior))
    surprise = -torch.logsumexp(log_joint(circuit, rows, log_prior), 1)
    found = {"log_likelihood": surprise, "entropy": posterior.entropy}
    return {name: values.double().cpu().numpy() for name, values in found.items()}


def build_circuit(recipe: CircuitRecipe, shape: tuple[int, int, int], n_classes: int, seed: int) -> Circuit:
    """An untrained circuit for images of a shape (H, W, C)."""
    height, width, channels = shape
    leaf = Gaussian(recipe.min_variance, recipe.max_variance)
    sizes: dict[str, Any] = {"n_sums": recipe.n_sums, "n_leaves": recipe.n_leaves, "leaf": leaf, "seed": seed}
    if recipe.structure == "spatial":
        return spatial_spn(height, width, n_classes, n_channels=channels, patch_size=recipe.patch_size, **sizes)
    n_features = height * width * channels
    return rat_spn(n_features, n_classes, depth=recipe.depth, n_repetitions=recipe.n_repetitions, **sizes)


def train_circuit(
    recipe: CircuitRecipe,
    train: Images,
    held_out: Images,
    *,
    n_classes: int,
    seed: int,
    device: torch.device,
    checkpoint: Path | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> tuple[CircuitModel, float]:
    """Train a circuit on images and calibrate it on others; return it and the seconds that the training took."""
    encoder = PixelEncoder.fit(train.images, recipe.wavelet_levels).to(device)
    flat = encoder.bytes_of(train.images)
    labels = torch.as_tensor(train.labels, device=device)
    # One image more of each class: also one that few images have, or none, is possible.
    counts = torch.bincount(labels, minlength=n_classes).float() + 1.0
    log_prior = torch.log(counts / counts.sum())
    circuit = build_circuit(recipe, encoder.shape, n_classes, seed)
    if recipe.leaves_from_data:
        some = torch.randperm(len(flat), generator=torch.Generator().manual_seed(seed))[:5000]
        initialise_leaves(circuit, encoder(flat[some.to(device)]), seed)
    circuit.to(device)
    settings = TrainingSettings(
        n_epochs=recipe.n_epochs,
        batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        cross_entropy_weight=recipe.cross_entropy_weight,
        dropout=recipe.dropout,
        leaf_dropout=recipe.leaf_dropout,
        seed=seed,
    )
    rows = Rows(flat, labels, torch.ones(len(flat), device=device))
    start = time.perf_counter()
    with _fast_products():
        fit_gradient(
            circuit,
            rows,
            settings,
            log_prior,
            augment=Augmentation(recipe.max_shift, recipe.max_noise, encoder),
            checkpoint=checkpoint,
            checkpoint_every=_CHECKPOINT_EVERY,
            progress=progress,
        )
    seconds = time.perf_counter() - start
    return calibrate(circuit, encoder, log_prior, held_out, recipe.inference_dropout, seed), seconds


@contextmanager
def _fast_products() -> Iterator[None]:
    """Let a GPU multiply matrices with fewer digits, which gradients can do without; answers are computed with all."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@torch.no_grad()
def calibrate(
    circuit: Circuit, encoder: PixelEncoder, log_prior: Tensor, held_out: Images, dropout: float | None, seed: int
) -> CircuitModel:
    """Choose the rate of dropout, unless it is given, and fit the detector, on images that were not trained on.

    The first third of them chooses the rate and scales and weighs the detector's scores, the rest calibrates it.
    """
    rows = encoder(encoder.bytes_of(held_out.images))
    third = len(rows) // 3
    if dropout is None:
        judged = slice(0, min(third, _N_JUDGED))

        def posterior(rate: float) -> np.ndarray:
            moments = tdi(circuit, rows[judged], dropout=rate, masks="unit")
            return moments.posterior(torch.exp(log_prior)).mean.double().cpu().numpy()

        labels = held_out.labels[judged]
        dropout = choose_rate(posterior, labels, np.ones(len(labels)))
    # Of pixels, not of what the circuit reads: the images that are made should look natural as images.
    pixels = encoder.bytes_of(held_out.images[:third]).float().cpu().numpy()
    shifts = synthetic_shifts(pixels, np.ones(pixels.shape[1], dtype=bool), np.random.default_rng(seed))
    shifted = [encoder(torch.as_tensor(x.clip(0.0, 255.0).round().astype(np.uint8)).to(rows.device)) for x in shifts]
    detector = fit_detector(
        "combined",
        detection_scores(circuit, rows[:third], log_prior, dropout),
        [detection_scores(circuit, x, log_prior, dropout) for x in shifted],
        detection_scores(circuit, rows[third:], log_prior, dropout),
        np.ones(third),
        np.ones(len(rows) - third),
    )
    return CircuitModel(circuit, encoder, log_prior, dropout, detector)
