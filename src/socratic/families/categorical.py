"""Categorical leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from socratic.errors import check_count
from socratic.families.base import (
    MARGIN,
    Distribution,
    ExponentialFamily,
    Family,
    Parameters,
    Plain,
    check_probabilities,
    column,
    listed,
    log_or_impossible,
    not_whole,
)


@dataclass(frozen=True)
class Categorical(ExponentialFamily):
    """Leaves over the categories 0 to ``n_categories - 1``."""

    name: ClassVar[str] = "categorical"
    unordered: ClassVar[bool] = True
    one_hot: ClassVar[bool] = True
    jitter: ClassVar[float] = 1.0
    n_categories: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_categories", check_count("n_categories", self.n_categories))

    @property
    def n_values(self) -> int:
        return self.n_categories

    def invalid(self, values: Tensor) -> Tensor:
        return not_whole(values, self.n_categories - 1)

    @property
    def domain(self) -> str:
        return f"whole numbers from 0 to {self.n_categories - 1}"

    @classmethod
    def for_values(cls, values: np.ndarray) -> Family:
        """As many categories as the largest code has."""
        return cls(int(values.max(initial=0)) + 1)

    @classmethod
    def of(cls, probabilities: Sequence[float]) -> Distribution:
        """Category ``k`` with probability ``probabilities[k]``."""
        known = check_probabilities(probabilities)
        return Distribution(cls(len(known)), {"probabilities": known})

    def of_table(self, probabilities: np.ndarray) -> Distribution:
        return self.of(probabilities.tolist())

    def plain_log_density(self, plain: Plain, value: float) -> float:
        known = value.is_integer() and 0 <= value < self.n_categories
        return log_or_impossible(plain["probabilities"][int(value)]) if known else -math.inf

    def describe(self, plain: Plain) -> str:
        return f"categorical: {listed(plain['probabilities'])}"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        return [{"probabilities": tuple(row)} for row in torch.softmax(parameters["logits"], dim=-1).tolist()]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        probabilities = column(members, "probabilities")
        return {"logits": torch.log(probabilities / probabilities.sum(-1, keepdim=True))}

    @property
    def neutral(self) -> Plain:
        return {"probabilities": (1.0 / self.n_categories,) * self.n_categories}

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"logits": torch.empty(n_slots, n_leaves, self.n_categories)}

    def mean(self, parameters: Parameters) -> Tensor:
        probabilities = torch.softmax(parameters["logits"], dim=-1)
        return probabilities @ self._codes(probabilities)

    def variance(self, parameters: Parameters) -> Tensor:
        probabilities = torch.softmax(parameters["logits"], dim=-1)
        deviation = self._codes(probabilities) - self.mean(parameters).unsqueeze(-1)
        return (probabilities * deviation * deviation).sum(-1)

    def mode(self, parameters: Parameters) -> Tensor:
        return parameters["logits"].argmax(-1).to(parameters["logits"].dtype)

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        cumulated = torch.softmax(parameters["logits"].to(probability), dim=-1).cumsum(-1)
        wanted = probability.unsqueeze(-1) * cumulated[:, -1:]  # the total is 1 up to rounding
        return torch.searchsorted(cumulated, wanted).squeeze(-1).to(probability)

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        return torch.log_softmax(parameters["logits"], dim=-1).gather(-1, values.long())

    def centre(self, parameters: Parameters) -> Tensor:
        return torch.zeros_like(parameters["logits"][:, 0, 0])

    @property
    def n_statistics(self) -> int:
        return self.n_categories

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        return [(values == category).to(values.dtype) for category in range(self.n_categories)]

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        return torch.log_softmax(parameters["logits"], dim=-1).mT

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        return torch.softmax(parameters["logits"], dim=-1).mT

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        return {"logits": torch.log(expected.clamp_min(margin)).mT}

    def mass(self, totals: Tensor) -> Tensor:
        return totals.sum(1, keepdim=True)

    def fit_column(self, values: np.ndarray) -> Distribution:
        return self.of_table(self._shares(self._counts(values) + 1.0))

    def fit_part(self, values: np.ndarray, whole: Distribution, *, rows: float, min_variance: float) -> Distribution:
        counts = self._counts(values) + rows * np.array(whole.parameters["probabilities"])
        return self.of_table(self._shares(counts)) if counts.sum() > 0 else whole

    def _counts(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(values.astype(np.int64), minlength=self.n_categories)

    @staticmethod
    def _shares(counts: np.ndarray) -> np.ndarray:
        return counts / counts.sum()

    def _codes(self, like: Tensor) -> Tensor:
        return torch.arange(self.n_categories, dtype=like.dtype, device=like.device)
