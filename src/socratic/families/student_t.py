"""Student-t leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from socratic.errors import check_number
from socratic.families.base import MARGIN, Distribution, Family, Parameters, Plain, Scaling, column

_SMALLEST_SCALE = 1e-18
"""Of a single leaf: its square is still a number in float32."""
_FEWEST_DEGREES = 2.01


@dataclass(frozen=True)
class StudentT(Family):
    """Leaves over the real numbers with heavy tails: outliers neither surprise them much nor move them far.

    Parameters
    ----------
    degrees : float
        Degrees of freedom, above 2 so that there is a variance; the larger, the closer to a Gaussian.
    min_scale : float
        Smallest scale, for standardised data.
    """

    name: ClassVar[str] = "student-t"
    real: ClassVar[bool] = True
    scaling: ClassVar[Scaling] = "standard"
    n_fitting_steps: ClassVar[int] = 50
    degrees: float = 4.0
    min_scale: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "degrees", check_number("degrees", self.degrees, _FEWEST_DEGREES))
        object.__setattr__(self, "min_scale", check_number("min_scale", self.min_scale, 0.0))

    @classmethod
    def of(cls, location: float, scale: float, degrees: float = 4.0) -> Distribution:
        """The distribution with this centre, scale and number of degrees of freedom."""
        location, scale = check_number("location", location), check_number("scale", scale, _SMALLEST_SCALE)
        family = cls(degrees, 0.0)
        return Distribution(family, {"location": location, "scale": scale, "degrees": family.degrees})

    def plain_log_density(self, plain: Plain, value: float) -> float:
        deviation = (value - plain["location"]) / plain["scale"]
        return self._constant() - math.log(plain["scale"]) - self._power * math.log1p(deviation**2 / self.degrees)

    def describe(self, plain: Plain) -> str:
        return f"student-t: location {plain['location']:.3g}, scale {plain['scale']:.3g}, {self.degrees:.3g} degrees"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        pairs = zip(parameters["location"].tolist(), self._scale(parameters).tolist(), strict=True)
        return [{"location": location, "scale": scale, "degrees": self.degrees} for location, scale in pairs]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        return {"location": column(members, "location"), "raw_scale": self._raw(column(members, "scale"), 0.0)}

    @property
    def neutral(self) -> Plain:
        return {"location": 0.0, "scale": 1.0, "degrees": self.degrees}

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"location": torch.empty(n_slots, n_leaves), "raw_scale": torch.empty(n_slots, n_leaves)}

    def start(self, fitted: Parameters, examples: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """A leaf of several variables starts as a row that was seen."""
        return {"location": examples, "raw_scale": torch.full_like(examples, math.log(0.5))}

    def within_bounds(self, parameters: Parameters) -> dict[str, Tensor]:
        return {**parameters, "raw_scale": parameters["raw_scale"].double().clamp_min(math.log(2 * _SMALLEST_SCALE))}

    @property
    def _power(self) -> float:
        return 0.5 * (self.degrees + 1)

    def _constant(self) -> float:
        """Log-density at the centre of a leaf of scale 1."""
        return math.lgamma(self._power) - math.lgamma(0.5 * self.degrees) - 0.5 * math.log(math.pi * self.degrees)

    def _scale(self, parameters: Parameters) -> Tensor:
        return self.min_scale + torch.exp(parameters["raw_scale"])

    def _raw(self, scale: Tensor, margin: float) -> Tensor:
        return torch.log((scale - self.min_scale).clamp_min(margin))

    def _squares(self, parameters: Parameters, values: Tensor) -> Tensor:
        """Squared deviations of ``values`` (..., N) from their leaves (...), in units of the leaves' scales."""
        limit = float(torch.finfo(values.dtype).max) ** 0.45  # far outside any data the square would overflow
        deviation = (values - parameters["location"].unsqueeze(-1)) / self._scale(parameters).unsqueeze(-1)
        return deviation.clamp(-limit, limit) ** 2

    def mean(self, parameters: Parameters) -> Tensor:
        return parameters["location"]

    def variance(self, parameters: Parameters) -> Tensor:
        return self._scale(parameters) ** 2 * (self.degrees / (self.degrees - 2))

    def mode(self, parameters: Parameters) -> Tensor:
        return parameters["location"]

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        from scipy.special import stdtrit

        standard = torch.as_tensor(stdtrit(self.degrees, probability.cpu().numpy())).to(probability)
        return parameters["location"] + self._scale(parameters) * standard

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        tails = self._power * torch.log1p(self._squares(parameters, values) / self.degrees)
        return self._constant() - torch.log(self._scale(parameters)).unsqueeze(-1) - tails

    @property
    def n_statistics(self) -> int:
        return 4

    def leaf_statistics(self, parameters: Parameters, values: Tensor, centre: Tensor) -> list[Tensor]:
        # A Student-t is a mixture of Gaussians of all widths: what a value counts for is the expected inverse width.
        counts = (self.degrees + 1) / (self.degrees + self._squares(parameters, values))
        z = values - centre
        return [torch.ones_like(counts), counts, counts * z, counts * z * z]

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        deviation = parameters["location"] - centre.unsqueeze(-1)
        one = torch.ones_like(deviation)
        return torch.stack([one, one, deviation, self._scale(parameters) ** 2 + deviation * deviation], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        counts = expected[:, 1].clamp_min(torch.finfo(expected.dtype).tiny)
        deviation = expected[:, 2] / counts
        square = (expected[:, 3] - deviation * expected[:, 2]).clamp_min(0.0)
        smallest = max(margin, 2 * _SMALLEST_SCALE)
        return {
            "location": deviation + centre.unsqueeze(-1).to(deviation),
            "raw_scale": self._raw(torch.sqrt(square), smallest),
        }

    def fit_column(self, values: np.ndarray) -> Distribution:
        """A column without any spread says nothing about its scale, however it was rounded."""
        if len(values) and values.std() <= 1e-12 * np.abs(values).max():
            return self.of(values.mean(), 1.0, self.degrees)
        return super().fit_column(values)

    def fit_part(self, values: np.ndarray, whole: Distribution, *, rows: float, min_variance: float) -> Distribution:
        """A leaf of few values is kept from being narrow rather than drawn to the whole column."""
        if not len(values):
            return type(self).of(**whole.parameters)
        free = StudentT(self.degrees, 0.0)
        towards = {name: value.unsqueeze(1) for name, value in free.from_plain([whole.parameters]).items()}
        known = torch.from_numpy(values).unsqueeze(0)
        fitted = free.fit(known, torch.ones_like(known), towards=towards, rows=0.0, margin=0.0)
        smallest = max(math.sqrt(min_variance) * whole.parameters["scale"], 2 * _SMALLEST_SCALE)
        scale = float(free._scale(fitted))
        return self.of(float(fitted["location"]), max(scale, smallest), self.degrees)
