"""The leaf layer: the densities of all leaves of all leaf regions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from socratic.circuit.leaf_set import LeafSet
from socratic.draws import RowMasks
from socratic.families import Distribution, ExponentialFamily, Family
from socratic.kernels.leaves import picked_product, takes_picked
from socratic.memory import Scratch, map_tiles, split_terms
from socratic.numerics import weighted_sums


class LeafGroup(LeafSet, ABC):
    """The leaves of one family in a layered circuit; a slot is a variable of a leaf region.

    In the shapes below D is the largest number of slots in a region, U the number of distinct variables.
    """

    columns: Tensor
    column_of_slot: Tensor
    region_of_slot: Tensor
    slot_index: Tensor
    column_index: Tensor

    def __init__(self, family: Family, slots: Sequence[Sequence[int]], n_leaves: int) -> None:
        """``slots`` lists the variables of this family for each leaf region, in region order."""
        variables = [variable for scope in slots for variable in scope]
        super().__init__(family, variables, family.initial_parameters(len(variables), n_leaves))
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
            "region_of_slot": [region for region, scope in enumerate(slots) for _ in scope],  # (P,)
            "slot_index": slot_index,  # (F, D)
            "column_index": column_index,  # (F, D)
        }
        for name, values in buffers.items():
            # Real tensors also while a model file is checked on the meta device.
            self.register_buffer(name, torch.tensor(values, device="cpu"), persistent=False)

    @abstractmethod
    def log_density(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """Log-densities (F, I, N) of rows (N, V), summed over the slots of each region; ``keep`` (P, I) is 1 or 0."""

    @abstractmethod
    def slot_log_densities(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Some slots (p,) at a time: log-densities (p, I, N) of rows (N, V) under their leaves, 0 where missing."""

    @abstractmethod
    def log_density_with_dropout(self, x: Tensor, dropout: float, masks: RowMasks) -> Tensor:
        """As :meth:`log_density`, marginalising each univariate leaf of each row with probability ``dropout``."""

    @property
    @abstractmethod
    def entries_per_row(self) -> int:
        """Numbers that :meth:`log_density` holds for one row."""

    def slot_centres(self) -> Tensor:
        """The reference value that statistics are taken relative to, of each slot: (P,)."""
        return self.of_slots(self.centres())

    def of_slots(self, centres: Tensor) -> Tensor:
        """The centre of each slot (P,), from those of the columns (U,)."""
        return centres[self.column_of_slot]

    def total_statistics(self, x: Tensor, flow: Tensor, centres: Tensor) -> Tensor:
        """The family's statistics of rows (N, V), summed with the weights ``flow`` (F, I, N): (P, T, I)."""
        return super().total_statistics(x, flow[self.region_of_slot], centres)

    def centres(self) -> Tensor:
        """Mean over the slots of each variable: (U,)."""
        centre = self.family.centre(self.parameter_values()).detach()
        total = centre.new_zeros(len(self.columns)).index_add(0, self.column_of_slot, centre)
        return total * (len(self.columns) / len(self.column_of_slot))


