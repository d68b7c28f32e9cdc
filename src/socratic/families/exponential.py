"""Exponential leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from socratic.errors import check_number
from socratic.families.base import MARGIN, Distribution, ExponentialFamily, Parameters, Plain, Scaling, column

_SMALLEST_MEAN = 1e-12


@dataclass(frozen=True)
class Exponential(ExponentialFamily):
    """Leaves over numbers from 0 on that are the less probable the larger they are, such as waiting times."""

    name: ClassVar[str] = "exponential"
    scaling: ClassVar[Scaling] = "scale"

    def invalid(self, values: Tensor) -> Tensor:
        return values < 0

    @property
    def domain(self) -> str:
        return "numbers of at least 0"

    @classmethod
    def of(cls, mean: float) -> Distribution:
        """Numbers with this mean."""
        return Distribution(cls(), {"mean": check_number("mean", mean, _SMALLEST_MEAN)})

    def plain_log_density(self, plain: Plain, value: float) -> float:
        return -math.log(plain["mean"]) - value / plain["mean"] if value >= 0 else -math.inf

    def describe(self, plain: Plain) -> str:
        return f"exponential: mean {plain['mean']:.3g}"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        return [{"mean": mean} for mean in self.mean(parameters).clamp_min(_SMALLEST_MEAN).tolist()]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        return {"log_mean": torch.log(column(members, "mean"))}

    @property
    def neutral(self) -> Plain:
        return {"mean": 1.0}

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"log_mean": torch.empty(n_slots, n_leaves)}

    def mean(self, parameters: Parameters) -> Tensor:
        return torch.exp(parameters["log_mean"])

    def variance(self, parameters: Parameters) -> Tensor:
        return torch.exp(2 * parameters["log_mean"])

    def mode(self, parameters: Parameters) -> Tensor:
        return torch.zeros_like(parameters["log_mean"])

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        return -self.mean(parameters) * torch.log1p(-probability)

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        log_mean = parameters["log_mean"].unsqueeze(-1)
        return -log_mean - values * torch.exp(-log_mean)

    @property
    def n_statistics(self) -> int:
        return 2

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        return [torch.ones_like(values), values - centre]

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        rate = torch.exp(-parameters["log_mean"])
        return torch.stack([-parameters["log_mean"] - rate * centre.unsqueeze(-1), -rate], dim=1)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        mean = self.mean(parameters) - centre.unsqueeze(-1)
        return torch.stack([torch.ones_like(mean), mean], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        mean = expected[:, 1] + centre.unsqueeze(-1).to(expected)
        return {"log_mean": torch.log(mean.clamp_min(max(margin, _SMALLEST_MEAN)))}
