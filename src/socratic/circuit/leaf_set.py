"""Univariate leaves of one family, as tensors: what queries need of the leaves of any kind of circuit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from socratic.families import Distribution, Family, Parameters

LeafValue = Callable[[Family, Parameters, Tensor, Tensor], Tensor]
"""A value (M,) for each of M leaves of a family, from their parameters, their draws (M,) and their variables (M,)."""


class LeafSet(nn.Module):
    """Leaves of one family: P slots, each with a variable and I leaves.

    A layered circuit has a slot for each variable of each leaf region (:class:`~socratic.circuit.leaves.LeafGroup`), a
    graph one for each leaf, with I = 1 (:class:`~socratic.circuit.graph_leaves.LeafBatch`). A leaf is addressed by its
    slot and its place in it.

    Attributes
    ----------
    family : Family
    variables : Tensor (P,)
        The column of each slot.
    values : ParameterDict
        The family's parameters, each (P, I) or (P, I, ...).
    """

    variables: Tensor

    def __init__(self, family: Family, variables: list[int], parameters: Parameters) -> None:
        super().__init__()
        self.family = family
        # A real tensor also while a model file is checked on the meta device.
        self.register_buffer("variables", torch.tensor(variables, device="cpu"), persistent=False)
        self.values = nn.ParameterDict(dict(parameters))

    @property
    def n_slots(self) -> int:
        """Number of slots, P."""
        return len(self.variables)

    def parameter_values(self) -> dict[str, Tensor]:
        """The family's parameters, each (P, I) or (P, I, ...)."""
        return dict(self.values.items())

    def pick(self, slots: Tensor, places: Tensor | int = 0) -> dict[str, Tensor]:
        """Parameters (M,) or (M, ...) of M leaves, given by their slots and their places in them."""
        return {name: value[slots, places] for name, value in self.parameter_values().items()}

    def means(self) -> Tensor:
        """The leaves' means: (P, I)."""
        return self.family.mean(self.parameter_values())

    def variances(self) -> Tensor:
        """The leaves' variances: (P, I)."""
        return self.family.variance(self.parameter_values())

    def log_density_at_modes(self) -> Tensor:
        """The leaves' log-densities at their most probable values: (P, I)."""
        parameters = self.parameter_values()
        return self.family.log_density(parameters, self.family.mode(parameters).unsqueeze(-1)).squeeze(-1)

    def log_table(self, slots: Tensor) -> Tensor:
        """Log-probabilities (k, I, Y) of all values of the leaves of k slots, for families of finitely many values."""
        parameters = {name: value[slots] for name, value in self.parameter_values().items()}
        like = next(iter(parameters.values()))
        values = torch.arange(self.family.n_values or 0, dtype=like.dtype, device=like.device)
        return self.family.log_density(parameters, values.expand(*like.shape[:2], -1))

    def fill(self, rows: Tensor, draws: Tensor, slots: Tensor, places: Tensor | int, value: LeafValue) -> None:
        """Fill in what is missing in ``rows`` (D, V), in place: M leaves each give their variable's value in one row.

        Parameters
        ----------
        rows : Tensor (D, V)
        draws, slots, places : Tensor (M,)
            The row to fill in, and the leaf to take the value from. Leaves whose variable is there are left out.
        value : callable
            See :data:`LeafValue`.
        """
        entries = rows.view(-1)  # one index for each is looked up several times faster than a row and a column
        variables = self.variables[slots]
        (missing,) = entries[draws * rows.shape[1] + variables].isnan().nonzero(as_tuple=True)
        draws, slots, variables = draws[missing], slots[missing], variables[missing]
        places = places[missing] if isinstance(places, Tensor) else places
        values = value(self.family, self.pick(slots, places), draws, variables).to(rows.dtype)
        entries[draws * rows.shape[1] + variables] = values

    def centres(self) -> Tensor:
        """The values that statistics are taken relative to: one for each slot (P,), unless slots share them."""
        return self.family.centre(self.parameter_values()).detach()

    def of_slots(self, centres: Tensor) -> Tensor:
        """The entry of ``centres``, or of what has their shape, for each slot: (P,)."""
        return centres

    def total_statistics(self, x: Tensor, flow: Tensor, centres: Tensor) -> Tensor:
        """The family's statistics of rows (N, V), summed with the weights ``flow`` (P, I, N): (P, T, I)."""
        values = x.t()[self.variables].unsqueeze(1)
        missing = values.isnan()
        centre = self.of_slots(centres).view(-1, 1, 1)
        weight = flow.masked_fill(missing, 0.0)
        known = torch.where(missing, centre, values)
        statistics = self.family.leaf_statistics(self.parameter_values(), known, centre)
        return torch.stack([(statistic * weight).sum(-1) for statistic in statistics], dim=1)

    @torch.no_grad()
    def distributions(self) -> list[list[Distribution]]:
        """The I leaves of each of the P slots as distributions of their own, with the present parameters."""
        parameters = self.parameter_values()
        n_leaves = next(iter(parameters.values())).shape[1]
        found = self.family.distributions({name: value.flatten(0, 1) for name, value in parameters.items()})
        return [found[first : first + n_leaves] for first in range(0, len(found), n_leaves)]