class ExponentialGroup(LeafGroup):
    """Leaves of an exponential family: one batched matrix product of statistics and natural parameters."""

    family: ExponentialFamily

    def terms(self, x: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Statistics (F, D, T, N) of the rows ``x`` (N, V) and natural parameters (F, D, T, I)."""
        centre = self.centres()
        return self._statistics(x, centre), self._natural(centre, keep)

    def _natural(self, centre: Tensor, keep: Tensor | None) -> Tensor:
        """Natural parameters (F, D, T, I), 0 where a region has no such slot."""
        natural = self.family.natural(self.parameter_values(), centre[self.column_of_slot])
        if keep is not None:
            natural = natural * keep.unsqueeze(1)
        if not self.even:
            natural = torch.cat([natural, natural.new_zeros(1, *natural.shape[1:])])
            natural = natural.index_select(0, self.slot_index.flatten())
        return natural.view(*self.slot_index.shape, *natural.shape[1:])

    def _statistics(self, x: Tensor, centre: Tensor) -> Tensor:
        """Statistics (F, D, T, N), 0 where missing."""
        of_columns = self._column_statistics(x, centre)
        gathered = of_columns.flatten(1).index_select(0, self.column_index.flatten())
        return gathered.view(*self.column_index.shape, *of_columns.shape[1:])

    def _column_statistics(self, x: Tensor, centre: Tensor) -> Tensor:
        """Statistics (U, T, N) of each variable, 0 where missing."""
        values = x.t()[self.columns]  # (U, N)
        centre = centre.unsqueeze(-1)
        missing = values.isnan()
        statistics = self.family.statistics(torch.where(missing, centre, values), centre)
        return torch.stack(statistics, dim=1).masked_fill(missing.unsqueeze(1), 0.0)

    def log_density(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """Log-densities (F, I, N).

        Each variable has a slot in every repetition: its statistics are arranged by region a few regions at a time.
        """
        centre = self.centres()
        table = self._column_statistics(x, centre)  # (U, T, N)
        natural = self._natural(centre, keep).flatten(1, 2).mT  # (F, I, D * T)
        if takes_picked(natural, table):
            return picked_product(natural, table, self.column_index)
        of_columns, n_rows = table.flatten(1), x.shape[0]  # len(x) is a constant to torch.export

        def compute(folds: slice, _: slice, scratch: Scratch) -> Tensor:
            columns = self.column_index[folds].flatten()
            out = scratch.out("statistics", (len(columns), of_columns.shape[1]), of_columns)
            statistics = torch.index_select(of_columns, 0, columns, out=out)
            factors = natural[folds]
            return weighted_sums(factors, statistics.view(len(factors), natural.shape[2], n_rows))

        entry_bytes = natural.shape[2] * n_rows * x.element_size()  # all rows of a region at once
        return map_tiles(compute, len(natural), 1, entry_bytes, x.device, row_axis=2)

    def slot_log_densities(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Some slots, and the log-densities of their leaves."""
        statistics, natural = self.terms(x)
        place = (self.slot_index < self.n_slots).nonzero(as_tuple=True)
        for slots in split_terms(torch.arange(self.n_slots, device=x.device), natural.shape[-1] * len(x)):
            some = tuple(part[slots] for part in place)
            yield slots, weighted_sums(natural[some].mT, statistics[some])

    def _padded_log_densities(self, x: Tensor) -> Tensor:
        """Log-densities (F, D, I, N) of each leaf, 0 where a region has no such slot."""
        statistics, natural = self.terms(x)
        return torch.einsum("fdtn,fdti->fdin", statistics, natural)

    def log_density_with_dropout(self, x: Tensor, dropout: float, masks: RowMasks) -> Tensor:
        """Log-densities (F, I, N) of what is not dropped."""
        value = self._padded_log_densities(x)
        return value.masked_fill(masks.draw(value.shape, dropout), 0.0).sum(1)

    def total_statistics(self, x: Tensor, flow: Tensor, centres: Tensor) -> Tensor:
        """Weighted sums (P, T, I) of the statistics."""
        statistics = self._statistics(x, centres)
        total = torch.bmm(statistics.flatten(1, 2), flow.mT).view(*statistics.shape[:3], -1)  # (F, D, T, I)
        return total[self.slot_index < self.n_slots]

    @property
    def entries_per_row(self) -> int:
        """Numbers held for one row."""
        return (self.family.n_statistics + 1) * self.slot_index.numel()


class DirectGroup(LeafGroup):
    """Leaves of any other family, evaluated one by one: more work and memory, but no condition on the family."""

    def _leaf_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Values (P, 1, N) of each slot's variable, its centre where they are missing, and which those are."""
        values = x.t()[self.variables].unsqueeze(1)
        missing = values.isnan()
        return torch.where(missing, self.slot_centres().view(-1, 1, 1), values), missing

    def slot_log_densities(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """All slots, and the log-densities of their leaves."""
        yield torch.arange(self.n_slots, device=x.device), self._leaf_log_densities(x)

    def _leaf_log_densities(self, x: Tensor) -> Tensor:
        """Log-densities (P, I, N), 0 where missing."""
        values, missing = self._leaf_values(x)
        return self.family.log_density(self.parameter_values(), values).masked_fill(missing, 0.0)

    def _by_region(self, of_leaf: Tensor) -> Tensor:
        """Sums over the slots of each region: (P, I, N) -> (F, I, N)."""
        total = of_leaf.new_zeros(len(self.slot_index), *of_leaf.shape[1:])
        return total.index_add(0, self.region_of_slot, of_leaf)

    def log_density(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """Log-densities (F, I, N)."""
        density = self._leaf_log_densities(x)
        return self._by_region(density if keep is None else density * keep.unsqueeze(-1))

    def log_density_with_dropout(self, x: Tensor, dropout: float, masks: RowMasks) -> Tensor:
        """Log-densities (F, I, N) of what is not dropped."""
        density = self._leaf_log_densities(x)
        return self._by_region(density.masked_fill(masks.draw(density.shape, dropout), 0.0))

    @property
    def entries_per_row(self) -> int:
        """Numbers held for one row."""
        return 2 * next(iter(self.values.values())).shape[:2].numel()


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
        self.groups = nn.ModuleList()
        for family in dict.fromkeys(families):
            kind = ExponentialGroup if isinstance(family, ExponentialFamily) else DirectGroup
            self.groups.append(
                kind(family, [[v for v in scope if families[v] == family] for scope in scopes], n_leaves)
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
        groups = self.leaf_groups()
        several = sum(isinstance(group, ExponentialGroup) for group in groups) > 1
        values, terms = [], []
        for place, group in enumerate(groups):
            mask = None if keep is None else keep[place]
            if several and isinstance(group, ExponentialGroup):
                terms.append(group.terms(x, mask))
            else:
                values.append(group.log_density(x, mask))
        if terms:  # all families in one product
            statistics = torch.cat([some.flatten(1, 2) for some, _ in terms], dim=1)
            natural = torch.cat([some.flatten(1, 2) for _, some in terms], dim=1)
            values.append(weighted_sums(natural.mT, statistics))
        return _total(values)

    def log_density_with_dropout(self, x: Tensor, dropout: float, masks: RowMasks) -> Tensor:
        """Like :meth:`log_density`, marginalising each univariate leaf of each row with probability ``dropout``."""
        return _total([group.log_density_with_dropout(x, dropout, masks) for group in self.leaf_groups()])

    def distributions(self) -> list[dict[int, list[Distribution]]]:
        """The I univariate leaves of each variable of each region, as distributions of their own."""
        found: list[dict[int, list[Distribution]]] = [{} for _ in self.scopes]
        for group in self.leaf_groups():
            slots = zip(group.region_of_slot.tolist(), group.variables.tolist(), group.distributions(), strict=True)
            for region, variable, leaves in slots:
                found[region][variable] = leaves
        return found


def _total(values: list[Tensor]) -> Tensor:
    """Sum over groups, one after the other: stacked first, they would be written and read once more."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total
