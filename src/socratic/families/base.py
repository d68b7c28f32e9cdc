"""What a leaf family is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from socratic.distributions import Distribution

Parameters = Mapping[str, Tensor]

MARGIN = 1e-6
"""Fitted probabilities and variances keep this distance from their bounds."""


@dataclass(frozen=True)
class Family(ABC):
    """A parametrised family of univariate distributions."""

    name: ClassVar[str]

    @abstractmethod
    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        """Empty parameters, each of shape (P, I) or (P, I, ...)."""

    @abstractmethod
    def reset_parameters(self, parameters: Parameters, generator: torch.Generator) -> None:
        """Draw the parameters anew, in place."""

    @abstractmethod
    def centre(self, parameters: Parameters) -> Tensor:
        """Reference value of each slot (P,), near its leaves: statistics are taken relative to it."""

    @abstractmethod
    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        """Natural parameters (P, T, I), one for each of the T statistics."""

    @abstractmethod
    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        """The T statistics of ``values`` (..., N), given each slot's ``centre`` (..., 1). No value is missing."""

    @abstractmethod
    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        """Expected statistics (P, T, I) under the leaves themselves."""

    @abstractmethod
    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        """Parameters whose leaves expect these statistics (P, T, I): the maximum likelihood of data that have them."""

    @property
    @abstractmethod
    def neutral(self) -> tuple[float, ...]:
        """Expected statistics (T,), relative to a centre of 0, of a leaf that knows nothing: for smoothing."""

    @abstractmethod
    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        """Smallest value (M,) of each of M leaves that is not exceeded with this probability (M,), between 0 and 1.

        Parameters are (M,) or (M, ...). At random probabilities these are samples.
        """

    @abstractmethod
    def mean(self, parameters: Parameters) -> Tensor:
        """Mean of each leaf, in the shape (P, I) or (M,) of its parameters."""

    @abstractmethod
    def variance(self, parameters: Parameters) -> Tensor:
        """Variance of each leaf, likewise."""

    @abstractmethod
    def mode(self, parameters: Parameters) -> Tensor:
        """Most probable value of each leaf, likewise."""

    @property
    def n_values(self) -> int | None:
        """How many values there are, from 0 on; None for densities."""
        return None

    @abstractmethod
    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        """Log-densities of ``values`` (..., N), leaf by leaf, none of them missing or outside the domain.

        Parameters are (...) or (..., n). Not an inner product of statistics: impossible values (a probability of
        exactly 0) and tiny variances keep their meaning.
        """

    def mass(self, totals: Tensor) -> Tensor:
        """How many observations summed statistics (P, T, I) hold: (P, 1, I)."""
        return totals[:, :1]  # the first statistic is 1

    @property
    def n_statistics(self) -> int:
        """Number of statistics, T."""
        return len(self.neutral)

    @abstractmethod
    def distribution(self, parameters: Parameters, slot: int, leaf: int) -> Distribution:
        """One leaf as a distribution of its own."""

    def invalid(self, values: Tensor) -> Tensor:
        """Which entries of ``values`` lie outside the domain; missing values do not."""
        return torch.zeros_like(values, dtype=torch.bool)

    @property
    def domain(self) -> str:
        """The domain in words, for error messages."""
        return "finite numbers"

    def to_dict(self) -> dict[str, Any]:
        """Name and settings, as stored in model files."""
        return {"family": self.name, **asdict(self)}
