"""The leaves of a graph: all leaves of a family evaluated at once.

The parameters are those of :mod:`socratic.families`, and probabilities may be exactly 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from socratic.circuit.nodes import Leaf
from socratic.distributions import Bernoulli as BernoulliLeaf
from socratic.distributions import Categorical as CategoricalLeaf
from socratic.distributions import Distribution, Normal
from socratic.families import Bernoulli, Binomial, Categorical, Family, Gaussian


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
        density = self.family.log_density(parameters, torch.where(missing | outside, 0.0, values))
        return density.masked_fill(missing, 0.0).masked_fill(outside, -math.inf)

    def log_table(self, leaves: Tensor) -> Tensor:
        """Log-probabilities (k, Y) of all values, of k leaves of a discrete family."""
        parameters = {name: value[leaves, 0] for name, value in self.parameter_values().items()}
        like = next(iter(parameters.values()))
        values = torch.arange(self.family.n_values or 0, dtype=like.dtype, device=like.device)
        return self.family.log_density(parameters, values.expand(len(leaves), -1))


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
