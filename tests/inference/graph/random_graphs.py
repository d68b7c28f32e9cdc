"""Random circuits of every shape, small enough that all masks can be tried."""

from __future__ import annotations

import numpy as np

from socratic.circuit.nodes import Leaf, Node, Product, Sum
from socratic.families import Bernoulli, Gaussian

SHAPES = ("tree", "structured", "crossing", "ancestor")
Scope = tuple[int, ...]


class Maker:
    """Makes one random circuit: nodes of a scope are kept, so that they can be shared."""

    def __init__(self, shape: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shape = shape
        self.n_features = int(self.rng.integers(3, 5)) if shape == "crossing" else int(self.rng.integers(2, 4))
        self.pools: dict[Scope, list[Node]] = {}
        self.splits: dict[Scope, tuple[Scope, Scope]] = {}

    def weights(self, n: int) -> tuple[float, ...]:
        return tuple(self.rng.dirichlet(np.full(n, 1.5)).clip(1e-3).tolist()) if n > 1 else (1.0,)

    def sum(self, children: list[Node]) -> Sum:
        weights = np.array(self.weights(len(children)))
        return Sum(tuple(children), tuple((weights / weights.sum()).tolist()))

    def leaf(self, variable: int) -> Leaf:
        if variable % 2:
            return Leaf(variable, Bernoulli.of(float(self.rng.uniform(0.05, 0.95))))
        return Leaf(variable, Gaussian.of(float(self.rng.normal()), float(self.rng.uniform(0.3, 2.0))))

    def split(self, scope: Scope) -> tuple[Scope, Scope]:
        """How a product divides a scope: always alike, except where partitions cross."""
        if self.shape == "crossing" or scope not in self.splits:
            order = self.rng.permutation(scope).tolist()
            cut = int(self.rng.integers(1, len(scope)))
            self.splits[scope] = tuple(sorted(order[:cut])), tuple(sorted(order[cut:]))
        return self.splits[scope]

    def product(self, scope: Scope, depth: int) -> Node:
        if len(scope) == 1:
            return self.leaf(scope[0])
        left, right = self.split(scope)
        return Product((self.node(left, depth), self.node(right, depth)))

    def node(self, scope: Scope, depth: int) -> Node:
        """A node over a scope: one that is there already, or a new one."""
        pool = self.pools.setdefault(scope, [])
        if self.shape != "tree" and pool and self.rng.random() < 0.75:
            return pool[int(self.rng.integers(len(pool)))]
        if depth == 0 or self.rng.random() < 0.15:
            made = self.product(scope, max(depth - 1, 0))
        else:
            children = [self.product(scope, depth - 1) for _ in range(1 + int(self.rng.random() < 0.3))]
            if self.shape == "ancestor" and pool:  # a sum above a sum that others use too
                children.append(pool[int(self.rng.integers(len(pool)))])
            made = self.sum(children)
            if self.shape != "tree" and self.rng.random() < 0.4:  # sums over the same children, in another order
                pool.append(self.sum(children[::-1]))
        pool.append(made)
        return made

    def roots(self) -> tuple[Node, ...]:
        scope = tuple(range(self.n_features))
        n_classes = int(self.rng.integers(1, 4))
        if self.shape == "tree":
            return tuple(self.sum([self.product(scope, 2) for _ in range(2)]) for _ in range(min(n_classes, 2)))
        children = [self.product(scope, 2) for _ in range(2)]
        roots: list[Node] = []
        for _ in range(n_classes):
            more = [self.node(scope, 1)] if self.rng.random() < 0.5 else []
            roots.append(self.sum(children + more) if self.rng.random() < 0.85 else self.product(scope, 1))
        if self.rng.random() < 0.2:  # a root below another root
            roots.append(self.sum([roots[0], self.node(scope, 1)]))
        return tuple(roots)


def random_roots(shape: str, seed: int) -> tuple[Node, ...]:
    """The roots of a random circuit."""
    return Maker(shape, seed).roots()


def random_rows(n_rows: int, n_features: int, seed: int) -> np.ndarray:
    """Rows that fit the leaves, some values of them missing."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, n_features))
    rows[:, 1::2] = rng.integers(0, 2, size=rows[:, 1::2].shape)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows
