"""The recursive algorithm of the TDI paper's Appendix B, as readable as it can be, for edge masks.

One row, plain floats, one function for each of the paper's procedures. The covariance of two sums expands the one that
is higher, whose masks cannot occur in the other: the published formula does not hold where one is above the other.
Products must split their variables alike (structured decomposability).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from socratic.circuit.nodes import Leaf, Node, Product, Sum
from tests.oracles import topological


class AppendixB:
    """Expectations, variances and covariances of all nodes for one row."""

    def __init__(self, roots: Sequence[Node], row: Sequence[float], dropout: float) -> None:
        self.row, self.q = row, 1.0 - dropout
        self.height = {id(node): place for place, node in enumerate(topological(roots))}
        self.scope: dict[int, frozenset[int]] = {}
        for node in topological(roots):
            below = {node.variable} if isinstance(node, Leaf) else {v for c in node.children for v in self.scope[id(c)]}
            self.scope[id(node)] = frozenset(below)
        self.expectations: dict[int, float] = {}
        self.covariances: dict[tuple[int, int], float] = {}

    def expectation(self, node: Node) -> float:
        if id(node) not in self.expectations:
            self.expectations[id(node)] = self._expectation(node)
        return self.expectations[id(node)]

    def _expectation(self, node: Node) -> float:
        if isinstance(node, Leaf):
            return math.exp(node.log_density(self.row))
        if isinstance(node, Product):
            return math.prod(self.expectation(child) for child in node.children)
        return self.q * sum(w * self.expectation(child) for w, child in zip(node.weights, node.children, strict=True))

    def variance(self, node: Node) -> float:
        return self.covariance(node, node)

    def covariance(self, a: Node, b: Node) -> float:
        low, high = sorted((a, b), key=lambda node: self.height[id(node)])
        key = id(low), id(high)
        if key not in self.covariances:
            self.covariances[key] = self._covariance(low, high)
        return self.covariances[key]

    def _covariance(self, low: Node, high: Node) -> float:
        if low is high and isinstance(high, Sum):
            return self._variance_of_sum(high)
        if isinstance(high, Sum):
            return self._expand(high, low)
        if isinstance(low, Sum):  # the other is a product, which is above it only if it contains it
            return self._expand(low, high)
        if isinstance(low, Product) and isinstance(high, Product):
            together = apart = 1.0
            for child in low.children:
                (other,) = [one for one in high.children if self.scope[id(one)] == self.scope[id(child)]]
                means = self.expectation(child) * self.expectation(other)
                together, apart = together * (self.covariance(child, other) + means), apart * means
            return together - apart
        return 0.0

    def _expand(self, node: Sum, other: Node) -> float:
        pairs = zip(node.weights, node.children, strict=True)
        return self.q * sum(weight * self.covariance(child, other) for weight, child in pairs)

    def _variance_of_sum(self, node: Sum) -> float:
        total = 0.0
        for i, (w, a) in enumerate(zip(node.weights, node.children, strict=True)):
            for j, (v, b) in enumerate(zip(node.weights, node.children, strict=True)):
                covariance, means = self.covariance(a, b), self.expectation(a) * self.expectation(b)
                kept = self.q if i == j else self.q**2
                total += w * v * (kept * (covariance + means) - self.q**2 * means)
        return total
