"""Gamma leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from socratic.errors import check_number
from socratic.families.base import MARGIN, Distribution, ExponentialFamily, Parameters, Plain, Scaling, column
from socratic.numerics import log_gamma, scale_dtype

_SMALLEST = 1e-12
_SMALLEST_EXCESS = 1e-6
_SMALLEST_GAP = 1e-6
"""Between the logarithm of the mean and the mean logarithm: data without any spread would have no finite shape."""
_NEWTON_STEPS = 6


@dataclass(frozen=True)
class Gamma(ExponentialFamily):
    """Leaves over positive numbers with a peak and a tail to the right, such as sizes and durations.

    The shape is at least 1: with less, the density at 0 would be infinite, and no value the most probable.
    """

    name: ClassVar[str] = "gamma"
    scaling: ClassVar[Scaling] = "scale"

    def invalid(self, values: Tensor) -> Tensor:
        return values <= 0

    @property
    def domain(self) -> str:
        return "numbers above 0"

    @classmethod
    def of(cls, shape: float, mean: float) -> Distribution:
        """Numbers with this mean, and a standard deviation of the mean over the root of the shape."""
        shape, mean = check_number("shape", shape, 1.0), check_number("mean", mean, _SMALLEST)
        return Distribution(cls(), {"shape": shape, "mean": mean})

    def plain_log_density(self, plain: Plain, value: float) -> float:
        if value <= 0:
            return -math.inf
        shape, rate = plain["shape"], plain["shape"] / plain["mean"]
        return shape * math.log(rate) - math.lgamma(shape) + (shape - 1) * math.log(value) - rate * value

    def describe(self, plain: Plain) -> str:
        return f"gamma: mean {plain['mean']:.3g}, deviation {plain['mean'] / math.sqrt(plain['shape']):.3g}"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        means = self.mean(parameters).clamp_min(_SMALLEST)
        pairs = zip(self._shape(parameters).tolist(), means.tolist(), strict=True)
        return [{"shape": shape, "mean": mean} for shape, mean in pairs]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        excess = (column(members, "shape") - 1.0).clamp_min(_SMALLEST_EXCESS)
        return {"log_excess": torch.log(excess), "log_mean": torch.log(column(members, "mean"))}

    @property
    def neutral(self) -> Plain:
        return {"shape": 2.0, "mean": 1.0}

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"log_excess": torch.empty(n_slots, n_leaves), "log_mean": torch.empty(n_slots, n_leaves)}

    def _shape(self, parameters: Parameters) -> Tensor:
        return 1.0 + torch.exp(parameters["log_excess"])

    def mean(self, parameters: Parameters) -> Tensor:
        return torch.exp(parameters["log_mean"])

    def variance(self, parameters: Parameters) -> Tensor:
        return torch.exp(2 * parameters["log_mean"]) / self._shape(parameters)

    def mode(self, parameters: Parameters) -> Tensor:
        return self.mean(parameters) * torch.sigmoid(parameters["log_excess"])  # (shape - 1) / shape

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        from scipy.special import gammaincinv

        shape = self._shape(parameters).to(probability)
        standard = torch.as_tensor(gammaincinv(shape.cpu().numpy(), probability.cpu().numpy())).to(probability)
        return (standard / shape * self.mean(parameters)).clamp_min(torch.finfo(torch.float32).tiny)

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        # Relative to the density at the mean: there the terms that grow with the shape meet and cancel.
        shape, mean = self._shape(parameters).unsqueeze(-1), self.mean(parameters).unsqueeze(-1)
        excess = (values - mean) / mean
        logarithm = torch.log(values / mean)
        return self._log_density_at(parameters, mean) - logarithm - shape * (excess - logarithm)

    def _log_density_at(self, parameters: Parameters, values: Tensor) -> Tensor:
        """Log-densities of ``values`` (..., N), computed with all digits."""
        wide = scale_dtype(values)
        shape = self._shape(parameters).unsqueeze(-1).to(wide)
        log_rate = torch.log(shape) - parameters["log_mean"].unsqueeze(-1).to(wide)
        x = values.to(wide)
        found = shape * log_rate - log_gamma(shape) + (shape - 1) * torch.log(x) - torch.exp(log_rate) * x
        return found.to(values.dtype)

    @property
    def n_statistics(self) -> int:
        return 3

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        # With the ratio z to the centre: log z, and z - 1 - log z, which is small where log z and z - 1 cancel.
        logarithm = torch.log(values / centre)
        return [torch.ones_like(values), logarithm, (values - centre) / centre - logarithm]

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        shape, reference = self._shape(parameters), centre.unsqueeze(-1)
        slope = shape * reference / self.mean(parameters)
        constant = self._log_density_at(parameters, reference.unsqueeze(-1)).squeeze(-1)
        return torch.stack([constant, torch.exp(parameters["log_excess"]) - slope, -slope], dim=1)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        shape, reference = self._shape(parameters), centre.unsqueeze(-1)
        logarithm = torch.digamma(shape) - torch.log(shape) + parameters["log_mean"] - torch.log(reference)
        ratio = self.mean(parameters) / reference
        return torch.stack([torch.ones_like(ratio), logarithm, ratio - 1 - logarithm], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        ratio = (1 + expected[:, 1] + expected[:, 2]).clamp_min(_SMALLEST)
        gap = (torch.log(ratio) - expected[:, 1]).clamp_min(_SMALLEST_GAP)
        excess = (_shape_of_gap(gap) - 1.0).clamp_min(max(margin, _SMALLEST_EXCESS))
        return {"log_excess": torch.log(excess), "log_mean": torch.log(ratio * centre.unsqueeze(-1).to(expected))}


def _shape_of_gap(gap: Tensor) -> Tensor:
    """The shape whose logarithm exceeds its digamma by ``gap``, by Newton's method from a close approximation."""
    wide = gap.to(scale_dtype(gap))  # logarithm and digamma of a large shape agree in most digits
    shape = (3 - wide + torch.sqrt((wide - 3) ** 2 + 24 * wide)) / (12 * wide)
    for _ in range(_NEWTON_STEPS):
        error = torch.log(shape) - torch.digamma(shape) - wide
        step = error / (1 / shape - torch.polygamma(1, shape))
        shape = torch.maximum(shape - step, 0.1 * shape)
    return shape.to(gap.dtype)
