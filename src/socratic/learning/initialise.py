"""Leaves that start where the data are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.leaf_set import LeafSet

_FIRST_NOISE = 0.2
"""Weight that a sum of :func:`start_near_identity` spreads over all products, relative to that of its own, at most."""


@torch.no_grad()
def initialise_leaves(circuit: Circuit, x: Tensor, seed: int = 0) -> None:
    """Start the leaves from data, each family in its way (:meth:`~socratic.families.Family.start`).

    Leaf i of a region takes after a random row, the same row for all variables of the region, so that a leaf starts
    near something that was seen and leaves start apart from each other. Where products are element-wise, leaves i of
    all regions of a repetition meet, and take after one row.

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
    if circuit.product == "element-wise":
        rows = rows[_repetitions(layer.scopes)]
    for group in layer.leaf_groups():
        variables = group.variables.cpu()
        examples = values[rows[group.region_of_slot.cpu()], variables.unsqueeze(1)]  # (P, I)
        examples = torch.where(examples.isnan(), averages[variables].unsqueeze(1), examples)
        fitted = fit_columns(group, values)
        for name, value in group.family.start(fitted, examples, generator).items():
            group.values[name].copy_(value)


@torch.no_grad()
def start_near_identity(circuit: Circuit, seed: int = 0) -> None:
    """Start sum i of every region with most of its weight on product i, for circuits of element-wise products.

    Then all regions are nearly in one state, and the circuit is nearly a mixture of products of leaves, which
    expectation maximisation improves much faster than a circuit of random weights.
    """
    generator = torch.Generator().manual_seed(seed)
    for layer in circuit.inner_layers():
        noise = torch.rand(layer.logits.shape, generator=generator)
        layer.logits.copy_(torch.log(torch.eye(layer.n_nodes) + _FIRST_NOISE / layer.n_nodes * noise))
    for branch in circuit.root_branches():
        branch.logits.copy_(0.1 * torch.randn(branch.logits.shape, generator=generator))


def _repetitions(scopes: Sequence[tuple[int, ...]]) -> list[int]:
    """The repetition of each leaf region: how many before it have its first variable."""
    seen: Counter[int] = Counter()
    found = []
    for scope in scopes:
        found.append(seen[scope[0]])
        seen[scope[0]] += 1
    return found


@torch.no_grad()
def fit_columns(leaves: LeafSet, x: Tensor, weight: Tensor | None = None) -> dict[str, Tensor]:
    """Parameters (P, 1) or (P, 1, ...) of the leaf that fits the whole column of each slot best, in float64 on the CPU.

    Parameters
    ----------
    leaves : LeafSet
    x : Tensor (N, V)
        Rows; missing values are skipped.
    weight : Tensor (N,), optional
        Of the rows; all the same by default.
    """
    family = leaves.family
    columns, column_of_slot = leaves.variables.cpu().unique(return_inverse=True)
    part = x.detach().cpu().double()[:, columns].t()  # (U, N)
    weights = torch.ones_like(part) if weight is None else weight.cpu().double().expand_as(part)
    neutral = {name: value.unsqueeze(1) for name, value in family.from_plain([family.neutral] * len(part)).items()}
    fitted = family.fit(part, weights, towards=neutral, rows=family.neutral_rows)
    return {name: value[column_of_slot] for name, value in fitted.items()}
