"""The leaves of a graph: all leaves of a family evaluated at once.

The parameters are those of :mod:`socratic.families`. Densities are computed leaf by leaf, not as inner products of
statistics, so that impossible values (a probability of exactly 0) and tiny variances keep their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from socratic.circuit.nodes import Leaf
from socratic.distributions import Bernoulli as BernoulliLeaf
from socratic.distributions import Categorical as CategoricalLeaf
from socratic.distributions import Distribution, Normal
from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian, Parameters
from socratic.numerics import scale_dtype


def family_of(distribution: Distribution) -> Family:
    """The family a leaf's distribution belongs to; variances are free."""
    if isinstance(distribution, Normal):
        return Gaussian(min_variance=0.0, max_variance=None)
    if isinstance(distribution, BernoulliLeaf):
        return Bernoulli()
    if isinstance(distribution, CategoricalLeaf):
        return Categorical(len(distribution.probabilities))
    return Binomial(distribution.n_trials)


def parameters_of(members: Sequence[Any]) -> dict[str, Tensor]:
    """Parameters (n, 1) or (n, 1, ...) in float64 of distributions of one family."""

    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64).unsqueeze(1)

    if isinstance(members[0], Normal):
        variance = column([float(member.variance) for member in members])
        return {"mean": column([float(member.mean) for member in members]), "raw_variance": torch.log(variance)}
    if isinstance(members[0], CategoricalLeaf):
        probabilities = torch.tensor([list(member.probabilities) for member in members], dtype=torch.float64)
        return {"logits": torch.log(probabilities / probabilities.sum(-1, keepdim=True)).unsqueeze(1)}
    return {"logit": torch.logit(column([float(member.probability) for member in members]))}


def log_density(family: Family, parameters: Parameters, values: Tensor) -> Tensor:
    """Log-densities (n, N) of n leaves at ``values`` (n, N), none of them missing or outside the domain.

    ``parameters`` are (n,) or (n, ...).
    """
    if isinstance(family, Gaussian):
        # Far outside any data the square would overflow and its gradient be no number: stop before.
        limit = torch.finfo(values.dtype).max ** 0.45
        deviation = (values - parameters["mean"].unsqueeze(-1)).clamp(-limit, limit)
        variance = family.variance(parameters).unsqueeze(-1)
        return -0.5 * (deviation * deviation / variance + torch.log(2 * math.pi * variance))
    if isinstance(family, Categorical):
        return torch.log_softmax(parameters["logits"], dim=-1).gather(-1, values.long())
    logit = parameters["logit"].unsqueeze(-1)
    yes, no = functional.logsigmoid(logit), functional.logsigmoid(-logit)
    if isinstance(family, Bernoulli):
        return torch.where(values == 1, yes, no)
    if isinstance(family, Binomial):
        # Not a product where nothing happened: 0 times the logarithm of 0 is no number.
        misses = family.n_trials - values
        wide = values.to(scale_dtype(values))  # large logarithms of factorials cancel
        choices = math.lgamma(family.n_trials + 1) - torch.lgamma(wide + 1) - torch.lgamma(family.n_trials - wide + 1)
        return (
            choices.to(values) + torch.where(values > 0, values * yes, 0.0) + torch.where(misses > 0, misses * no, 0.0)
        )
    raise TypeError(f"leaves of a graph cannot be {family.name}")


class LeafBatch(nn.Module):
    """The leaves of one family: n of them, with consecutive numbers."""

    variables: Tensor

    def __init__(self, family: Family, leaves: Sequence[Leaf], dtype: torch.dtype) -> None:
        super().__init__()
        self.family = family
        self.register_buffer("variables", torch.tensor([int(leaf.variable) for leaf in leaves]), persistent=False)
        parameters = parameters_of([leaf.distribution for leaf in leaves])
        self.values = nn.ParameterDict({name: value.to(dtype) for name, value in parameters.items()})

    def parameter_values(self) -> dict[str, Tensor]:
        """The family's parameters, each (n, 1) or (n, 1, ...)."""
        return dict(self.values.items())

    def log_density(self, x: Tensor) -> Tensor:
        """Log-densities (n, N) of rows (N, V): 0 where missing, minus infinity outside the family's domain."""
        values = x.t()[self.variables]
        missing = values.isnan()
        outside = self.family.invalid(values)
        parameters = {name: value.squeeze(1) for name, value in self.parameter_values().items()}
        density = log_density(self.family, parameters, torch.where(missing | outside, 0.0, values))
        return density.masked_fill(missing, 0.0).masked_fill(outside, -math.inf)


class GraphLeaves(nn.Module):
    """All leaves of a graph, grouped by family."""

    def __init__(self, leaves: Sequence[Leaf], dtype: torch.dtype) -> None:
        super().__init__()
        members: dict[Family, list[Leaf]] = {}
        for leaf in leaves:
            members.setdefault(family_of(leaf.distribution), []).append(leaf)
        self.batches = nn.ModuleList(LeafBatch(family, group, dtype) for family, group in members.items())
        self.nodes = tuple(leaf for group in members.values() for leaf in group)

    def leaf_batches(self) -> list[LeafBatch]:
        """The batches, one for each family, in the order of the leaves' numbers."""
        return [batch for batch in self.batches if isinstance(batch, LeafBatch)]

    def log_density(self, x: Tensor) -> Tensor:
        """Log-density of every leaf and row, (N, V) -> (L, N)."""
        return torch.cat([batch.log_density(x) for batch in self.leaf_batches()])

    @torch.no_grad()
    def distributions(self) -> list[Distribution]:
        """The leaves' distributions with the present parameters, in the order of their numbers."""
        found: list[Distribution] = []
        for batch in self.leaf_batches():
            parameters = {name: value.cpu() for name, value in batch.parameter_values().items()}
            found += [batch.family.distribution(parameters, slot, 0) for slot in range(len(batch.variables))]
        return found
