"""Gaussian leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from socratic.errors import check_number
from socratic.families.base import (
    MARGIN,
    Distribution,
    ExponentialFamily,
    Parameters,
    Plain,
    Scaling,
    column,
)
from socratic.kernels.leaves import gaussian_natural, takes_gaussian_natural

SMALLEST_VARIANCE = float(np.finfo(np.float32).tiny)
"""Of a single leaf: its inverse is still a number in float32."""


@dataclass(frozen=True)
class Gaussian(ExponentialFamily):
    """Leaves over the real numbers.

    Parameters
    ----------
    min_variance, max_variance : float
        Bounds of the variance, 0.1 and 1.0 by default as in RAT-SPNs, for standardised data.
        ``max_variance=None`` frees it: the variance is then ``min_variance`` plus anything positive.
    """

    name: ClassVar[str] = "gaussian"
    real: ClassVar[bool] = True
    scaling: ClassVar[Scaling] = "standard"
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

    @classmethod
    def of(cls, mean: float, variance: float) -> Distribution:
        """The Gaussian with this mean and variance, whose variance is free when it is trained."""
        mean, variance = check_number("mean", mean), check_number("variance", variance, SMALLEST_VARIANCE)
        return Distribution(cls(0.0, None), {"mean": mean, "variance": variance})

    def plain_log_density(self, plain: Plain, value: float) -> float:
        variance = plain["variance"]
        return -0.5 * (math.log(2 * math.pi * variance) + (value - plain["mean"]) ** 2 / variance)

    def describe(self, plain: Plain) -> str:
        return f"gaussian: mean {plain['mean']:.3g}, deviation {math.sqrt(plain['variance']):.3g}"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        pairs = zip(parameters["mean"].tolist(), self.variance(parameters).tolist(), strict=True)
        return [{"mean": mean, "variance": variance} for mean, variance in pairs]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        return {"mean": column(members, "mean"), "raw_variance": self._raw(column(members, "variance"), 0.0)}

    @property
    def neutral(self) -> Plain:
        return {"mean": 0.0, "variance": 1.0}

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"mean": torch.empty(n_slots, n_leaves), "raw_variance": torch.empty(n_slots, n_leaves)}

    def start(self, fitted: Parameters, examples: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """A leaf of several variables starts as a row that was seen."""
        return {"mean": examples, "raw_variance": torch.zeros_like(examples)}

    def within_bounds(self, parameters: Parameters) -> dict[str, Tensor]:
        raw = parameters["raw_variance"].double()
        if not bool(torch.isfinite(raw).all()):
            raise ValueError("the variances of gaussian leaves are not finite")
        low, high = math.log(SMALLEST_VARIANCE) + 1e-9, math.log(torch.finfo(raw.dtype).max) - 1e-9
        return {**parameters, "raw_variance": raw.clamp(low, high)}

    def mean(self, parameters: Parameters) -> Tensor:
        return parameters["mean"]

    def mode(self, parameters: Parameters) -> Tensor:
        return parameters["mean"]

    def variance(self, parameters: Parameters) -> Tensor:
        raw = parameters["raw_variance"]
        if self.max_variance is None:
            return self.min_variance + torch.exp(raw)
        return self.min_variance + (self.max_variance - self.min_variance) * torch.sigmoid(raw)

    def _raw(self, variance: Tensor, margin: float) -> Tensor:
        """The parameter that has this variance, or the nearest within the bounds."""
        excess = variance - self.min_variance
        if self.max_variance is None:
            return torch.log(excess.clamp_min(margin))
        share = excess / (self.max_variance - self.min_variance)
        return torch.logit(share.clamp(margin, 1.0 - margin))

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        return parameters["mean"] + torch.sqrt(self.variance(parameters)) * torch.special.ndtri(probability)

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        limit = self.largest_deviation(values.dtype)
        deviation = (values - parameters["mean"].unsqueeze(-1)).clamp(-limit, limit)
        variance = self.variance(parameters).unsqueeze(-1)
        return -0.5 * (deviation * deviation / variance + torch.log(2 * math.pi * variance))

    @property
    def n_statistics(self) -> int:
        return 3

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        limit = self.largest_deviation(values.dtype)
        z = (values - centre).clamp(-limit, limit)
        return [torch.ones_like(z), z, z * z]

    def largest_deviation(self, dtype: torch.dtype) -> float:
        """Far outside any data a square would overflow, meet another infinity or have no gradient: stop before."""
        return float(torch.finfo(dtype).max) ** 0.45

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        variance = self.variance(parameters)
        if takes_gaussian_natural(parameters["mean"], variance, centre):
            return gaussian_natural(parameters["mean"], variance, centre)
        deviation = parameters["mean"] - centre.unsqueeze(-1)
        precision = torch.reciprocal(variance)
        linear = deviation * precision
        constant = -0.5 * torch.addcmul(torch.log(2 * math.pi * variance), deviation, linear)
        return torch.stack([constant, linear, -0.5 * precision], dim=1)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        deviation = parameters["mean"] - centre.unsqueeze(-1)
        square = self.variance(parameters) + deviation * deviation
        return torch.stack([torch.ones_like(deviation), deviation, square], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        deviation = expected[:, 1]
        variance = expected[:, 2] - deviation * deviation
        mean = deviation + centre.unsqueeze(-1).to(deviation)
        return {"mean": mean, "raw_variance": self._raw(variance, margin)}

    def fit_column(self, values: np.ndarray) -> Distribution:
        """Mean and variance; a column without any spread says nothing about its scale, however it was rounded."""
        if not len(values):
            return self.of(**self.neutral)
        constant = values.std() <= 1e-12 * np.abs(values).max()
        return self.of(values.mean(), 1.0 if constant else max(values.var(), SMALLEST_VARIANCE))

    def fit_part(self, values: np.ndarray, whole: Distribution, *, rows: float, min_variance: float) -> Distribution:
        """A leaf of few values is kept from being narrow rather than drawn to the whole column."""
        if not len(values):
            return whole
        smallest = max(min_variance * whole.parameters["variance"], SMALLEST_VARIANCE)
        return self.of(values.mean(), max(values.var(), smallest))
