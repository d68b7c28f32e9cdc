"""Poisson leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from socratic.errors import check_number
from socratic.families.base import MARGIN, Distribution, ExponentialFamily, Parameters, Plain, column, not_whole
from socratic.numerics import log_gamma, scale_dtype

_SMALLEST_RATE = 1e-12


@dataclass(frozen=True)
class Poisson(ExponentialFamily):
    """Leaves over the counts 0, 1, 2, ... without an end."""

    name: ClassVar[str] = "poisson"

    def invalid(self, values: Tensor) -> Tensor:
        return not_whole(values)

    @property
    def domain(self) -> str:
        return "whole numbers of at least 0"

    @classmethod
    def of(cls, rate: float) -> Distribution:
        """Counts with this mean."""
        return Distribution(cls(), {"rate": check_number("rate", rate, _SMALLEST_RATE)})

    def plain_log_density(self, plain: Plain, value: float) -> float:
        if not (value.is_integer() and value >= 0):
            return -math.inf
        return value * math.log(plain["rate"]) - plain["rate"] - math.lgamma(value + 1)

    def describe(self, plain: Plain) -> str:
        return f"poisson: mean {plain['rate']:.3g}"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        return [{"rate": rate} for rate in self.mean(parameters).clamp_min(_SMALLEST_RATE).tolist()]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        return {"log_rate": torch.log(column(members, "rate"))}

    @property
    def neutral(self) -> Plain:
        return {"rate": 1.0}

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"log_rate": torch.empty(n_slots, n_leaves)}

    def mean(self, parameters: Parameters) -> Tensor:
        return torch.exp(parameters["log_rate"])

    def variance(self, parameters: Parameters) -> Tensor:
        return self.mean(parameters)

    def mode(self, parameters: Parameters) -> Tensor:
        return torch.floor(self.mean(parameters))

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        from scipy.stats import poisson

        rate = self.mean(parameters).to(probability)
        return torch.as_tensor(poisson.ppf(probability.cpu().numpy(), rate.cpu().numpy())).to(probability)

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        log_rate = parameters["log_rate"].unsqueeze(-1)
        return values * log_rate - torch.exp(log_rate) - _log_factorial(values).to(values.dtype)

    @property
    def n_statistics(self) -> int:
        return 3

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        # The last statistic is the base measure, relative to the centre so that nothing large cancels.
        base = (_log_factorial(centre) - _log_factorial(values)).to(values.dtype)
        return [torch.ones_like(values), values - centre, base]

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        log_rate, reference = parameters["log_rate"], centre.unsqueeze(-1)
        wide = log_rate.to(scale_dtype(log_rate))  # large numbers cancel
        constant = (wide * reference - torch.exp(wide) - _log_factorial(reference)).to(log_rate.dtype)
        return torch.stack([constant, log_rate, torch.ones_like(log_rate)], dim=1)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        mean = self.mean(parameters) - centre.unsqueeze(-1)
        return torch.stack([torch.ones_like(mean), mean, torch.zeros_like(mean)], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        rate = expected[:, 1] + centre.unsqueeze(-1).to(expected)
        return {"log_rate": torch.log(rate.clamp_min(max(margin, _SMALLEST_RATE)))}


def _log_factorial(values: Tensor) -> Tensor:
    return log_gamma(values.to(scale_dtype(values)) + 1)
