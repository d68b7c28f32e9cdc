"""Unrolling: a layered circuit as nodes that share what the circuit shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from socratic.circuit.layout import Span
from socratic.circuit.nodes import Leaf, Node, Product, Sum

if TYPE_CHECKING:
    from socratic.circuit.circuit import Circuit
    from socratic.circuit.layers import SumProductLayer


@torch.no_grad()
def unroll(circuit: Circuit) -> tuple[Sum, ...]:
    """The class roots of a layered circuit as nodes.

    A leaf region of several variables becomes products of leaves. The sums of a region share one tuple of
    children, so sharing can be read off by identity.
    """
    weights = circuit.weights(torch.float64)  # a graph keeps their logarithms
    levels: list[list[tuple[Node, ...]]] = [_leaf_nodes(circuit)]
    for layer, layer_weights in zip(circuit.inner_layers(), weights.layers, strict=True):
        rows = layer_weights.tolist()
        levels.append(
            [
                tuple(Sum(children, tuple(row)) for row in rows[fold])
                for fold, children in enumerate(_products(layer, levels))
            ]
        )
    shared: list[Node] = []
    rows_of_class: list[list[float]] = [[] for _ in range(circuit.n_classes)]
    for branch, branch_weights in zip(circuit.root_branches(), weights.roots, strict=True):
        for fold, children in enumerate(_products(branch, levels)):
            shared.extend(children)
            for row, weights_of_class in zip(rows_of_class, branch_weights[fold].tolist(), strict=True):
                row.extend(weights_of_class)
    children = tuple(shared)
    return tuple(Sum(children, tuple(row)) for row in rows_of_class)


def _leaf_nodes(circuit: Circuit) -> list[tuple[Node, ...]]:
    layer = circuit.leaves
    regions: list[tuple[Node, ...]] = []
    for scope, distributions in zip(layer.scopes, layer.distributions(), strict=True):
        nodes: list[Node] = []
        for index in range(layer.n_nodes):
            leaves = tuple(Leaf(variable, distributions[variable][index]) for variable in scope)
            nodes.append(leaves[0] if len(leaves) == 1 else Product(leaves))
        regions.append(tuple(nodes))
    return regions


def _products(layer: SumProductLayer, levels: list[list[tuple[Node, ...]]]) -> list[tuple[Node, ...]]:
    def nodes(span: Span) -> list[tuple[Node, ...]]:
        return levels[span.layer][span.start : span.stop]

    if layer.right is None:
        return nodes(layer.left)
    both = zip(nodes(layer.left), nodes(layer.right), strict=True)
    if layer.all_pairs:
        return [tuple(Product((a, b)) for a in left for b in right) for left, right in both]
    return [tuple(Product((a, b)) for a, b in zip(left, right, strict=True)) for left, right in both]
