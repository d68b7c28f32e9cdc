"""What training needs to know and what it reports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from socratic.errors import check_choice, check_count, check_rate
from socratic.notebook import MOST_ROWS, number, with_note
from socratic.pages import table

SCHEDULES = ("cosine", "constant")


class Source(Protocol):
    """Rows to train on, which come in batches, from memory or from elsewhere."""

    def __len__(self) -> int:
        """How many rows there are."""

    def batches(self, batch_size: int, seed: int) -> Iterator[Rows]:
        """All rows once, so many at a time and the rest at the end, in an order that the seed alone decides."""

    def pieces(self, n_rows: int) -> Iterator[Rows]:
        """All rows once, at most so many at a time, in the order that they are kept in."""

    def class_weights(self, n_classes: int) -> np.ndarray:
        """What the rows of each class weigh together: (C,)."""

    def to(self, device: torch.device) -> Source:
        """The same rows, whose batches and pieces come on another device."""

    def digest(self) -> bytes:
        """What tells these rows from others: a checkpoint is named by it."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of data: values (N, V), class numbers (N,) and positive weights (N,)."""

    x: Tensor
    y: Tensor
    weight: Tensor

    def take(self, index: Tensor | slice) -> Rows:
        """Some of the rows."""
        return Rows(self.x[index], self.y[index], self.weight[index])

    @classmethod
    def concatenate(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, in their order."""
        return cls(*(torch.cat([getattr(part, name) for part in parts]) for name in ("x", "y", "weight")))

    def to(self, device: torch.device) -> Rows:
        """The same rows on another device."""
        return Rows(self.x.to(device), self.y.to(device), self.weight.to(device))

    def clone(self) -> Rows:
        """The same rows in memory of their own."""
        return Rows(self.x.clone(), self.y.clone(), self.weight.clone())

    def copy_(self, other: Rows) -> None:
        """Put other rows, as many, in the place of these."""
        for name in ("x", "y", "weight"):
            getattr(self, name).copy_(getattr(other, name))

    def batches(self, batch_size: int, seed: int) -> Iterator[Rows]:
        """All rows once, so many at a time and the rest at the end, in an order that the seed alone decides."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        for index in order.to(self.x.device).split(batch_size):
            yield self.take(index)

    def pieces(self, n_rows: int) -> Iterator[Rows]:
        """All rows once, so many at a time and the rest at the end, in their order."""
        for start in range(0, len(self), n_rows):
            yield self.take(slice(start, start + n_rows))

    def split(self, sizes: Sequence[int]) -> list[Rows]:
        """The rows in consecutive parts of these sizes."""
        return list(map(Rows, self.x.split(sizes), self.y.split(sizes), self.weight.split(sizes)))

    def class_weights(self, n_classes: int) -> np.ndarray:
        """What the rows of each class weigh together: (C,)."""
        return np.bincount(self.y.cpu().numpy(), self.weight.double().cpu().numpy(), minlength=n_classes)

    def digest(self) -> bytes:
        """What tells these rows from others."""
        digest = hashlib.blake2b(digest_size=16)
        for tensor in (self.x, self.y, self.weight):
            digest.update(tensor.detach().cpu().numpy().tobytes())
        return digest.digest()

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of gradient training.

    Parameters
    ----------
    n_epochs, batch_size : int
        Passes over the rows, and rows per step.
    learning_rate : float
        Peak of the schedule.
    schedule : {"cosine", "constant"}
        A linear warm-up over the first tenth of the steps and a cosine to zero, or the same rate throughout.
    cross_entropy_weight : float
        The lambda of the RAT-SPN paper: 1 trains the class posterior alone, 0 the likelihood per variable alone.
    dropout, leaf_dropout : float
        Dropout in training, on the children of sums and on univariate leaves.
    patience : int or None
        Stop after this many epochs without a better validation loss; None: never.
    seed : int
        Decides the order of rows and the masks.
    """

    n_epochs: int
    batch_size: int
    learning_rate: float = 0.02
    schedule: str = "cosine"
    cross_entropy_weight: float = 1.0
    dropout: float = 0.0
    leaf_dropout: float = 0.0
    patience: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("n_epochs", self.n_epochs)
        check_count("batch_size", self.batch_size)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_rate("dropout", self.dropout)
        check_rate("leaf_dropout", self.leaf_dropout)
        if not 0.0 <= self.cross_entropy_weight <= 1.0:
            raise ValueError(f"cross_entropy_weight must be between 0 and 1; got {self.cross_entropy_weight!r}")
        if not self.learning_rate > 0.0:
            raise ValueError(f"learning_rate must be positive; got {self.learning_rate!r}")


class Epoch(NamedTuple):
    """One epoch: its number, the mean training loss, and the validation loss (NaN without validation rows)."""

    number: int
    loss: float
    validation_loss: float


@dataclass(frozen=True)
class History:
    """The epochs of a training, and the number of the one whose parameters were kept."""

    epochs: tuple[Epoch, ...]
    best: int

    def _repr_html_(self) -> str:
        last = self.epochs[-MOST_ROWS:]
        rows = [
            [str(epoch.number), number(epoch.loss), number(epoch.validation_loss), "kept" * (epoch.number == self.best)]
            for epoch in last
        ]
        before = len(self.epochs) - len(last)
        note = f"{before:,} epochs before these. The parameters of epoch {self.best} were kept."
        return with_note(table(["epoch", "loss", "validation loss", ""], rows), note)
