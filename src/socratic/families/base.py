"""What a leaf family is.

A family is plain data (its settings, stored in model files) and pure functions of parameters. The parameters of many
leaves are tensors without bounds, fit for gradients, and live in the leaves of circuits and graphs. One leaf of its own
is a :class:`Distribution`: the same parameters as plain numbers, in the units people use.

In the shapes below P counts the *slots* of a family, one for each variable of each leaf region, I the leaves of a slot,
and T the family's statistics.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from socratic.errors import check_number

Parameters = Mapping[str, Tensor]
"""Parameters of leaves by name, each (P, I) or (P, I, ...); or (M,), (M, ...) of M leaves picked one by one."""

Plain = Mapping[str, Any]
"""Parameters of one leaf as plain numbers: the arguments of the family's ``of``."""

Scaling = Literal["standard", "scale", "range", "none"]
"""How to scale a table's column: to mean 0 and deviation 1; to mean 1, keeping 0; to 0 to 1; not at all."""

MARGIN = 1e-6
"""Fitted probabilities and variances keep this distance from their bounds."""

_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Distribution:
    """One member of a family: what a single leaf holds. Its family's ``of`` makes it and checks its parameters.

    It computes in plain Python floats, apart from the tensor code, so each is a check on the other.
    """

    family: Family
    parameters: Plain

    def log_density(self, value: float) -> float:
        """Log-density or log-probability of ``value``; minus infinity outside the domain."""
        return self.family.plain_log_density(self.parameters, float(value))

    def describe(self) -> str:
        """One line for people, such as ``gaussian: mean 20, deviation 2``."""
        return self.family.describe(self.parameters)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self.family).__name__}.of({arguments})"


