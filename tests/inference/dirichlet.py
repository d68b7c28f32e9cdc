"""Slow and obvious references for uncertain weights: quadrature and sampling over the Dirichlet weights of all sums."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.special import roots_jacobi

from socratic import Graph, WeightPosterior
from socratic.circuit.nodes import Leaf, Product, Sum
from tests.oracles import Enumeration, topological

WeightsOf = dict[int, np.ndarray]
"""Weights (P, K) of each sum, by its id, at P points."""


def parameters_of(graph: Graph, posterior: WeightPosterior) -> dict[int, np.ndarray]:
    """The parameters (K,) of each sum's Dirichlet, by its id; a weight of 0 has the parameter 0."""
    nodes = graph.nodes
    strengths = posterior.prior_strength + posterior.worth * posterior.visits[0].numpy()
    sums = [nodes[number] for number in graph.sum_numbers.tolist()]
    return {id(node): strength * np.array(node.weights) for node, strength in zip(sums, strengths, strict=True)}


def evaluate(graph: Graph, row: Sequence[float], weights: WeightsOf) -> np.ndarray:
    """Values (P, C) of the roots at P points."""
    values: dict[int, np.ndarray] = {}
    for node in topological(graph):
        if isinstance(node, Leaf):
            values[id(node)] = np.exp(np.array(node.log_density(row)))
        elif isinstance(node, Product):
            values[id(node)] = np.prod(np.broadcast_arrays(*(values[id(child)] for child in node.children)), axis=0)
        else:
            values[id(node)] = sum(
                w * values[id(child)] for w, child in zip(weights[id(node)].T, node.children, strict=True)
            )
    return np.stack(np.broadcast_arrays(*(values[id(root)] for root in graph.roots)), axis=-1)


def quadrature(graph: Graph, row: Sequence[float], posterior: WeightPosterior, n_points: int = 2) -> Enumeration:
    """The roots at the points of a product rule: Gauss-Jacobi for each of the sticks that make a Dirichlet.

    A root is linear in the weights of each sum, so that two points a stick are exact for second moments.
    """
    rules = {key: dirichlet_rule(alpha, n_points) for key, alpha in parameters_of(graph, posterior).items()}
    sizes = [len(probability) for _, probability in rules.values()]
    assert np.prod(sizes, dtype=float) <= 3e5, "too many points"
    places = np.array(list(itertools.product(*map(range, sizes)))).reshape(-1, len(sizes))
    weights = {key: points[place] for (key, (points, _)), place in zip(rules.items(), places.T, strict=True)}
    chances = [probability[place] for (_, probability), place in zip(rules.values(), places.T, strict=True)]
    return Enumeration(evaluate(graph, row, weights), np.prod(chances, axis=0))


def dirichlet_rule(alpha: np.ndarray, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (P, K) and probabilities (P,) for a Dirichlet: the part each stick breaks off what is left is a Beta."""
    points, probability = np.zeros((1, len(alpha))), np.ones(1)
    left = np.ones(1)
    (alive,) = alpha.nonzero()
    for place, k in enumerate(alive):
        rest = alpha[alive[place + 1 :]].sum()
        if rest == 0.0:
            points[:, k] = left
            break
        nodes, chances = roots_jacobi(n_points, rest - 1.0, alpha[k] - 1.0)
        broken = (1.0 + nodes) / 2.0
        points = np.repeat(points, n_points, axis=0)
        points[:, k] = np.outer(left, broken).ravel()
        probability = np.outer(probability, chances / chances.sum()).ravel()
        left = np.outer(left, 1.0 - broken).ravel()
    return points, probability


def sampled(
    graph: Graph, row: Sequence[float], posterior: WeightPosterior, n_samples: int, seed: int = 0
) -> np.ndarray:
    """Values (P, C) of the roots under sampled weights."""
    rng = np.random.default_rng(seed)
    weights: WeightsOf = {}
    for key, alpha in parameters_of(graph, posterior).items():
        weights[key] = np.zeros((n_samples, len(alpha)))
        weights[key][:, alpha > 0] = rng.dirichlet(alpha[alpha > 0], size=n_samples)
    return evaluate(graph, row, weights)


def responsibilities(graph: Graph, row: Sequence[float], root: int) -> dict[int, float]:
    """What reaches each sum, by its id, from a root: shares of values, from the top down, node by node."""
    values: dict[int, float] = {}
    order = topological(graph)
    for node in order:
        if isinstance(node, Leaf):
            values[id(node)] = float(np.exp(node.log_density(row)))
        elif isinstance(node, Product):
            values[id(node)] = float(np.prod([values[id(child)] for child in node.children]))
        else:
            values[id(node)] = sum(w * values[id(child)] for w, child in zip(node.weights, node.children, strict=True))
    reached = dict.fromkeys(values, 0.0)
    reached[id(graph.roots[root])] = 1.0
    for node in reversed(order):
        if isinstance(node, Product):
            for child in node.children:
                reached[id(child)] += reached[id(node)]
        elif isinstance(node, Sum) and values[id(node)] > 0.0:
            for w, child in zip(node.weights, node.children, strict=True):
                reached[id(child)] += reached[id(node)] * w * values[id(child)] / values[id(node)]
    return {id(node): reached[id(node)] for node in order if isinstance(node, Sum)}
