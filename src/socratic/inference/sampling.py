"""Sampling: rows from a circuit, from the roots down."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.layers import SumProductLayer
from socratic.errors import check_count

_NOT_CHOSEN = -1


@torch.no_grad()
def sample(circuit: Circuit, n_rows: int, *, class_index: int | Tensor = 0, seed: int = 0) -> Tensor:
    """Draw rows from p(x | class).

    Parameters
    ----------
    circuit : Circuit
    n_rows : int
    class_index : int or Tensor (N,)
        The class to draw from, one for all rows or one for each.
    seed : int

    Returns
    -------
    Tensor (N, V)
    """
    n_rows = check_count("n_rows", n_rows, minimum=0)
    generator = torch.Generator(circuit.device).manual_seed(check_count("seed", seed, minimum=0))
    classes = torch.as_tensor(class_index, device=circuit.device).expand(n_rows)
    if n_rows and not bool(((classes >= 0) & (classes < circuit.n_classes)).all()):
        raise ValueError(f"class_index must be between 0 and {circuit.n_classes - 1}; got {class_index!r}")
    layers = circuit.inner_layers()
    weights = circuit.weights()
    # The chosen node of each region and row; regions of other repetitions stay unchosen.
    folds = [circuit.leaves.n_folds, *(layer.n_folds for layer in layers)]
    chosen = [torch.full((n, n_rows), _NOT_CHOSEN, device=circuit.device) for n in folds]
    _choose_repetition(circuit, weights, classes, chosen, generator)
    for number in range(len(layers), 0, -1):
        fold, row = (chosen[number] != _NOT_CHOSEN).nonzero(as_tuple=True)
        if len(fold):
            probabilities = weights.layers[number - 1][fold, chosen[number][fold, row]]
            child = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
            _descend(layers[number - 1], fold, row, child, chosen)
    return _draw_leaves(circuit, chosen[0], generator)


def _choose_repetition(
    circuit: Circuit, weights: Weights, classes: Tensor, chosen: list[Tensor], generator: torch.Generator
) -> None:
    """Choose each row's repetition and the children of its class root."""
    if not len(classes):
        return
    branches = circuit.root_branches()
    flat = torch.cat([w.transpose(0, 1).flatten(1) for w in weights.roots], dim=1)  # (C, all children)
    position = torch.multinomial(flat[classes], 1, generator=generator).squeeze(1)
    start = 0
    for branch in branches:
        stop = start + branch.n_folds * branch.n_children
        (row,) = ((position >= start) & (position < stop)).nonzero(as_tuple=True)
        place = position[row] - start
        _descend(branch, place // branch.n_children, row, place % branch.n_children, chosen)
        start = stop


def _descend(layer: SumProductLayer, fold: Tensor, row: Tensor, child: Tensor, chosen: list[Tensor]) -> None:
    """Mark the nodes that a chosen product consists of."""
    left, right = child, child
    if layer.all_pairs and layer.widths[1] is not None:
        left, right = child // layer.widths[1], child % layer.widths[1]
    chosen[layer.left.layer][layer.left.start + fold, row] = left
    if layer.right is not None:
        chosen[layer.right.layer][layer.right.start + fold, row] = right


def _draw_leaves(circuit: Circuit, chosen: Tensor, generator: torch.Generator) -> Tensor:
    rows = torch.empty(chosen.shape[1], circuit.n_features, dtype=circuit.dtype, device=circuit.device)
    region, row = (chosen != _NOT_CHOSEN).nonzero(as_tuple=True)
    for group in circuit.leaves.leaf_groups():
        slots = group.slot_index[region]  # (M, D)
        known = slots < group.n_slots
        slot = slots[known]
        leaf = chosen[region, row].unsqueeze(1).expand_as(slots)[known]
        target = row.unsqueeze(1).expand_as(slots)[known]
        picked = {name: values[slot, leaf] for name, values in group.parameter_values().items()}
        column = group.columns[group.column_of_slot[slot]]
        rows[target, column] = group.family.sample(picked, generator).to(rows.dtype)
    return rows
