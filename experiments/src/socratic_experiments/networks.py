"""The neural networks that circuits are compared with: a multilayer perceptron and LeNet-5, alone or as an ensemble."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from socratic import Posterior
from socratic.errors import ModelFileError, check_choice
from socratic.files import replacing
from socratic.images import Augmentation, Images, PixelEncoder
from socratic.learning import learning_rate_factor
from socratic_experiments.normalisation import encoder_for
from socratic_experiments.settings import NETWORKS, NetworkRecipe

_CHUNK = 4096
MIN_SIDE = 8
"""Pixels that LeNet-5 needs each way."""


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """One or more trained networks.

    Attributes
    ----------
    kind : str
        One of ``settings.NETWORKS``.
    n_classes : int
    width : int
        Of the hidden layers of a perceptron.
    dropout : float
        The rate of Monte Carlo dropout, which is that of training.
    members : nn.ModuleList
        Networks from normalised images (N, C, H, W) to logits.
    encoder : PixelEncoder
    """

    kind: str
    n_classes: int
    width: int
    dropout: float
    members: nn.ModuleList
    encoder: PixelEncoder

    @property
    def n_parameters(self) -> int:
        """Number of learnable parameters of all members."""
        return sum(parameter.numel() for parameter in self.members.parameters())

    def normalised(self, images: np.ndarray, normalise: str) -> NetworkModel:
        """The model to ask about images (N, H, W, C): see :func:`encoder_for`."""
        return replace(self, encoder=encoder_for(images, self.encoder, normalise))

    @torch.no_grad()
    def posterior(self, images: np.ndarray, n_passes: int | None = None, seed: int = 0) -> Posterior:
        """The mean posterior (N, C) of the members on images (N, H, W, C), or of passes of each with dropout."""
        rows = self.encoder(self.encoder.bytes_of(images)).view(-1, *_channels_first(self.encoder))
        with torch.random.fork_rng(devices=[rows.device] if rows.is_cuda else []):
            torch.manual_seed(seed)
            return Posterior.concatenate([self._posterior(part, n_passes) for part in rows.split(_CHUNK)])

    def _posterior(self, rows: Tensor, n_passes: int | None) -> Posterior:
        self.members.train(n_passes is not None)
        passes = [torch.softmax(member(rows), 1) for member in self.members for _ in range(n_passes or 1)]
        probabilities = torch.stack(passes).double()  # (passes, N, C)
        mean = probabilities.mean(0)
        doubt = torch.special.entr(mean).sum(1)
        information = doubt - torch.special.entr(probabilities).sum(2).mean(0)
        return Posterior(mean, probabilities.std(0, correction=0), doubt, information, None, "monte-carlo")

    def save(self, path: Path) -> None:
        """Write the networks to a file."""
        sizes = {"n_classes": self.n_classes, "width": self.width, "dropout": self.dropout}
        encoder = {"shape": self.encoder.shape, "mean": self.encoder.mean, "scale": self.encoder.scale}
        members = [member.state_dict() for member in self.members]
        with replacing(path) as draft:
            torch.save({"kind": self.kind, "sizes": sizes, "encoder": encoder, "members": members}, draft)

    @classmethod
    def load(cls, path: Path, device: torch.device) -> NetworkModel:
        """Read the networks that :meth:`save` wrote; nothing in the file is run."""
        try:
            found = torch.load(path, map_location=device, weights_only=True)
            encoder = PixelEncoder(0, **found["encoder"])
            members = nn.ModuleList(
                build_network(found["kind"], encoder.shape, **found["sizes"]) for _ in found["members"]
            )
            for member, state in zip(members, found["members"], strict=True):
                member.load_state_dict(state)
        except (LookupError, RuntimeError, TypeError, ValueError, pickle.UnpicklingError) as error:
            raise ModelFileError(f"{path} does not hold networks ({error}); delete it") from error
        return cls(found["kind"], **found["sizes"], members=members.to(device).eval(), encoder=encoder)


def build_network(kind: str, shape: tuple[int, int, int], n_classes: int, width: int, dropout: float) -> nn.Sequential:
    """An untrained network for images of a shape (H, W, C); ``width`` is that of a perceptron's two hidden layers."""
    check_choice("kind", kind, NETWORKS)
    height, side, channels = shape
    if kind == "LeNet-5" and min(height, side) < MIN_SIDE:
        raise ValueError(f"LeNet-5 needs images of at least {MIN_SIDE} pixels each way; got {height} x {side}")
    if kind == "MLP":
        hidden = [nn.Flatten(), nn.Linear(height * side * channels, width), nn.ReLU(), nn.Dropout(dropout)]
        return nn.Sequential(
            *hidden, nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, n_classes)
        )
    # LeNet-5 reads 32 x 32 pixels: smaller images are filled up where they are smaller.
    padding = 2 if min(height, side) < 32 else 0
    small = min(height, side) < 16
    features = nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=padding),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(dropout),
        nn.Conv2d(6, 16, 5, padding=2 if small else 0),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(dropout),
        nn.Flatten(),
    )
    with torch.no_grad():
        n_features = features(torch.zeros(1, channels, height, side)).shape[1]
    return nn.Sequential(
        features,
        nn.Linear(n_features, 120),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(84, n_classes),
    )


