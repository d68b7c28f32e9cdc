"""What leaves contribute at the end of a way down: values to fill in, moments, tables, densities at modes."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.leaf_set import LeafValue
from socratic.circuit.leaves import LeafGroup, LeafLayer


def fill_missing(leaves: LeafLayer, chosen: Tensor, rows: Tensor, value: LeafValue) -> None:
    """Fill what is missing in rows (D, V) with values of their chosen leaves (L, D), negative where there is none."""
    region, row = (chosen >= 0).nonzero(as_tuple=True)
    leaf = chosen[region, row]
    for group in leaves.leaf_groups():
        slots = group.slot_index[region]  # (M, D)
        place, position = (slots < group.n_slots).nonzero(as_tuple=True)
        group.fill(rows, row[place], slots[place, position], leaf[place], value)


def leaf_moments(leaves: LeafLayer, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (N, V) of all variables, under mixtures of leaves with these shares (L, I, N)."""
    mean = shares.new_zeros(len(leaves.families), shares.shape[2])
    variance = torch.zeros_like(mean)
    for group in leaves.leaf_groups():
        # Relative to a value near the leaves: squares of large numbers would cancel.
        deviation = group.means() - group.slot_centres().unsqueeze(1)
        first = _average(group, deviation, shares)
        second = _average(group, group.variances() + deviation * deviation, shares)
        mean[group.columns] = first + group.centres().unsqueeze(1)
        variance[group.columns] = (second - first * first).clamp_min(0.0)
    return mean.t(), variance.t()


def leaf_table(leaves: LeafLayer, shares: Tensor, variable: int) -> Tensor:
    """Probabilities (N, Y) of a discrete variable's values, under mixtures of leaves with these shares (L, I, N)."""
    (group,) = (group for group in leaves.leaf_groups() if group.family == leaves.families[variable])
    (slots,) = (group.variables == variable).nonzero(as_tuple=True)
    table = torch.exp(group.log_table(slots))  # (k, I, Y)
    return shares[group.region_of_slot[slots]].flatten(0, 1).t() @ table.flatten(0, 1)


def log_density_at_modes(leaves: LeafLayer, missing: Tensor) -> Tensor:
    """Log-density (L, I, N) that missing variables (N, V) have at their leaves' modes."""
    total = torch.zeros(())
    for group in leaves.leaf_groups():
        density = _by_region(group, group.log_density_at_modes())
        absent = missing.t()[group.columns][group.column_index].to(density.dtype)  # (L, D, N)
        total = torch.bmm(density.mT, absent) + total
    return total


def _average(group: LeafGroup, quantity: Tensor, shares: Tensor) -> Tensor:
    """Average over leaves of a quantity (P, I) of each: (U, N)."""
    parts = torch.bmm(_by_region(group, quantity), shares)  # (L, D, N)
    total = shares.new_zeros(len(group.columns), shares.shape[2])
    return total.index_add(0, group.column_index.flatten(), parts.flatten(0, 1))


def _by_region(group: LeafGroup, quantity: Tensor) -> Tensor:
    """A quantity (P, I) of each leaf, arranged by region: (L, D, I), 0 where a region has no such slot."""
    padded = torch.cat([quantity, quantity.new_zeros(1, quantity.shape[1])])
    return padded[group.slot_index]