@dataclass(frozen=True)
class Family(ABC):
    """A parametrised family of univariate distributions. What a subclass has to say is abstract here."""

    name: ClassVar[str]
    unordered: ClassVar[bool] = False
    """Whether values are names for categories rather than numbers."""
    real: ClassVar[bool] = False
    """Whether every finite number is a value, so that averages of values are values."""
    scaling: ClassVar[Scaling] = "none"
    jitter: ClassVar[float] = 0.3
    """How far apart leaves :meth:`start`, in the units of the parameters."""
    n_fitting_steps: ClassVar[int] = 1
    """How often :meth:`fit` has to improve on its last answer."""
    of: ClassVar[Callable[..., Distribution]]
    """The member with these plain parameters."""

    # Values

    @property
    def n_values(self) -> int | None:
        """How many values there are, from 0 on; None if they are not finitely many."""
        return None

    def invalid(self, values: Tensor) -> Tensor:
        """Which entries of ``values`` lie outside the domain; missing values do not."""
        return torch.zeros_like(values, dtype=torch.bool)

    @property
    def domain(self) -> str:
        """The domain in words, for error messages."""
        return "finite numbers"

    @classmethod
    def for_values(cls, values: np.ndarray) -> Family:  # noqa: ARG003 - for subclasses
        """The family to take for a column of these ``values`` (N,), none of them missing, if no settings are given."""
        return cls()

    # One member, in plain numbers

    @abstractmethod
    def plain_log_density(self, plain: Plain, value: float) -> float:
        """See :meth:`Distribution.log_density`."""

    @abstractmethod
    def describe(self, plain: Plain) -> str:
        """See :meth:`Distribution.describe`."""

    @abstractmethod
    def to_plain(self, parameters: Parameters) -> list[Plain]:
        """The plain parameters of M leaves, whose tensors are (M,) or (M, ...)."""

    @abstractmethod
    def from_plain(self, members: Sequence[Plain]) -> dict[str, Tensor]:
        """Parameters (M,) or (M, ...) of M members, in float64."""

    @property
    @abstractmethod
    def neutral(self) -> Plain:
        """The member that knows nothing of the data."""

    def of_table(self, probabilities: np.ndarray) -> Distribution:
        """The member with these probabilities of the values 0, 1, ..., of a family that is :attr:`unordered`."""
        raise TypeError(f"{self.name} leaves have no table of probabilities")

    @property
    def neutral_rows(self) -> float:
        """Rows of the neutral member to add to a whole column: none where values have no unit of their own."""
        return 1.0 if self.scaling == "none" else 0.0

    def distributions(self, parameters: Parameters) -> list[Distribution]:
        """M leaves, whose tensors are (M,) or (M, ...), as distributions of their own."""
        wide = {name: value.detach().cpu().double() for name, value in parameters.items()}
        return [type(self).of(**plain) for plain in self.to_plain(wide)]

    # Parameters of many leaves

    @property
    def n_parameters(self) -> int:
        """Number of parameters of a leaf."""
        return sum(value.numel() for value in self.initial_parameters(1, 1).values())

    @abstractmethod
    def initial_parameters(self, n_slots: int, n_leaves: int) -> dict[str, Tensor]:
        """Empty parameters, each of shape (P, I) or (P, I, ...)."""

    def reset_parameters(self, parameters: Parameters, generator: torch.Generator) -> None:
        """Draw the parameters anew, in place."""
        for value in parameters.values():
            value.normal_(generator=generator)

    def start(self, fitted: Parameters, examples: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Parameters for leaves that start near the data and apart from each other.

        Parameters
        ----------
        fitted : Parameters (P, 1, ...)
            Of the leaf that fits each slot's column best.
        examples : Tensor (P, I)
            A value of the column for each leaf; leaves of one index have values of one row.
        generator : torch.Generator
        """
        started = {}
        for name, value in fitted.items():
            shape = (*examples.shape, *value.shape[2:])
            noise = torch.randn(shape, generator=generator, dtype=value.dtype, device=generator.device)
            started[name] = value + self.jitter * noise
        return started

    def within_bounds(self, parameters: Parameters) -> dict[str, Tensor]:
        """The nearest parameters that have :meth:`distributions`: rounding and learning can lead beyond them."""
        return dict(parameters)

    def finite(self, parameters: Parameters) -> dict[str, Tensor]:
        """Parameters for layered circuits: infinity (a probability of 0) times an absent statistic is undefined."""
        return {name: value.clamp(-1e30, 1e30) for name, value in parameters.items()}

    @abstractmethod
    def log_density(self, parameters: Parameters, values: Tensor) -> Tensor:
        """Log-densities of ``values`` (..., N), leaf by leaf, none of them missing or outside the domain.

        Parameters are (...) or (..., n). Not an inner product of statistics: impossible values (a probability of
        exactly 0) and tiny variances keep their meaning.
        """

    @abstractmethod
    def mean(self, parameters: Parameters) -> Tensor:
        """Mean of each leaf, in the shape (P, I) or (M,) of its parameters."""

    @abstractmethod
    def variance(self, parameters: Parameters) -> Tensor:
        """Variance of each leaf, likewise."""

    @abstractmethod
    def mode(self, parameters: Parameters) -> Tensor:
        """Most probable value of each leaf, likewise."""

    @abstractmethod
    def quantile(self, parameters: Parameters, probability: Tensor) -> Tensor:
        """Smallest value (M,) of each of M leaves that is not exceeded with this probability (M,), between 0 and 1.

        Parameters are (M,) or (M, ...). At random probabilities these are samples.
        """

    # Fitting: parameters from averages of statistics, of one kind in expectation maximisation and for single columns

    def centre(self, parameters: Parameters) -> Tensor:
        """Reference value of each slot (P,), near its leaves: statistics are taken relative to it."""
        return self.mean(parameters).mean(-1)

    @property
    @abstractmethod
    def n_statistics(self) -> int:
        """Number of statistics, T."""

    @abstractmethod
    def leaf_statistics(self, parameters: Parameters, values: Tensor, centre: Tensor) -> list[Tensor]:
        """The T statistics of ``values`` (..., N) under leaves (...), relative to ``centre`` (..., 1).

        Each is (..., N) or broadcasts to it; no value is missing.
        """

    @abstractmethod
    def expectations(self, parameters: Parameters, centre: Tensor) -> Tensor:
        """Expected statistics (P, T, I) under the leaves themselves, relative to the slots' ``centre`` (P,)."""

    @abstractmethod
    def from_expectations(self, expected: Tensor, centre: Tensor, margin: float = MARGIN) -> dict[str, Tensor]:
        """Parameters whose leaves expect these statistics (P, T, I): the maximum likelihood of data that have them.

        ``margin`` is the distance that probabilities and variances keep from their bounds.
        """

    def mass(self, totals: Tensor) -> Tensor:
        """How many observations summed statistics (P, T, I) hold: (P, 1, I)."""
        return totals[:, :1]  # the first statistic is 1

    def fit(
        self, values: Tensor, weight: Tensor, *, towards: Parameters, rows: float, margin: float = MARGIN
    ) -> dict[str, Tensor]:
        """Parameters (P, 1) or (P, 1, ...) of the leaf that fits weighted values best.

        Parameters
        ----------
        values, weight : Tensor (P, N)
            Values and their weights of at least 0; NaN is missing.
        towards : Parameters (P, 1) or (P, 1, ...)
            What the leaf is without any values.
        rows : float
            How many rows that counts for.
        margin : float
            See :meth:`from_expectations`.
        """
        missing = values.isnan()
        weight = weight.masked_fill(missing, 0.0)
        total = weight.sum(-1)
        centre = (values.nan_to_num(0.0) * weight).sum(-1) / total.clamp_min(torch.finfo(total.dtype).tiny)
        centre = torch.where(total > 0, centre, self.mean(towards).squeeze(-1))
        known = torch.where(missing, centre.unsqueeze(-1), values).unsqueeze(1)  # (P, 1, N)
        fitted = dict(towards)
        for _ in range(self.n_fitting_steps):
            statistics = self.leaf_statistics(fitted, known, centre.view(-1, 1, 1))
            totals = torch.stack([(value * weight.unsqueeze(1)).sum(-1) for value in statistics], dim=1)  # (P, T, 1)
            totals = totals + rows * self.expectations(towards, centre)
            mass = self.mass(totals)
            average = totals / mass.clamp_min(torch.finfo(mass.dtype).tiny)
            found = self.from_expectations(average, centre, margin)
            empty = mass.squeeze(1) <= 0
            fitted = {n: torch.where(_like(empty, v), towards[n], v) for n, v in found.items()}
        return fitted

    def fit_column(self, values: np.ndarray) -> Distribution:
        """The member for a whole column of ``values`` (N,), none of them missing; there may be none."""
        rows = self.neutral_rows if len(values) else 1.0
        return self.fit_part(values, Distribution(self, self.neutral), rows=rows, min_variance=0.0)

    def fit_part(self, values: np.ndarray, whole: Distribution, *, rows: float, min_variance: float) -> Distribution:
        """The member for some ``values`` (N,) of a column, kept from overfitting them.

        Parameters
        ----------
        values : ndarray (N,)
            In float64, none missing; there may be none.
        whole : Distribution
            The member for the whole column.
        rows : float
            Rows to add that are distributed as the whole column is; families with ``min_variance`` add none.
        min_variance : float
            Smallest variance, as a share of the whole column's, of Gaussian and Student-t leaves.
        """
        towards = {name: value.unsqueeze(1) for name, value in self.from_plain([whole.parameters]).items()}
        known = torch.from_numpy(values).unsqueeze(0)
        fitted = self.fit(known, torch.ones_like(known), towards=towards, rows=rows, margin=0.0)
        return self.distributions({name: value[0] for name, value in fitted.items()})[0]

    # Storage

    def to_dict(self) -> dict[str, Any]:
        """Name and settings, as stored in model files."""
        return {"family": self.name, **asdict(self)}


@dataclass(frozen=True)
class ExponentialFamily(Family):
    """A family whose log-density is ``sum_k statistic_k(x) * natural_k``.

    The leaf layer then evaluates all leaves of all regions as one batched matrix product, whatever the mixture of
    families, and a missing value is marginalised by setting its statistics to zero.
    """

    one_hot: ClassVar[bool] = False
    """Whether the k-th statistic of a value is 1 if the value is k, and 0 otherwise."""

    @abstractmethod
    def natural(self, parameters: Parameters, centre: Tensor) -> Tensor:
        """Natural parameters (P, T, I), one for each of the T statistics."""

    @abstractmethod
    def statistics(self, values: Tensor, centre: Tensor) -> list[Tensor]:
        """The T statistics of ``values`` (..., N), given each slot's ``centre`` (..., 1). No value is missing."""

    def leaf_statistics(self, parameters: Parameters, values: Tensor, centre: Tensor) -> list[Tensor]:
        """The same for all leaves."""
        return self.statistics(values, centre)

    def largest_deviation(self, dtype: torch.dtype) -> float | None:
        """How far from the centre a value is taken as it is, where the T statistics are the powers of the deviation.

        None where they are something else. The first power is 1.
        """
        return None


def check_probabilities(values: Any) -> tuple[float, ...]:
    """``values`` as a tuple of plain numbers, raising unless they are probabilities that add up to 1."""
    is_row = isinstance(values, list | tuple) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if not is_row or not len(values):
        raise ValueError(f"probabilities must be a tuple of numbers; got {values!r}")
    known = tuple(check_number(f"probabilities[{k}]", value, 0.0, 1.0) for k, value in enumerate(values))
    if not abs(math.fsum(known) - 1.0) <= _TOLERANCE:
        raise ValueError(f"probabilities must add up to 1; got {values!r}")
    return known


def log_or_impossible(probability: float) -> float:
    """Logarithm of a plain number, minus infinity for 0."""
    return math.log(probability) if probability > 0.0 else -math.inf


def not_whole(values: Tensor, largest: float = math.inf) -> Tensor:
    """Which values are not whole numbers from 0 to ``largest``; missing ones are not among them."""
    return ((values < 0) | (values > largest) | (values != values.round())) & ~values.isnan()


def column(members: Sequence[Plain], name: str) -> Tensor:
    """One plain parameter of all members: (M,) or (M, n), in float64."""
    return torch.tensor([member[name] for member in members], dtype=torch.float64)


def listed(numbers: Sequence[float], most: int = 6) -> str:
    """The first few numbers, with three digits each."""
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return ", ".join(f"{number:.3g}" for number in numbers[:most]) + more


def _like(flags: Tensor, value: Tensor) -> Tensor:
    """Flags (P, I) with the axes that a parameter (P, I, ...) has."""
    return flags.view(*flags.shape, *[1] * (value.ndim - flags.ndim))
