"""Leaves over finitely many values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from socratic.distributions import Bernoulli as BernoulliLeaf
from socratic.distributions import Binomial as BinomialLeaf
from socratic.distributions import Categorical as CategoricalLeaf
from socratic.errors import check_count
from socratic.families.base import MARGIN, Family, Parameters
from socratic.numerics import scale_dtype


@dataclass(frozen=True)
class Bernoulli(Family):
    """Leaves over {0, 1}."""

    name: ClassVar[str] = "bernoulli"

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"logit": torch.empty(n_slots, n_leaves)}

    def reset_parameters(self, parameters: Parameters, generator: torch.Generator) -> None:
        parameters["logit"].normal_(generator=generator)

    def centre(self, parameters: Parameters) -> Tensor:
        return torch.zeros_like(parameters["logit"][:, 0])

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        logit = parameters["logit"]
        return torch.stack([functional.logsigmoid(-logit), logit], dim=1)

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        return [torch.ones_like(values), values]

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        yes, no = _log_chances(parameters)
        return torch.where(values == 1, yes, no)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        probability = torch.sigmoid(parameters["logit"])
        return torch.stack([torch.ones_like(probability), probability], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        return {"logit": torch.logit(expected[:, 1].clamp(MARGIN, 1.0 - MARGIN))}

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, 0.5)

    def mean(self, parameters: Parameters) -> Tensor:
        return torch.sigmoid(parameters["logit"])

    def variance(self, parameters: Parameters) -> Tensor:
        return torch.sigmoid(parameters["logit"]) * torch.sigmoid(-parameters["logit"])

    def mode(self, parameters: Parameters) -> Tensor:
        return (parameters["logit"] > 0).to(parameters["logit"].dtype)

    @property
    def n_values(self) -> int:
        return 2

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        return (probability > torch.sigmoid(-parameters["logit"])).to(parameters["logit"].dtype)

    def distribution(self, parameters: Parameters, slot: int, leaf: int) -> BernoulliLeaf:
        return BernoulliLeaf(float(torch.sigmoid(parameters["logit"][slot, leaf].double())))

    def invalid(self, values: Tensor) -> Tensor:
        return (values != 0) & (values != 1) & ~values.isnan()

    @property
    def domain(self) -> str:
        return "0 or 1"


@dataclass(frozen=True)
class Categorical(Family):
    """Leaves over the categories 0 to ``n_categories - 1``."""

    name: ClassVar[str] = "categorical"
    n_categories: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_categories", check_count("n_categories", self.n_categories))

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"logits": torch.empty(n_slots, n_leaves, self.n_categories)}

    def reset_parameters(self, parameters: Parameters, generator: torch.Generator) -> None:
        parameters["logits"].normal_(generator=generator)

    def centre(self, parameters: Parameters) -> Tensor:
        return torch.zeros_like(parameters["logits"][:, 0, 0])

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        return torch.log_softmax(parameters["logits"], dim=-1).mT

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        return [(values == category).to(values.dtype) for category in range(self.n_categories)]

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        return torch.log_softmax(parameters["logits"], dim=-1).gather(-1, values.long())

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        return torch.softmax(parameters["logits"], dim=-1).mT

    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        return {"logits": torch.log(expected.clamp_min(MARGIN)).mT}

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0 / self.n_categories,) * self.n_categories

    def mass(self, totals: Tensor) -> Tensor:
        return totals.sum(1, keepdim=True)

    def mean(self, parameters: Parameters) -> Tensor:
        probabilities = torch.softmax(parameters["logits"], dim=-1)
        return probabilities @ self._codes(probabilities)

    def variance(self, parameters: Parameters) -> Tensor:
        probabilities = torch.softmax(parameters["logits"], dim=-1)
        deviation = self._codes(probabilities) - self.mean(parameters).unsqueeze(-1)
        return (probabilities * deviation * deviation).sum(-1)

    def mode(self, parameters: Parameters) -> Tensor:
        return parameters["logits"].argmax(-1).to(parameters["logits"].dtype)

    @property
    def n_values(self) -> int:
        return self.n_categories

    def _codes(self, like: Tensor) -> Tensor:
        return torch.arange(self.n_categories, dtype=like.dtype, device=like.device)

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        cumulated = torch.softmax(parameters["logits"].to(probability), dim=-1).cumsum(-1)
        wanted = probability.unsqueeze(-1) * cumulated[:, -1:]  # the total is 1 up to rounding
        return torch.searchsorted(cumulated, wanted).squeeze(-1)

    def distribution(self, parameters: Parameters, slot: int, leaf: int) -> CategoricalLeaf:
        probabilities = torch.softmax(parameters["logits"][slot, leaf].double(), dim=-1)
        return CategoricalLeaf(tuple(probabilities.tolist()))

    def invalid(self, values: Tensor) -> Tensor:
        return _not_whole(values, self.n_categories - 1)

    @property
    def domain(self) -> str:
        return f"whole numbers from 0 to {self.n_categories - 1}"


@dataclass(frozen=True)
class Binomial(Family):
    """Leaves over the counts 0 to ``n_trials``."""

    name: ClassVar[str] = "binomial"
    n_trials: int = 255

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_trials", check_count("n_trials", self.n_trials))

    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        return {"logit": torch.empty(n_slots, n_leaves)}

    def reset_parameters(self, parameters: Parameters, generator: torch.Generator) -> None:
        parameters["logit"].normal_(generator=generator)

    def centre(self, parameters: Parameters) -> Tensor:
        return self.n_trials * torch.sigmoid(parameters["logit"].mean(-1))

    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        logit = parameters["logit"]
        reference = centre.unsqueeze(-1)
        constant = logit * reference - self.n_trials * functional.softplus(logit)
        constant = constant + self._log_choose(reference)
        return torch.stack([constant, logit, torch.ones_like(logit)], dim=1)

    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        # The last statistic is the base measure, relative to the centre so that nothing large cancels.
        base = self._log_choose(values) - self._log_choose(centre)
        return [torch.ones_like(values), values - centre, base]

    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        yes, no = _log_chances(parameters)
        choices = self._log_choose(values.to(scale_dtype(values))).to(values)  # large logarithms cancel
        # Not a product where nothing happened: 0 times the logarithm of 0 is no number.
        misses = self.n_trials - values
        return choices + torch.where(values > 0, values * yes, 0.0) + torch.where(misses > 0, misses * no, 0.0)

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        mean = self.n_trials * torch.sigmoid(parameters["logit"]) - centre.unsqueeze(-1)
        return torch.stack([torch.ones_like(mean), mean, torch.zeros_like(mean)], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        share = (expected[:, 1] + centre.unsqueeze(-1).to(expected)) / self.n_trials
        return {"logit": torch.logit(share.clamp(MARGIN, 1.0 - MARGIN))}

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, self.n_trials / 2, 0.0)

    def mean(self, parameters: Parameters) -> Tensor:
        return self.n_trials * torch.sigmoid(parameters["logit"])

    def variance(self, parameters: Parameters) -> Tensor:
        return self.mean(parameters) * torch.sigmoid(-parameters["logit"])

    def mode(self, parameters: Parameters) -> Tensor:
        return torch.floor((self.n_trials + 1) * torch.sigmoid(parameters["logit"])).clamp(max=self.n_trials)

    @property
    def n_values(self) -> int:
        return self.n_trials + 1

    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        from scipy.stats import binom

        chance = torch.sigmoid(parameters["logit"].to(probability))
        values = binom.ppf(probability.cpu().numpy(), self.n_trials, chance.cpu().numpy())
        return torch.as_tensor(values).to(probability)

    def distribution(self, parameters: Parameters, slot: int, leaf: int) -> BinomialLeaf:
        return BinomialLeaf(self.n_trials, float(torch.sigmoid(parameters["logit"][slot, leaf].double())))

    def invalid(self, values: Tensor) -> Tensor:
        return _not_whole(values, self.n_trials)

    @property
    def domain(self) -> str:
        return f"whole numbers from 0 to {self.n_trials}"

    def _log_choose(self, k: Tensor) -> Tensor:
        n = k.new_full((), float(self.n_trials))
        return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)


def _log_chances(parameters: Parameters) -> tuple[Tensor, Tensor]:
    """Logarithms (..., 1) of the probabilities of yes and no."""
    logit = parameters["logit"].unsqueeze(-1)
    return functional.logsigmoid(logit), functional.logsigmoid(-logit)


def _not_whole(values: Tensor, largest: int) -> Tensor:
    return ((values < 0) | (values > largest) | (values != values.round())) & ~values.isnan()
