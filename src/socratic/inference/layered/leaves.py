"""What leaves contribute at the end of a way down: values to fill in, moments, tables, densities at modes."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.leaf_set import LeafValue
from socratic.circuit.leaves import LeafGroup, LeafLayer


def fill_missing(leaves: LeafLayer, chosen: Tensor, rows: Tensor, value: LeafValue) -> Tensor:
    """Fill what is missing in rows (D, V) with values of their chosen leaves (L, D), negative where there is none."""
    rows = rows.clone()
    region, row = (chosen >= 0).nonzero(as_tuple=True)
    for group in leaves.leaf_groups():
        slots = group.slot_index[region]  # (M, D)
        column = group.columns[group.column_index[region]]
        wanted = (slots < group.n_slots) & rows[row.unsqueeze(1), column].isnan()
        slot, column = slots[wanted], column[wanted]
        leaf = chosen[region, row].unsqueeze(1).expand_as(slots)[wanted]
        picked = {name: values[slot, leaf] for name, values in group.parameter_values().items()}
        draw = row.unsqueeze(1).expand_as(slots)[wanted]
        rows[draw, column] = value(group.family, picked, draw, column).to(rows.dtype)
    return rows


def leaf_moments(leaves: LeafLayer, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (N, V) of all variables, under mixtures of leaves with these shares (L, I, N)."""
    mean = shares.new_zeros(len(leaves.families), shares.shape[2])
    variance = torch.zeros_like(mean)
    for group in leaves.leaf_groups():
        parameters = group.parameter_values()
        # Relative to a value near the leaves: squares of large numbers would cancel.
        centre = group.slot_centres()
        deviation = group.family.mean(parameters) - centre.unsqueeze(1)
        first = _average(group, deviation, shares)
        second = _average(group, group.family.variance(parameters) + deviation * deviation, shares)
        column_centre = centre.new_zeros(len(group.columns)).index_copy(0, group.column_of_slot, centre)
        mean[group.columns] = first + column_centre.unsqueeze(1)
        variance[group.columns] = (second - first * first).clamp_min(0.0)
    return mean.t(), variance.t()


def leaf_table(leaves: LeafLayer, shares: Tensor, variable: int) -> Tensor:
    """Probabilities (N, Y) of a discrete variable's values, under mixtures of leaves with these shares (L, I, N)."""
    (group,) = (group for group in leaves.leaf_groups() if group.family == leaves.families[variable])
    (slot,) = (group.columns[group.column_of_slot] == variable).nonzero(as_tuple=True)
    region = (group.slot_index < group.n_slots).nonzero()[slot, 0]  # slots are numbered region by region
    parameters = {name: values[slot] for name, values in group.parameter_values().items()}
    values = torch.arange(group.family.n_values or 0, dtype=shares.dtype, device=shares.device).expand(
        len(slot), leaves.n_nodes, -1
    )
    table = torch.exp(group.family.log_density(parameters, values))  # (P, I, Y)
    return shares[region].flatten(0, 1).t() @ table.flatten(0, 1)


def log_density_at_modes(leaves: LeafLayer, missing: Tensor) -> Tensor:
    """Log-density (L, I, N) that missing variables (N, V) have at their leaves' modes."""
    total = torch.zeros(())
    for group in leaves.leaf_groups():
        parameters = group.parameter_values()
        mode = group.family.mode(parameters)
        density = group.family.log_density(parameters, mode.unsqueeze(-1)).squeeze(-1)  # (P, I)
        absent = missing.t()[group.columns][group.column_index].to(density.dtype)  # (L, D, N)
        total = torch.bmm(_by_region(group, density).mT, absent) + total
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
