"""The nodes that circuits of any shape are made of: ``Leaf``, ``Product`` and ``Sum``, frozen and tiny.

Nodes compare by identity: a node used twice is shared, two equal nodes are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from socratic.families import Distribution


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
    """A mixture of nodes with one scope; the weights are at least 0 and add up to 1."""

    children: tuple[Node, ...]
    weights: tuple[float, ...]


Node = Leaf | Product | Sum


def children_of(node: Node) -> Sequence[Node]:
    """The children of any node; a leaf has none."""
    return () if isinstance(node, Leaf) else node.children
