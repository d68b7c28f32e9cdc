"""The leaf layer: the densities of all leaves of all leaf regions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from socratic.distributions import Distribution
from socratic.families import Family
from socratic.numerics import draw_dropped


class LeafGroup(nn.Module):
    """The leaves of one family: the parameters of its P slots (a slot is a variable of a leaf region).

    In the shapes below D is the largest number of slots in a region, U the number of distinct variables.
    """

    columns: Tensor
    column_of_slot: Tensor
    slot_index: Tensor
    column_index: Tensor

    def __init__(self, family: Family, slots: Sequence[Sequence[int]], n_leaves: int) -> None:
        """``slots`` lists the variables of this family for each leaf region, in region order."""
        super().__init__()
        self.family = family
        variables = [variable for scope in slots for variable in scope]
        self.n_slots = len(variables)
        columns = sorted(set(variables))
        position = {variable: index for index, variable in enumerate(columns)}
        width = max(len(scope) for scope in slots)
        self.even = all(len(scope) == width for scope in slots)
        # Slot of each (region, position); a region with fewer slots points to a slot of zeros at the end.
        slot_index, column_index, first = [], [], 0
        for scope in slots:
            gap = width - len(scope)
            slot_index.append([*range(first, first + len(scope)), *[len(variables)] * gap])
            column_index.append([*(position[variable] for variable in scope), *[0] * gap])
            first += len(scope)
        buffers = {
            "columns": columns,  # (U,)
            "column_of_slot": [position[variable] for variable in variables],  # (P,)
            "slot_index": slot_index,  # (F, D)
            "column_index": column_index,  # (F, D)
        }
        for name, values in buffers.items():
            # Real tensors also while a model file is checked on the meta device.
            self.register_buffer(name, torch.tensor(values, device="cpu"), persistent=False)
        self.values = nn.ParameterDict(family.initial_parameters(len(variables), n_leaves))

    def parameter_values(self) -> dict[str, Tensor]:
        """The family's parameters, each (P, I) or (P, I, ...)."""
        return dict(self.values.items())

    def slot_centres(self) -> Tensor:
        """The reference value that statistics are taken relative to, of each slot: (P,)."""
        return self._column_centres(self.family.centre(self.parameter_values()).detach())[self.column_of_slot]

    def terms(self, x: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor]:
        """Statistics (F, D, T, N) of the rows ``x`` (N, V) and natural parameters (F, D, T, I)."""
        parameters = self.parameter_values()
        centre = self._column_centres(self.family.centre(parameters).detach())
        natural = self.family.natural(parameters, centre[self.column_of_slot])
        if keep is not None:
            natural = natural * keep.unsqueeze(1)
        if not self.even:
            natural = torch.cat([natural, natural.new_zeros(1, *natural.shape[1:])])
            natural = natural.index_select(0, self.slot_index.flatten())
        natural = natural.view(*self.slot_index.shape, *natural.shape[1:])
        values = x.t()[self.columns]  # (U, N)
        centre = centre.unsqueeze(-1)
        missing = values.isnan()
        statistics = self.family.statistics(torch.where(missing, centre, values), centre)
        stacked = torch.stack(statistics, dim=1).masked_fill(missing.unsqueeze(1), 0.0)  # (U, T, N)
        gathered = stacked.flatten(1).index_select(0, self.column_index.flatten())
        return gathered.view(*self.column_index.shape, *stacked.shape[1:]), natural

    def _column_centres(self, centre: Tensor) -> Tensor:
        """Mean over the slots of each variable: (P,) -> (U,)."""
        total = centre.new_zeros(len(self.columns)).index_add(0, self.column_of_slot, centre)
        return total * (len(self.columns) / len(self.column_of_slot))


class LeafLayer(nn.Module):
    """All leaf regions of a circuit, each with ``n_leaves`` leaves that factorise over its variables.

    Parameters
    ----------
    families : sequence of Family
        The family of each variable.
    scopes : sequence of tuples of int
        The variables of each leaf region, in evaluation order.
    n_leaves : int
        Leaves per region.
    """

    def __init__(self, families: Sequence[Family], scopes: Sequence[tuple[int, ...]], n_leaves: int) -> None:
        super().__init__()
        self.families = tuple(families)
        self.scopes = tuple(scopes)
        self.n_nodes = n_leaves
        self.groups = nn.ModuleList(
            LeafGroup(family, [[v for v in scope if families[v] == family] for scope in scopes], n_leaves)
            for family in dict.fromkeys(families)
        )

    @property
    def n_folds(self) -> int:
        """Number of leaf regions."""
        return len(self.scopes)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all parameters anew."""
        for group in self.leaf_groups():
            group.family.reset_parameters(group.parameter_values(), generator)

    def leaf_groups(self) -> list[LeafGroup]:
        """The groups, one for each distinct family."""
        return [group for group in self.groups if isinstance(group, LeafGroup)]

    def log_density(self, x: Tensor, keep: Sequence[Tensor] | None = None) -> Tensor:
        """Log-density of every leaf.

        Parameters
        ----------
        x : (N, V)
            Rows; NaN is missing and marginalised.
        keep : sequence of (P, I), optional
            For each group, 1 for the univariate leaves to keep and 0 for those to marginalise.

        Returns
        -------
        Tensor (F, I, N)
        """
        values = []
        for number, group in enumerate(self.leaf_groups()):
            statistics, natural = group.terms(x, None if keep is None else keep[number])
            values.append(torch.bmm(natural.flatten(1, 2).mT, statistics.flatten(1, 2)))
        return _total(values)

    def log_density_with_dropout(self, x: Tensor, dropout: float, generator: torch.Generator) -> Tensor:
        """Like :meth:`log_density`, marginalising each univariate leaf of each row with probability ``dropout``."""
        values = []
        for group in self.leaf_groups():
            statistics, natural = group.terms(x, None)
            value = torch.einsum("fdtn,fdti->fdin", statistics, natural)
            values.append(value.masked_fill(draw_dropped(value.shape, dropout, generator), 0.0).sum(1))
        return _total(values)

    @torch.no_grad()
    def distribution(self, region: int, variable: int, leaf: int) -> Distribution:
        """One univariate leaf of the region at this place in evaluation order."""
        for group in self.leaf_groups():
            if group.family == self.families[variable]:
                scope = [v for v in self.scopes[region] if self.families[v] == group.family]
                slot = int(group.slot_index[region, scope.index(variable)])
                return group.family.distribution(group.parameter_values(), slot, leaf)
        raise KeyError(variable)


def _total(values: list[Tensor]) -> Tensor:
    """Sum over groups, without a copy in the common case of one."""
    return values[0] if len(values) == 1 else torch.stack(values).sum(0)
