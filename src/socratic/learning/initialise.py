"""Leaves that start where the data are."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.leaves import LeafGroup
from socratic.families import Gaussian

_SMOOTHING = 1.0
_JITTER = 0.3


@torch.no_grad()
def initialise_leaves(circuit: Circuit, x: Tensor, seed: int = 0) -> None:
    """Start the leaves from data.

    Leaf i of a Gaussian region takes a random row as its mean, the same row for all variables of the region, so that
    a leaf starts as something that was seen. Discrete leaves start at the smoothed frequencies of the data, with some
    noise to tell them apart.

    Parameters
    ----------
    circuit : Circuit
    x : Tensor (N, V)
        Rows; missing values are skipped.
    """
    generator = torch.Generator().manual_seed(seed)
    values = x.detach().cpu().double()
    layer = circuit.leaves
    rows = torch.randint(len(values), (layer.n_folds, layer.n_nodes), generator=generator)
    for group in layer.leaf_groups():
        regions = _region_of_slot(group)
        columns = group.columns.cpu()[group.column_of_slot.cpu()]
        if isinstance(group.family, Gaussian):
            chosen = values[rows[regions], columns.unsqueeze(1)]  # (P, I)
            average = values.nanmean(0).nan_to_num(0.0)[columns].unsqueeze(1)
            group.values["mean"].copy_(torch.where(chosen.isnan(), average, chosen))
            group.values["raw_variance"].zero_()
            continue
        expected = _expected_statistics(group, values)[group.column_of_slot.cpu()]  # (P, T)
        fitted = group.family.from_expectations(expected.unsqueeze(-1), torch.zeros(len(expected)))
        for name, parameter in group.values.items():
            start = fitted[name].expand(parameter.shape)
            noise = _JITTER * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(start + noise)


def _region_of_slot(group: LeafGroup) -> Tensor:
    """The leaf region of each slot: (P,)."""
    slots = group.slot_index.cpu()
    regions = torch.arange(len(slots)).unsqueeze(1).expand_as(slots)
    return regions[slots < group.n_slots]


def _expected_statistics(group: LeafGroup, values: Tensor) -> Tensor:
    """Smoothed means of the statistics of each variable, relative to a centre of 0: (U, T)."""
    part = values[:, group.columns.cpu()].t()  # (U, N)
    missing = part.isnan()
    centre = torch.zeros(len(part), 1, dtype=part.dtype)
    statistics = torch.stack(group.family.statistics(torch.where(missing, centre, part), centre), dim=1)
    total = statistics.masked_fill(missing.unsqueeze(1), 0.0).sum(-1)
    neutral = total.new_tensor(group.family.neutral)
    count = (~missing).sum(-1, keepdim=True)
    return (total + _SMOOTHING * neutral) / (count + _SMOOTHING)