def width_for(n_parameters: int, n_inputs: int, n_classes: int) -> int:
    """The width at which a perceptron of two hidden layers has about this many parameters."""
    linear = n_inputs + n_classes + 2
    return max(8, round((math.sqrt(linear * linear + 4 * n_parameters) - linear) / 2))


def train_networks(
    recipe: NetworkRecipe,
    train: Images,
    *,
    n_classes: int,
    n_parameters: int,
    seed: int,
    device: torch.device,
    progress: Callable[[float], None] | None = None,
) -> tuple[NetworkModel, float]:
    """Train the members on the same images; return them and the seconds that took.

    Parameters
    ----------
    n_parameters : int
        About how many a perceptron gets.
    progress : callable, optional
        Called after every epoch of every member, with its loss.
    """
    encoder = PixelEncoder.fit(train.images).to(device)
    flat = encoder.bytes_of(train.images)
    labels = torch.as_tensor(train.labels, device=device)
    width = width_for(n_parameters, flat.shape[1], n_classes)
    members = nn.ModuleList()
    start = time.perf_counter()
    for number in range(recipe.n_members):
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(1000 * seed + number)
            member = build_network(recipe.kind, encoder.shape, n_classes, width, recipe.dropout).to(device)
            for loss in _epochs(member, recipe, flat, labels, encoder, 1000 * seed + number):
                if not math.isfinite(loss):
                    raise ValueError(f"the training of {recipe.kind} diverged; choose a smaller learning_rate")
                if progress is not None:
                    progress(loss)
        members.append(member.eval())
    return NetworkModel(recipe.kind, n_classes, width, recipe.dropout, members, encoder), time.perf_counter() - start


def _epochs(
    network: nn.Module, recipe: NetworkRecipe, flat: Tensor, labels: Tensor, encoder: PixelEncoder, seed: int
) -> Iterator[float]:
    """Train a network and yield the loss of each epoch."""
    generator = torch.Generator(flat.device).manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate)
    n_steps = recipe.n_epochs * math.ceil(len(flat) / recipe.batch_size)
    augment = Augmentation(recipe.max_shift, recipe.max_noise, encoder)
    step = 0
    network.train()
    for _ in range(recipe.n_epochs):
        total = torch.zeros((), device=flat.device)
        for batch in torch.randperm(len(flat), generator=generator, device=flat.device).split(recipe.batch_size):
            for group in optimiser.param_groups:
                group["lr"] = recipe.learning_rate * learning_rate_factor(step, n_steps)
            logits = network(augment(flat[batch], generator).view(-1, *_channels_first(encoder)))
            loss = nn.functional.cross_entropy(logits, labels[batch])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.detach() * len(batch)
            step += 1
        yield float(total) / len(flat)


def _channels_first(encoder: PixelEncoder) -> tuple[int, int, int]:
    height, width, channels = encoder.shape
    return channels, height, width
