"""The node view: circuits as ``Leaf``, ``Product`` and ``Sum`` nodes, frozen and tiny.

Nodes compare by identity: a node used twice is shared, two equal nodes are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from socratic.circuit.layout import Span
from socratic.distributions import Distribution

if TYPE_CHECKING:
    from socratic.circuit.circuit import Circuit
    from socratic.circuit.layers import SumProductLayer


@dataclass(frozen=True, eq=False)
class Leaf:
    """A univariate distribution of one variable (a column index)."""

    variable: int
    distribution: Distribution

    def log_density(self, row: Sequence[float]) -> float:
        """Log-density of one input row; 0 where the leaf's variable is missing (NaN)."""
        value = float(row[self.variable])
        return 0.0 if math.isnan(value) else self.distribution.log_density(value)


@dataclass(frozen=True, eq=False)
class Product:
    """The product of nodes with disjoint scopes."""

    children: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Sum:
    """A mixture of nodes with one scope; the weights are positive and add up to 1."""

    children: tuple[Node, ...]
    weights: tuple[float, ...]


Node = Leaf | Product | Sum


@torch.no_grad()
def unroll(circuit: Circuit) -> tuple[Sum, ...]:
    """The class roots of a tensor circuit as nodes.

    A leaf region of several variables becomes products of leaves. The sums of a region share one tuple of
    children, so sharing can be read off by identity.
    """
    weights = circuit.weights()
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
    for region, scope in enumerate(layer.scopes):
        nodes: list[Node] = []
        for index in range(layer.n_nodes):
            leaves = tuple(Leaf(v, layer.distribution(region, v, index)) for v in scope)
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
