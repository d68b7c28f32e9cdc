"""Circuits for images: sizes by the data, the structure, and the training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.build import rat_spn, spatial_spn
from socratic.circuit.circuit import Circuit
from socratic.estimators.members import Member
from socratic.families import Gaussian
from socratic.images import Augmentation, PixelEncoder
from socratic.learning.gradient import fit_gradient
from socratic.learning.initialise import initialise_leaves
from socratic.learning.settings import Epoch, History, Rows, TrainingSettings

_SMALL = 16
"""Pixels of the longer side up to which an image is small."""
_N_STARTS = 5000
"""Training images that leaves may start at."""
_STEPS, _MOST_EPOCHS = 600, 120
_CHECKPOINT_EVERY = 5


@dataclass(frozen=True)
class ImageSizes:
    """What an image classifier chooses by its images where it is asked to: see there for the names."""

    wavelet_levels: int
    patch_size: int
    depth: int | None
    n_repetitions: int
    n_sums: int
    max_shift: int
    cross_entropy_weight: float
    leaf_dropout: float
    learning_rate: float
    n_epochs: int
    batch_size: int


def choose_image_sizes(settings: Any, shape: tuple[int, int, int], n_images: int) -> ImageSizes:
    """Fill in what ``settings``, an estimator, leaves to "auto".

    Coloured images are taken for photographs, grey ones for writing on plain ground.

    Parameters
    ----------
    shape : tuple of int
        Height, width and channels of an image.
    n_images : int
        Images to train on.
    """
    height, width, channels = shape
    coloured, small, spatial = channels == 3, max(height, width) <= _SMALL, settings.structure == "spatial"

    def pick(name: str, value: Any) -> Any:
        asked = getattr(settings, name)
        return value if isinstance(asked, str) else asked

    levels = pick("wavelet_levels", most_levels(height, width) if coloured else 0)
    batch_size = pick("batch_size", min(500, max(16, 2 ** round(math.log2(n_images / 10)))))
    steps = math.ceil(n_images / batch_size)
    return ImageSizes(
        wavelet_levels=levels,
        patch_size=pick("patch_size", 2 if levels or small else 4),
        depth=pick("depth", None if spatial else 5),
        n_repetitions=pick("n_repetitions", 1 if spatial else 5),
        n_sums=pick("n_sums", 16 if small else 32),
        max_shift=pick("max_shift", 0 if small else 2 if coloured else 1),
        cross_entropy_weight=pick("cross_entropy_weight", 0.5 if coloured else 0.8),
        leaf_dropout=pick("leaf_dropout", 0.0 if coloured or small else 0.1),
        learning_rate=pick("learning_rate", 0.05 if small else 0.02),
        n_epochs=pick("n_epochs", min(_MOST_EPOCHS, max(50, math.ceil(_STEPS / steps)))),
        batch_size=batch_size,
    )


def most_levels(height: int, width: int) -> int:
    """Levels of the wavelet that the sides of an image allow, at most two: each halves both."""
    return next(levels for levels in (2, 1, 0) if height % 2**levels == 0 == width % 2**levels)


def build_image_circuit(
    settings: Any, sizes: ImageSizes, shape: tuple[int, int, int], n_classes: int, seed: int
) -> Circuit:
    """An untrained circuit for images of a shape (H, W, C)."""
    height, width, channels = shape
    common: dict[str, Any] = {
        "n_sums": sizes.n_sums,
        "n_leaves": sizes.n_sums,
        "n_repetitions": sizes.n_repetitions,
        "depth": sizes.depth,
        "leaf": Gaussian(settings.min_variance, settings.max_variance),
        "seed": seed,
    }
    if settings.structure == "spatial":
        return spatial_spn(height, width, n_classes, n_channels=channels, patch_size=sizes.patch_size, **common)
    return rat_spn(height * width * channels, n_classes, **common)


def train_image_circuit(
    settings: Any,
    sizes: ImageSizes,
    encoder: PixelEncoder,
    train: Rows,
    log_prior: Tensor,
    *,
    member: Member,
    progress: Callable[[Epoch], None] | None,
) -> tuple[Circuit, History]:
    """A circuit trained on the flat bytes (N, V) of images and their classes, on their device."""
    seed = member.seed
    circuit = build_image_circuit(settings, sizes, encoder.shape, len(log_prior), seed)
    if settings.leaves_from_data:
        some = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[:_N_STARTS]
        initialise_leaves(circuit, encoder(train.x[some.to(train.x.device)]), seed)
    circuit.to(train.x.device)
    training = TrainingSettings(
        n_epochs=sizes.n_epochs,
        batch_size=sizes.batch_size,
        learning_rate=sizes.learning_rate,
        schedule=settings.learning_rate_schedule,
        cross_entropy_weight=sizes.cross_entropy_weight,
        dropout=settings.training_dropout,
        leaf_dropout=sizes.leaf_dropout,
        seed=seed,
    )
    with _fast_products():
        history = fit_gradient(
            circuit,
            train,
            training,
            log_prior,
            augment=Augmentation(sizes.max_shift, settings.max_noise, encoder),
            checkpoint=member.checkpoint,
            keep_checkpoint=not member.is_only,
            checkpoint_every=_CHECKPOINT_EVERY,
            progress=progress,
        )
    return circuit, history


@contextmanager
def _fast_products() -> Iterator[None]:
    """Let a GPU multiply matrices with fewer digits, which gradients can do without; answers are computed with all."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
