"""Leaves over the real numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor

from socratic.distributions import Normal
from socratic.families.base import MARGIN, Family, Parameters


@dataclass(frozen=True)
class Gaussian(Family):
    """Gaussian leaves.

    Parameters
    ----------
    min_variance, max_variance : float
        Bounds of the variance, 0.1 and 1.0 by default as in RAT-SPNs, for standardised data.
        ``max_variance=None`` frees it: the variance is then ``min_variance`` plus anything positive.
    """

    name: ClassVar[str] = "gaussian"
    min_variance: float = 0.1
    max_variance: float | None = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.min_variance, Real) or not 0.0 <= self.min_variance < math.inf:
            raise ValueError(f"min_variance must be a number of at least 0; got {self.min_variance!r}")
        object.__setattr__(self, "min_variance", float(self.min_variance))
        if self.max_variance is None:
            return
        if not isinstance(self.max_variance, Real):
            raise ValueError(f"max_variance must be a number or None; got {self.max_variance!r}")
        object.__setattr__(self, "max_variance", float(self.max_variance))
        if self.min_variance == 0.0 or not self.min_variance < self.max_variance < math.inf:
            raise ValueError(
                "a bounded variance needs 0 < min_variance < max_variance; "
                f"got {self.min_variance!r} and {self.max_variance!r}"
            )

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"mean": torch.empty(n_slots, n_leaves), "raw_variance": torch.empty(n_slots, n_leaves)}

    def reset_parameters(self, parameters: Parameters, generator: torch.Generator) -> None:
        parameters["mean"].normal_(generator=generator)
        parameters["raw_variance"].normal_(generator=generator)

    def mean(self, parameters: Parameters) -> Tensor:
        return parameters["mean"]

    def mode(self, parameters: Parameters) -> Tensor:
        return parameters["mean"]

    def variance(self, parameters: Parameters) -> Tensor:
        raw = parameters["raw_variance"]
        if self.max_variance is None:
            return self.min_variance + torch.exp(raw)
        return self.min_variance + (self.max_variance - self.min_variance) * torch.sigmoid(raw)

    def centre(self, parameters: Parameters) -> Tensor:
        return parameters["mean"].mean(-1)

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        variance = self.variance(parameters)
        deviation = parameters["mean"] - centre.unsqueeze(-1)
        precision = 1.0 / variance
        constant = -0.5 * (deviation * deviation * precision + torch.log(2 * math.pi * variance))
        return torch.stack([constant, deviation * precision, -0.5 * precision], dim=1)

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        limit = _largest_deviation(values)
        z = (values - centre).clamp(-limit, limit)
        return [torch.ones_like(z), z, z * z]

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        limit = _largest_deviation(values)
        deviation = (values - parameters["mean"].unsqueeze(-1)).clamp(-limit, limit)
        variance = self.variance(parameters).unsqueeze(-1)
        return -0.5 * (deviation * deviation / variance + torch.log(2 * math.pi * variance))

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        deviation = parameters["mean"] - centre.unsqueeze(-1)
        square = self.variance(parameters) + deviation * deviation
        return torch.stack([torch.ones_like(deviation), deviation, square], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        deviation = expected[:, 1]
        variance = expected[:, 2] - deviation * deviation
        mean = deviation + centre.unsqueeze(-1).to(deviation)
        if self.max_variance is None:
            excess = (variance - self.min_variance).clamp_min(MARGIN)
            return {"mean": mean, "raw_variance": torch.log(excess)}
        share = (variance - self.min_variance) / (self.max_variance - self.min_variance)
        return {"mean": mean, "raw_variance": torch.logit(share.clamp(MARGIN, 1.0 - MARGIN))}

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, 0.0, 1.0)

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        return parameters["mean"] + torch.sqrt(self.variance(parameters)) * torch.special.ndtri(probability)

    def distribution(self, parameters: Parameters, slot: int, leaf: int) -> Normal:
        member = {name: parameter[slot, leaf].double() for name, parameter in parameters.items()}
        return Normal(float(member["mean"]), float(self.variance(member)))


def _largest_deviation(values: Tensor) -> float:
    """Far outside any data a square would overflow, meet another infinity or have no gradient: stop before."""
    return float(torch.finfo(values.dtype).max) ** 0.45
