"""Leaf families: parametrised exponential families, evaluated for all leaves at once.

Every family writes its log-density as ``sum_k statistic_k(x) * natural_k``. The leaf layer then evaluates
all leaves of all regions as one batched matrix product, whatever the mixture of families, and a missing
value is marginalised by setting its statistics to zero.

A family is plain data (what to store in a model file) and pure functions of parameters; the parameters
themselves live in :class:`socratic.circuit.leaves.LeafLayer`. In the shapes below P counts the *slots* of a
family: one for each variable of each leaf region.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from socratic.distributions import Bernoulli as BernoulliLeaf
from socratic.distributions import Binomial as BinomialLeaf
from socratic.distributions import Categorical as CategoricalLeaf
from socratic.distributions import Distribution, Normal
from socratic.errors import check_choice, check_count

Parameters = Mapping[str, Tensor]

_MARGIN = 1e-6
"""Fitted probabilities and variances keep this distance from their bounds."""


@dataclass(frozen=True)
class Family(ABC):
    """A parametrised family of univariate distributions."""

    name: ClassVar[str]

    @abstractmethod
    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        """Empty parameters, each of shape (P, I) or (P, I, ...)."""

    @abstractmethod
    def reset_parameters(self, parameters: Parameters, generator: torch.Generator) -> None:
        """Draw the parameters anew, in place."""

    @abstractmethod
    def centre(self, parameters: Parameters) -> Tensor:
        """Reference value of each slot (P,), near its leaves: statistics are taken relative to it."""

    @abstractmethod
    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        """Natural parameters (P, T, I), one for each of the T statistics."""

    @abstractmethod
    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        """The T statistics of ``values`` (..., N), given each slot's ``centre`` (..., 1). No value is missing."""

    @abstractmethod
    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        """Expected statistics (P, T, I) under the leaves themselves."""

    @abstractmethod
    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        """Parameters whose leaves expect these statistics (P, T, I): the maximum likelihood of data that have them."""

    @property
    @abstractmethod
    def neutral(self) -> tuple[float, ...]:
        """Expected statistics (T,), relative to a centre of 0, of a leaf that knows nothing: for smoothing."""

    @abstractmethod
    def sample(self, parameters: Parameters, generator: torch.Generator) -> Tensor:
        """One value (M,) from each of M leaves, whose parameters are (M,) or (M, ...)."""

    def mass(self, totals: Tensor) -> Tensor:
        """How many observations summed statistics (P, T, I) hold: (P, 1, I)."""
        return totals[:, :1]  # the first statistic is 1

    @property
    def n_statistics(self) -> int:
        """Number of statistics, T."""
        return len(self.neutral)

    @abstractmethod
    def distribution(self, parameters: Parameters, slot: int, leaf: int) -> Distribution:
        """One leaf as a distribution of its own."""

    def invalid(self, values: Tensor) -> Tensor:
        """Which entries of ``values`` lie outside the domain; missing values do not."""
        return torch.zeros_like(values, dtype=torch.bool)

    @property
    def domain(self) -> str:
        """The domain in words, for error messages."""
        return "finite numbers"

    def to_dict(self) -> dict[str, Any]:
        """Name and settings, as stored in model files."""
        return {"family": self.name, **asdict(self)}


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

    def variance(self, parameters: Parameters) -> Tensor:
        """Variances (P, I)."""
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
        # Far outside any data the square would overflow to infinity and meet another infinity: stop before.
        limit = torch.finfo(values.dtype).max ** 0.45
        z = (values - centre).clamp(-limit, limit)
        return [torch.ones_like(z), z, z * z]

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        deviation = parameters["mean"] - centre.unsqueeze(-1)
        square = self.variance(parameters) + deviation * deviation
        return torch.stack([torch.ones_like(deviation), deviation, square], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        deviation = expected[:, 1]
        variance = expected[:, 2] - deviation * deviation
        mean = deviation + centre.unsqueeze(-1).to(deviation)
        if self.max_variance is None:
            excess = (variance - self.min_variance).clamp_min(_MARGIN)
            return {"mean": mean, "raw_variance": torch.log(excess)}
        share = (variance - self.min_variance) / (self.max_variance - self.min_variance)
        return {"mean": mean, "raw_variance": torch.logit(share.clamp(_MARGIN, 1.0 - _MARGIN))}

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, 0.0, 1.0)

    def sample(self, parameters: Parameters, generator: torch.Generator) -> Tensor:
        mean = parameters["mean"]
        noise = torch.empty_like(mean).normal_(generator=generator)
        return mean + torch.sqrt(self.variance(parameters)) * noise

    def distribution(self, parameters: Parameters, slot: int, leaf: int) -> Normal:
        member = {name: parameter[slot, leaf].double() for name, parameter in parameters.items()}
        return Normal(float(member["mean"]), float(self.variance(member)))


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

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        probability = torch.sigmoid(parameters["logit"])
        return torch.stack([torch.ones_like(probability), probability], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        return {"logit": torch.logit(expected[:, 1].clamp(_MARGIN, 1.0 - _MARGIN))}

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, 0.5)

    def sample(self, parameters: Parameters, generator: torch.Generator) -> Tensor:
        return torch.bernoulli(torch.sigmoid(parameters["logit"]), generator=generator)

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

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        return torch.softmax(parameters["logits"], dim=-1).mT

    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        return {"logits": torch.log(expected.clamp_min(_MARGIN)).mT}

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0 / self.n_categories,) * self.n_categories

    def mass(self, totals: Tensor) -> Tensor:
        return totals.sum(1, keepdim=True)

    def sample(self, parameters: Parameters, generator: torch.Generator) -> Tensor:
        probabilities = torch.softmax(parameters["logits"], dim=-1)
        if not len(probabilities):
            return probabilities.new_zeros(0)
        return torch.multinomial(probabilities, 1, generator=generator).squeeze(1)

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

    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        mean = self.n_trials * torch.sigmoid(parameters["logit"]) - centre.unsqueeze(-1)
        return torch.stack([torch.ones_like(mean), mean, torch.zeros_like(mean)], dim=1)

    def from_expectations(self, expected: Tensor, centre: Tensor) -> dict[str, Tensor]:
        share = (expected[:, 1] + centre.unsqueeze(-1).to(expected)) / self.n_trials
        return {"logit": torch.logit(share.clamp(_MARGIN, 1.0 - _MARGIN))}

    @property
    def neutral(self) -> tuple[float, ...]:
        return (1.0, self.n_trials / 2, 0.0)

    def sample(self, parameters: Parameters, generator: torch.Generator) -> Tensor:
        probability = torch.sigmoid(parameters["logit"])
        trials = torch.rand(
            (*probability.shape, self.n_trials), generator=generator, dtype=probability.dtype, device=probability.device
        )
        return (trials < probability.unsqueeze(-1)).sum(-1)

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


FAMILIES: dict[str, type[Family]] = {family.name: family for family in (Gaussian, Bernoulli, Categorical, Binomial)}


def as_family(value: str | Family) -> Family:
    """A family from its name (with default settings) or from itself."""
    if isinstance(value, Family):
        return value
    if not isinstance(value, str):
        raise ValueError(
            f"leaf must be the name of a family or one such as socratic.families.Gaussian(); got {value!r}"
        )
    check_choice("leaf", value, FAMILIES)
    return FAMILIES[value]()


def family_from_dict(data: Mapping[str, Any]) -> Family:
    """Rebuild a family from :meth:`Family.to_dict`."""
    settings = dict(data)
    name = settings.pop("family", None)
    check_choice("leaf family", name, FAMILIES)
    return FAMILIES[name](**settings)


def _not_whole(values: Tensor, largest: int) -> Tensor:
    return ((values < 0) | (values > largest) | (values != values.round())) & ~values.isnan()
