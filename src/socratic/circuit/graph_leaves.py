"""The leaves of a graph: all leaves of a family evaluated at once, and probabilities may be exactly 0."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from socratic.circuit.leaf_set import LeafSet
from socratic.circuit.nodes import Leaf
from socratic.families import Distribution, Family


class LeafBatch(LeafSet):
    """The leaves of one family in a graph: P of them, with consecutive numbers, each a slot of its own (I = 1)."""

    def __init__(self, family: Family, leaves: Sequence[Leaf], dtype: torch.dtype) -> None:
        parameters = family.from_plain([leaf.distribution.parameters for leaf in leaves])
        super().__init__(
            family,
            [int(leaf.variable) for leaf in leaves],
            {name: value.unsqueeze(1).to(dtype) for name, value in parameters.items()},
        )
        # Some value of the domain, to stand in for what has no density.
        self._possible = family.mode(family.from_plain([family.neutral])).item()

    def log_density(self, x: Tensor) -> Tensor:
        """Log-densities (P, N) of rows (N, V): 0 where missing, minus infinity outside the family's domain."""
        values = x.t()[self.variables]
        missing = values.isnan()
        outside = self.family.invalid(values)
        parameters = {name: value.squeeze(1) for name, value in self.parameter_values().items()}
        density = self.family.log_density(parameters, torch.where(missing | outside, self._possible, values))
        return density.masked_fill(missing, 0.0).masked_fill(outside, -math.inf)


class GraphLeaves(nn.Module):
    """All leaves of a graph, grouped by family."""

    def __init__(self, leaves: Sequence[Leaf], dtype: torch.dtype) -> None:
        super().__init__()
        members: dict[Family, list[Leaf]] = {}
        for leaf in leaves:
            members.setdefault(leaf.distribution.family, []).append(leaf)
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
        return [
            distribution
            for batch in self.leaf_batches()
            for distribution in distributions_of(batch.family, batch.parameter_values())
        ]


def distributions_of(family: Family, parameters: dict[str, Tensor]) -> list[Distribution]:
    """Leaves with these parameters (P, 1) or (P, 1, ...) as distributions, of the nearest values they can have."""
    return family.distributions(family.within_bounds({name: value[:, 0] for name, value in parameters.items()}))
