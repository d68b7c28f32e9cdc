"""Slow and obvious references: every dropout mask over the node view, one after the other; trees row by row."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from socratic.circuit.forest import Forest
from socratic.circuit.graph import Graph
from socratic.circuit.nodes import Leaf, Node, Product, Sum

Roots = Sequence[Node] | Graph


@dataclass(frozen=True)
class Enumeration:
    """Values of the class roots under every mask, and each mask's probability."""

    values: np.ndarray  # (masks, C)
    probability: np.ndarray  # (masks,)

    @property
    def mean(self) -> np.ndarray:
        return self.probability @ self.values

    @property
    def covariance(self) -> np.ndarray:
        centred = self.values - self.mean
        return centred.T @ (centred * self.probability[:, None])

    @property
    def relative_covariance(self) -> np.ndarray:
        return self.covariance / np.outer(self.mean, self.mean)

    def posterior(self, prior: Sequence[float]) -> tuple[np.ndarray, np.ndarray, float]:
        """Mean and standard deviation of the posterior given that a root is alive, and the dead probability."""
        joint = self.values * np.asarray(prior)
        alive = joint.sum(1) > 0
        probability = self.probability[alive] / self.probability[alive].sum()
        share = joint[alive] / joint[alive].sum(1, keepdims=True)
        mean = probability @ share
        return mean, np.sqrt(probability @ (share - mean) ** 2), float(self.probability[~alive].sum())


def edges_to_mask(roots: Roots, masks: str, root_dropout: bool) -> dict[tuple[int, int], int]:
    """Number of the mask of each edge, keyed by (sum id, position of the child).

    With unit masks, sums over one set of children have one mask for each child (for each occurrence of it). Without
    root dropout root sums have no masks, also where they are below another root.
    """
    numbers: dict[object, int] = {}
    result: dict[tuple[int, int], int] = {}
    root_ids = {id(root) for root in nodes_of(roots)}
    for node in topological(roots):
        if not isinstance(node, Sum) or (id(node) in root_ids and not root_dropout):
            continue
        seen: Counter[int] = Counter()
        for position, child in enumerate(node.children):
            group: object = id(node) if masks == "edge" else tuple(sorted(id(child) for child in node.children))
            place: object = position if masks == "edge" else (id(child), seen[id(child)])
            seen[id(child)] += 1
            result[id(node), position] = numbers.setdefault((group, place), len(numbers))
    return result


def nodes_of(roots: Roots) -> tuple[Node, ...]:
    """The roots of a graph, or roots as they are."""
    return roots.roots if isinstance(roots, Graph) else tuple(roots)


def topological(roots: Roots) -> list[Node]:
    """All nodes, children before parents."""
    order: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) in order:
            return
        if not isinstance(node, Leaf):
            for child in node.children:
                visit(child)
        order[id(node)] = node

    for root in nodes_of(roots):
        visit(root)
    return list(order.values())


def count_masks(roots: Roots, masks: str, root_dropout: bool) -> int:
    return len(set(edges_to_mask(roots, masks, root_dropout).values()))


def evaluate(roots: Roots, row: Sequence[float]) -> np.ndarray:
    """Log-likelihoods (C,) of one row, node by node."""
    enumeration = enumerate_masks(roots, row, dropout=0.0, masks="edge", root_dropout=False, n_masks=0)
    return np.log(enumeration.values[0])


def enumerate_masks(
    roots: Roots,
    row: Sequence[float],
    dropout: float,
    masks: str,
    root_dropout: bool,
    *,
    leaf_coins: dict[int, Sequence[tuple[int, float]]] | None = None,
    n_masks: int | None = None,
    outputs: Sequence[Node] | None = None,
) -> Enumeration:
    """Evaluate the circuit under each of the 2^M masks; ``outputs`` are the nodes to report, by default the roots.

    ``leaf_coins`` makes leaves uncertain: the leaf of this id has ``1 +- size +- ...`` times its density, each
    sign as the fair coin of this number falls; leaves with a coin in common are correlated.
    """
    edges = edges_to_mask(roots, masks, root_dropout) if n_masks is None else {}
    n_masks = len(set(edges.values()))
    coins = leaf_coins or {}
    n_coins = len({coin for tossed in coins.values() for coin, _ in tossed})
    assert n_masks + n_coins <= 20, f"{n_masks} masks and {n_coins} coins are too many to enumerate"
    width = n_masks + n_coins
    bits = np.array(list(itertools.product((0.0, 1.0), repeat=width))).reshape(2**width, width)
    kept = bits[:, :n_masks].sum(1)
    probability = (1.0 - dropout) ** kept * dropout ** (n_masks - kept) * 0.5**n_coins
    values: dict[int, np.ndarray] = {}
    for node in topological(roots):
        if isinstance(node, Leaf):
            values[id(node)] = np.full(len(bits), np.exp(node.log_density(row)))
            signs = 2.0 * bits[:, n_masks:] - 1.0
            values[id(node)] *= 1.0 + sum(size * signs[:, coin] for coin, size in coins.get(id(node), ()))
        elif isinstance(node, Product):
            values[id(node)] = np.prod([values[id(child)] for child in node.children], axis=0)
        else:
            total = np.zeros(len(bits))
            for position, (child, weight) in enumerate(zip(node.children, node.weights, strict=True)):
                number = edges.get((id(node), position))
                mask = 1.0 if number is None else bits[:, number]
                total = total + weight * mask * values[id(child)]
            values[id(node)] = total
    shown = nodes_of(roots) if outputs is None else outputs
    return Enumeration(np.stack([values[id(node)] for node in shown], axis=1), probability)


def consistent_cells(forest: Forest, x: np.ndarray) -> np.ndarray:
    """Which cells rows (N, V) may be in: (N, T, K). Each goes down each tree, both ways where it misses a value."""
    found = np.zeros((len(x), *forest.count.shape), dtype=bool)
    for row, values in enumerate(forest.columns.ranked(x)):
        for tree in range(forest.n_trees):
            left = [0]
            while left:
                node = left.pop()
                if forest.cell[tree, node] >= 0:
                    found[row, tree, forest.cell[tree, node]] = True
                    continue
                value = values[forest.feature[tree, node]]
                if np.isnan(value) or value <= forest.threshold[tree, node]:
                    left.append(int(forest.left[tree, node]))
                if np.isnan(value) or value > forest.threshold[tree, node]:
                    left.append(int(forest.right[tree, node]))
    return found
