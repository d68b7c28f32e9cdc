"""The leaf layer: the densities of all leaves of all leaf regions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from socratic.circuit.leaf_set import LeafSet
from socratic.draws import RowMasks
from socratic.families import Distribution, ExponentialFamily, Family
from socratic.kernels.leaves import picked_product, power_product, takes_picked
from socratic.memory import Scratch, map_tiles, split_terms
from socratic.numerics import weighted_sums

_FEW_CATEGORIES = 16
"""A product with so many statistics takes no longer than to look the categories up."""


class LeafTerms(NamedTuple):
    """What the parameters of a group say of any rows: found once, for all chunks of a query.

    In its shapes T is the number of the family's statistics; the other letters are those of :class:`LeafGroup`.
    """

    centre: Tensor  # (U,), what statistics are taken relative to
    factors: Tensor | None  # natural parameters (F, D, T, I); of families that have none, 1 or 0 (P, I) if some are 0

    @property
    def natural(self) -> Tensor:
        """The natural parameters of an exponential family, 0 where a region has no such slot."""
        assert self.factors is not None
        return self.factors


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
    def terms(self, keep: Tensor | None = None) -> LeafTerms:
        """What is the same for all rows; ``keep`` (P, I) is 0 for the leaves to marginalise, and 1."""

    @abstractmethod
    def log_density(self, x: Tensor, terms: LeafTerms) -> Tensor:
        """Log-densities (F, I, N) of rows (N, V), summed over the slots of each region."""

    @abstractmethod
    def slot_log_densities(self, x: Tensor, terms: LeafTerms) -> Iterator[tuple[Tensor, Tensor]]:
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

    def terms(self, keep: Tensor | None = None) -> LeafTerms:
        """Centres and natural parameters."""
        centre = self.centres()
        natural = self.family.natural(self.parameter_values(), self.of_slots(centre))
        if keep is not None:
            natural = natural * keep.unsqueeze(1)
        if not self.even:
            natural = torch.cat([natural, natural.new_zeros(1, *natural.shape[1:])])
            natural = natural.index_select(0, self.slot_index.flatten())
        return LeafTerms(centre, natural.view(*self.slot_index.shape, *natural.shape[1:]))

    def statistics(self, x: Tensor, centre: Tensor) -> Tensor:
        """Statistics (F, D, T, N), 0 where missing."""
        of_columns = self._column_statistics(x, centre)
        gathered = of_columns.flatten(1).index_select(0, self.column_index.flatten())
        return gathered.view(*self.column_index.shape, *of_columns.shape[1:])

    def _column_values(self, x: Tensor) -> Tensor:
        """Values (U, N) of each variable."""
        return x.t()[self.columns]

    def _column_statistics(self, x: Tensor, centre: Tensor) -> Tensor:
        """Statistics (U, T, N) of each variable, 0 where missing."""
        values = self._column_values(x)
        centre = centre.unsqueeze(-1)
        missing = values.isnan()
        statistics = self.family.statistics(torch.where(missing, centre, values), centre)
        return torch.stack(statistics, dim=1).masked_fill(missing.unsqueeze(1), 0.0)

    def log_density(self, x: Tensor, terms: LeafTerms) -> Tensor:
        """Log-densities (F, I, N).

        Each variable has a slot in every repetition: its statistics are arranged by region a few regions at a time.
        """
        natural = terms.natural.flatten(1, 2).mT  # (F, I, D * T)
        limit = self.family.largest_deviation(x.dtype)
        if limit is not None and takes_picked(natural, x):
            return power_product(natural, self._column_values(x), terms.centre, self.column_index, limit)
        table = self._column_statistics(x, terms.centre)  # (U, T, N)
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

    def slot_log_densities(self, x: Tensor, terms: LeafTerms) -> Iterator[tuple[Tensor, Tensor]]:
        """Some slots, and the log-densities of their leaves."""
        statistics, natural = self.statistics(x, terms.centre), terms.natural
        place = (self.slot_index < self.n_slots).nonzero(as_tuple=True)
        for slots in split_terms(torch.arange(self.n_slots, device=x.device), natural.shape[-1] * len(x)):
            some = tuple(part[slots] for part in place)
            yield slots, weighted_sums(natural[some].mT, statistics[some])

    def log_density_with_dropout(self, x: Tensor, dropout: float, masks: RowMasks) -> Tensor:
        """Log-densities (F, I, N) of what is not dropped."""
        terms = self.terms()
        value = torch.einsum("fdtn,fdti->fdin", self.statistics(x, terms.centre), terms.natural)  # (F, D, I, N)
        return value.masked_fill(masks.draw(value.shape, dropout), 0.0).sum(1)

    def total_statistics(self, x: Tensor, flow: Tensor, centres: Tensor) -> Tensor:
        """Weighted sums (P, T, I) of the statistics."""
        statistics = self.statistics(x, centres)
        total = torch.bmm(statistics.flatten(1, 2), flow.mT).view(*statistics.shape[:3], -1)  # (F, D, T, I)
        return total[self.slot_index < self.n_slots]

    @property
    def entries_per_row(self) -> int:
        """Numbers held for one row."""
        return (self.family.n_statistics + 1) * self.slot_index.numel()


class DirectGroup(LeafGroup):
    """Leaves of any other family, evaluated one by one: more work and memory, but no condition on the family."""

    def terms(self, keep: Tensor | None = None) -> LeafTerms:
        """Centres, and which leaves are kept."""
        return LeafTerms(self.centres(), keep)

    def slot_log_densities(self, x: Tensor, terms: LeafTerms) -> Iterator[tuple[Tensor, Tensor]]:
        """All slots, and the log-densities of their leaves."""
        yield torch.arange(self.n_slots, device=x.device), self._leaf_log_densities(x, terms.centre)

    def _leaf_log_densities(self, x: Tensor, centre: Tensor) -> Tensor:
        """Log-densities (P, I, N), 0 where missing."""
        values = x.t()[self.variables].unsqueeze(1)  # (P, 1, N)
        missing = values.isnan()
        known = torch.where(missing, self.of_slots(centre).view(-1, 1, 1), values)
        return self.family.log_density(self.parameter_values(), known).masked_fill(missing, 0.0)

    def _by_region(self, of_leaf: Tensor) -> Tensor:
        """Sums over the slots of each region: (P, I, N) -> (F, I, N)."""
        total = of_leaf.new_zeros(len(self.slot_index), *of_leaf.shape[1:])
        return total.index_add(0, self.region_of_slot, of_leaf)

    def log_density(self, x: Tensor, terms: LeafTerms) -> Tensor:
        """Log-densities (F, I, N)."""
        density = self._leaf_log_densities(x, terms.centre)
        return self._by_region(density if terms.factors is None else density * terms.factors.unsqueeze(-1))

    def log_density_with_dropout(self, x: Tensor, dropout: float, masks: RowMasks) -> Tensor:
        """Log-densities (F, I, N) of what is not dropped."""
        density = self._leaf_log_densities(x, self.centres())
        return self._by_region(density.masked_fill(masks.draw(density.shape, dropout), 0.0))

    @property
    def entries_per_row(self) -> int:
        """Numbers held for one row."""
        return 2 * next(iter(self.values.values())).shape[:2].numel()


class Lookup(NamedTuple):
    """The log-densities of all categories of some columns, looked up: all their statistics but one are 0."""

    table: Tensor  # (Y + 1, I), the categories of one column after those of another, and last 0 for missing values
    columns: Tensor  # (W,)
    first: Tensor  # (W,), where the categories of each column begin

    def log_density(self, x: Tensor) -> Tensor:
        """Log-densities (N, I) of rows (N, V)."""
        place = x[:, self.columns] + self.first
        place = torch.where(place.isnan(), len(self.table) - 1, place)
        return embedding_bag(place.long(), self.table, mode="sum")


class LayerTerms(NamedTuple):
    """The terms of all groups of a layer, and those of its exponential families together."""

    groups: list[LeafTerms]
    natural: Tensor | None  # (F, I, D * T) of those that are multiplied with statistics, unless it is a single group
    lookup: Lookup | None  # of the others


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

    def terms(self, keep: Sequence[Tensor] | None = None) -> LayerTerms:
        """What the parameters say of any rows.

        Parameters
        ----------
        keep : sequence of (P, I), optional
            For each group, 1 for the univariate leaves to keep and 0 for those to marginalise.
        """
        groups = self.leaf_groups()
        masks = [None] * len(groups) if keep is None else keep
        terms = [group.terms(mask) for group, mask in zip(groups, masks, strict=True)]
        lookup = self._lookup(terms)
        multiplied = [
            known.natural.flatten(1, 2)
            for group, known in zip(groups, terms, strict=True)
            if isinstance(group, ExponentialGroup) and not (lookup and group.family.one_hot)
        ]
        joined = len(multiplied) > (1 if lookup is None else 0)
        return LayerTerms(terms, torch.cat(multiplied, dim=1).mT if joined else None, lookup)

    def _lookup(self, terms: Sequence[LeafTerms]) -> Lookup | None:
        """Of the categories of a circuit with a single leaf region, if there are many, on a processor."""
        groups = [
            (group, known)
            for group, known in zip(self.leaf_groups(), terms, strict=True)
            if isinstance(group, ExponentialGroup) and group.family.one_hot
        ]
        counts = [group.family.n_statistics for group, _ in groups for _ in range(group.n_slots)]
        on_processor = all(known.centre.device.type == "cpu" for known in terms)
        if self.n_folds > 1 or sum(counts) <= _FEW_CATEGORIES or not on_processor:
            return None
        if torch.is_grad_enabled() or torch.compiler.is_compiling():  # products have gradients, and can be exported
            return None
        tables = [known.natural.flatten(0, 2) for _, known in groups]
        columns = torch.cat([group.variables for group, _ in groups])
        first = torch.tensor([0, *counts[:-1]]).cumsum(0)
        return Lookup(torch.cat([*tables, torch.zeros_like(tables[0][:1])]), columns, first)

    def log_density(self, x: Tensor, terms: LayerTerms | None = None) -> Tensor:
        """Log-density of every leaf.

        Parameters
        ----------
        x : (N, V)
            Rows; NaN is missing and marginalised.
        terms : LayerTerms, optional
            Those of :meth:`terms`, if they are known.

        Returns
        -------
        Tensor (F, I, N)
        """
        of_groups, natural, lookup = self.terms() if terms is None else terms
        values, statistics = [], []
        for group, known in zip(self.leaf_groups(), of_groups, strict=True):
            if isinstance(group, ExponentialGroup) and lookup and group.family.one_hot:
                continue
            if isinstance(group, ExponentialGroup) and natural is not None:
                statistics.append(group.statistics(x, known.centre).flatten(1, 2))
            else:
                values.append(group.log_density(x, known))
        if lookup:
            found = lookup.log_density(x)
            if natural is not None:
                found.addmm_(torch.cat(statistics, dim=1)[0].mT, natural[0].mT)
            values.append(found.mT.unsqueeze(0))
        elif natural is not None:  # all exponential families in one product
            values.append(weighted_sums(natural, torch.cat(statistics, dim=1)))
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
