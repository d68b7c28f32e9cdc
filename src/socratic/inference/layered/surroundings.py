"""What surrounds every node of a layered circuit, carried down after the values came up.

The surroundings of a node are the derivative of the mixture of classes by that node's value: the value that the
mixture has if the node is 1 and its sisters are 0. They go down as values go up, relative to the largest of their
region and by the same step: seen from a left child, a layer sums over pairs of a sum's surroundings and a right child.
So they never underflow, however little a node contributes to a row far from all data.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.layers import SumProductLayer
from socratic.circuit.layout import Span
from socratic.circuit.leaves import ExponentialGroup, LayerTerms
from socratic.inference.layered.sum_product import log_sums_with_zeros
from socratic.inference.layered.values import LogValues, Products
from socratic.inference.layered.walk import Walked
from socratic.numerics import logsumexp_by, logsumexp_or_dead


def walk_down(
    circuit: Circuit, weights: Weights, walked: Walked[LogValues], log_class_weights: Tensor
) -> list[LogValues]:
    """Surroundings of the nodes of every layer, by layer number, given the log-weights (N, C) of the classes."""
    around = [LogValues(*map(torch.empty_like, values)) for values in walked.layers]
    like = walked.layers[0].log_value
    of_classes = LogValues.rescale(log_class_weights.t().unsqueeze(0).to(like.dtype, copy=True))
    for branch, branch_weights in zip(circuit.root_branches(), weights.roots, strict=True):
        of_branch = LogValues(*(part.expand(branch.n_folds, -1, -1) for part in of_classes))
        _pass_down(branch, branch_weights, of_branch, walked, around)
    layers = circuit.inner_layers()
    for number in range(len(layers), 0, -1):
        _pass_down(layers[number - 1], weights.layers[number - 1], around[number], walked, around)
    return around


def _pass_down(
    layer: SumProductLayer, weights: Tensor, sums: LogValues, walked: Walked[LogValues], around: list[LogValues]
) -> None:
    """Give the children of a layer their surroundings, from those (F, S, N) of its sums."""
    left, right = walked.children(layer)
    if layer.all_pairs and right is not None:
        pairs = weights.unflatten(2, (left.log_value.shape[1], -1))  # (F, S, A, B)
        _set(around, layer.left, _step(pairs.permute(0, 2, 1, 3).flatten(2), sums, right))
        if layer.right is not None:
            _set(around, layer.right, _step(pairs.permute(0, 3, 1, 2).flatten(2), sums, left))
        return
    products = _step(weights.mT, sums)
    _set(around, layer.left, products if right is None else times(products, right))
    if layer.right is not None:
        _set(around, layer.right, times(products, left))


def _step(weights: Tensor, sums: LogValues, sisters: LogValues | None = None) -> LogValues:
    """Weighted sums over all sums, or over all pairs of a sum and a node on the other side."""
    products = Products(sums.log_value, None, sums.log_scale)
    if sisters is not None:
        products = Products(sums.log_value, sisters.log_value, sums.log_scale + sisters.log_scale)
    return LogValues.rescale(log_sums_with_zeros(weights, products), products.log_scale)


def times(a: LogValues, b: LogValues) -> LogValues:
    """Products of values, node by node."""
    return LogValues.rescale(a.log_value + b.log_value, a.log_scale + b.log_scale)


def _set(states: list[LogValues], span: Span, values: LogValues) -> None:
    for part, value in zip(states[span.layer], values, strict=True):
        part[span.start : span.stop] = value


def log_sum(values: LogValues) -> Tensor:
    """Logarithm of the sum over the nodes of each region: (F, N), in the wide type."""
    return (logsumexp_or_dead(values.log_value, dim=1) + values.log_scale).squeeze(1)


def log_without_columns(
    circuit: Circuit, terms: LayerTerms, rows: Tensor, leaves: LogValues, around: LogValues
) -> Tensor:
    """Log-likelihood (V, N) of each row without each of its columns, from values and surroundings of the leaves.

    A leaf of a region is a product of univariate ones. Without one of them it is the product of the others.
    """
    whole = times(leaves, around)
    whole = whole._replace(log_value=whole.log_value.contiguous())
    found = leaves.log_scale.new_empty(circuit.n_features, len(rows))
    for group, known in zip(circuit.leaves.leaf_groups(), terms.groups, strict=True):
        without = []
        for slots, density in group.slot_log_densities(rows, known):
            around_slots = whole if circuit.leaves.n_folds == 1 else _of_regions(whole, group.region_of_slot[slots])
            without.append(log_sum(around_slots._replace(log_value=around_slots.log_value - density)))
        found[group.columns] = logsumexp_by(torch.cat(without), group.column_of_slot, len(group.columns))
    return found


def _of_regions(values: LogValues, regions: Tensor) -> LogValues:
    """The values of some regions (p,)."""
    return LogValues(*(part[regions] for part in values))


class SurpriseEntries(NamedTuple):
    """Numbers that :func:`log_without_columns` computes for one row, and those of them that it holds at once."""

    computed: int
    held: int

    @classmethod
    def of(cls, circuit: Circuit) -> SurpriseEntries:
        """For the group of leaves that takes most."""
        groups, of_slot = circuit.leaves.leaf_groups(), 4 * circuit.leaves.n_nodes
        at_once = [1 if isinstance(group, ExponentialGroup) else group.n_slots for group in groups]
        return cls(of_slot * max(group.n_slots for group in groups), of_slot * max(at_once))
