"""Bernoulli leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from socratic.errors import check_number
from socratic.families.base import (
    MARGIN,
    Distribution,
    ExponentialFamily,
    Parameters,
    Plain,
    column,
    log_or_impossible,
)


@dataclass(frozen=True)
class Bernoulli(ExponentialFamily):
    """Leaves over {0, 1}."""

    name: ClassVar[str] = "bernoulli"
    unordered: ClassVar[bool] = True
    jitter: ClassVar[float] = 1.0

    @property
    def n_values(self) -> int:
        return 2

    def invalid(self, values: Tensor) -> Tensor:
        return (values != 0) & (values != 1) & ~values.isnan()

    @property
    def domain(self) -> str:
        return "0 or 1"

    @classmethod
    def of(cls, probability: float) -> Distribution:
        """1 with this probability, otherwise 0."""
        return Distribution(cls(), {"probability": check_number("probability", probability, 0.0, 1.0)})

    def of_table(self, probabilities: np.ndarray) -> Distribution:
        return self.of(float(probabilities[1]))

    def plain_log_density(self, plain: Plain, value: float) -> float:
        return log_or_impossible({0.0: 1.0 - plain["probability"], 1.0: plain["probability"]}.get(value, 0.0))

    def describe(self, plain: Plain) -> str:
        return f"bernoulli: {plain['probability']:.3g}"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        return [{"probability": chance} for chance in self.mean(parameters).tolist()]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        return {"logit": torch.logit(column(members, "probability"))}

    @property
    def neutral(self) -> Plain:
        return {"probability": 0.5}

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"logit": torch.empty(n_slots, n_leaves)}

    def mean(self, parameters: Parameters) -> Tensor:
        return torch.sigmoid(parameters["logit"])

    def variance(self, parameters: Parameters) -> Tensor:
        return torch.sigmoid(parameters["logit"]) * torch.sigmoid(-parameters["logit"])

    def mode(self, parameters: Parameters) -> Tensor:
        return (parameters["logit"] > 0).to(parameters["logit"].dtype)

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        return (probability > torch.sigmoid(-parameters["logit"])).to(parameters["logit"].dtype)

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        logit = parameters["logit"].unsqueeze(-1)
        return torch.where(values == 1, functional.logsigmoid(logit), functional.logsigmoid(-logit))

    def centre(self, parameters: Parameters) -> Tensor:
        return torch.zeros_like(parameters["logit"][:, 0])

    @property
    def n_statistics(self) -> int:
        return 2

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        return [torch.ones_like(values), values]

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        logit = parameters["logit"]
        return torch.stack([functional.logsigmoid(-logit), logit], dim=1)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        probability = torch.sigmoid(parameters["logit"])
        return torch.stack([torch.ones_like(probability), probability], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        return {"logit": torch.logit(expected[:, 1].clamp(margin, 1.0 - margin))}

    def fit_column(self, values: np.ndarray) -> Distribution:
        return self.of((values.sum() + 1.0) / (len(values) + 2.0))

    def fit_part(self, values: np.ndarray, whole: Distribution, *, rows: float, min_variance: float) -> Distribution:
        total = len(values) + rows
        return self.of((values.sum() + rows * whole.parameters["probability"]) / total) if total else whole
