"""Binomial leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from socratic.errors import check_count, check_number
from socratic.families.base import (
    MARGIN,
    Distribution,
    ExponentialFamily,
    Family,
    Parameters,
    Plain,
    column,
    log_or_impossible,
    not_whole,
)
from socratic.numerics import log_gamma, scale_dtype

_LARGEST_LOGIT = 100.0
"""In layered circuits: log-odds are multiplied by counts, and no digits are left beyond."""


@dataclass(frozen=True)
class Binomial(ExponentialFamily):
    """Leaves over the counts 0 to ``n_trials``."""

    name: ClassVar[str] = "binomial"
    n_trials: int = 255

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_trials", check_count("n_trials", self.n_trials))

    @property
    def n_values(self) -> int:
        return self.n_trials + 1

    def invalid(self, values: Tensor) -> Tensor:
        return not_whole(values, self.n_trials)

    @property
    def domain(self) -> str:
        return f"whole numbers from 0 to {self.n_trials}"

    @classmethod
    def for_values(cls, values: np.ndarray) -> Family:
        """As many trials as the largest count."""
        return cls(max(1, int(values.max(initial=1.0))))

    @classmethod
    def of(cls, n_trials: int, probability: float) -> Distribution:
        """Number of successes in so many trials of this probability."""
        family = cls(n_trials)
        probability = check_number("probability", probability, 0.0, 1.0)
        return Distribution(family, {"n_trials": family.n_trials, "probability": probability})

    def plain_log_density(self, plain: Plain, value: float) -> float:
        if not (value.is_integer() and 0 <= value <= self.n_trials):
            return -math.inf
        hits, misses = int(value), self.n_trials - int(value)
        return (
            math.log(math.comb(self.n_trials, hits))
            + (hits * log_or_impossible(plain["probability"]) if hits else 0.0)
            + (misses * log_or_impossible(1.0 - plain["probability"]) if misses else 0.0)
        )

    def describe(self, plain: Plain) -> str:
        return f"binomial: {self.n_trials} trials of {plain['probability']:.3g}"

    def to_plain(self, parameters: Parameters) -> list[Plain]:
        chances = torch.sigmoid(parameters["logit"]).tolist()
        return [{"n_trials": self.n_trials, "probability": chance} for chance in chances]

    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        return {"logit": torch.logit(column(members, "probability"))}

    @property
    def neutral(self) -> Plain:
        return {"n_trials": self.n_trials, "probability": 0.5}

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"logit": torch.empty(n_slots, n_leaves)}

    def finite(self, parameters: Parameters) -> dict[str, Tensor]:
        return {"logit": parameters["logit"].clamp(-_LARGEST_LOGIT, _LARGEST_LOGIT)}

    def mean(self, parameters: Parameters) -> Tensor:
        return self.n_trials * torch.sigmoid(parameters["logit"])

    def variance(self, parameters: Parameters) -> Tensor:
        return self.mean(parameters) * torch.sigmoid(-parameters["logit"])

    def mode(self, parameters: Parameters) -> Tensor:
        return torch.floor((self.n_trials + 1) * torch.sigmoid(parameters["logit"])).clamp(max=self.n_trials)

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        from scipy.stats import binom

        chance = torch.sigmoid(parameters["logit"].to(probability))
        values = binom.ppf(probability.cpu().numpy(), self.n_trials, chance.cpu().numpy())
        return torch.as_tensor(values).to(probability)

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        logit = parameters["logit"].unsqueeze(-1)
        yes, no = functional.logsigmoid(logit), functional.logsigmoid(-logit)
        choices = self._log_choose(values.to(scale_dtype(values))).to(values)  # large logarithms cancel
        # Not a product where nothing happened: 0 times the logarithm of 0 is no number.
        misses = self.n_trials - values
        return choices + torch.where(values > 0, values * yes, 0.0) + torch.where(misses > 0, misses * no, 0.0)

    def centre(self, parameters: Parameters) -> Tensor:
        return self.n_trials * torch.sigmoid(parameters["logit"].mean(-1))

    @property
    def n_statistics(self) -> int:
        return 3

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        # The last statistic is the base measure, relative to the centre so that nothing large cancels.
        base = self._log_choose(values) - self._log_choose(centre)
        return [torch.ones_like(values), values - centre, base]

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        logit = parameters["logit"]
        reference = centre.unsqueeze(-1)
        constant = logit * reference - self.n_trials * functional.softplus(logit)
        constant = constant + self._log_choose(reference)
        return torch.stack([constant, logit, torch.ones_like(logit)], dim=1)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        mean = self.mean(parameters) - centre.unsqueeze(-1)
        return torch.stack([torch.ones_like(mean), mean, torch.zeros_like(mean)], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        share = (expected[:, 1] + centre.unsqueeze(-1).to(expected)) / self.n_trials
        return {"logit": torch.logit(share.clamp(margin, 1.0 - margin))}

    def fit_part(self, values: np.ndarray, whole: Distribution, *, rows: float, min_variance: float) -> Distribution:
        total = len(values) + rows
        share = values.sum() / self.n_trials + rows * whole.parameters["probability"]
        return self.of(self.n_trials, share / total) if total else whole

    def _log_choose(self, k: Tensor) -> Tensor:
        n = k.new_full((), float(self.n_trials))
        return log_gamma(n + 1) - log_gamma(k + 1) - log_gamma(n - k + 1)
