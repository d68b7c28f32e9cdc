"""Leaves that start where the data are."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit


@torch.no_grad()
def initialise_leaves(circuit: Circuit, x: Tensor, seed: int = 0) -> None:
    """Start the leaves from data, each family in its way (:meth:`~socratic.families.Family.start`).

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
    averages = values.nanmean(0).nan_to_num(0.0)  # (V,)
    layer = circuit.leaves
    rows = torch.randint(len(values), (layer.n_folds, layer.n_nodes), generator=generator)
    for group in layer.leaf_groups():
        family, variables = group.family, group.variables.cpu()
        examples = values[rows[group.region_of_slot.cpu()], variables.unsqueeze(1)]  # (P, I)
        examples = torch.where(examples.isnan(), averages[variables].unsqueeze(1), examples)
        part = values[:, group.columns.cpu()].t()  # (U, N)
        neutral = {name: value.unsqueeze(1) for name, value in family.from_plain([family.neutral] * len(part)).items()}
        fitted = family.fit(part, torch.ones_like(part), towards=neutral, rows=family.neutral_rows)
        of_slots = {name: value[group.column_of_slot.cpu()] for name, value in fitted.items()}
        for name, value in family.start(of_slots, examples, generator).items():
            group.values[name].copy_(value)
