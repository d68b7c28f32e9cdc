"""Plain evaluation and checks of nodes: vectorised over rows, node by node, without recursion."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from socratic.circuit import Leaf, Node, Product
from socratic.families import Distribution


def topological(roots: Sequence[Node]) -> list[Node]:
    """All nodes once, children before parents."""
    order: dict[int, Node] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if id(node) in order:
            continue
        if ready or isinstance(node, Leaf):
            order[id(node)] = node
            continue
        stack.append((node, True))
        stack += [(child, False) for child in node.children if id(child) not in order]
    return list(order.values())


def log_likelihood(roots: Sequence[Node], x: np.ndarray) -> np.ndarray:
    """Log-likelihoods (N, C) of the rows (N, V) under each root; NaN is marginalised."""
    values: dict[int, np.ndarray] = {}
    for node in topological(roots):
        if isinstance(node, Leaf):
            column = x[:, node.variable]
            known = ~np.isnan(column)
            value = np.zeros(len(x))
            value[known] = log_density(node.distribution, column[known])
        elif isinstance(node, Product):
            value = np.sum([values[id(child)] for child in node.children], axis=0)
        else:
            terms = np.stack([values[id(child)] for child in node.children])
            with np.errstate(divide="ignore"):
                value = logsumexp(terms + np.log(node.weights)[:, None], axis=0)
        values[id(node)] = value
    return np.stack([values[id(root)] for root in roots], axis=1)


def log_density(distribution: Distribution, values: np.ndarray) -> np.ndarray:
    """Log-densities of known values (N,)."""
    own = distribution.parameters
    if distribution.family.name == "gaussian":
        distance = (values - own["mean"]) ** 2 / own["variance"]
        return -0.5 * (math.log(2 * math.pi * own["variance"]) + distance)
    if distribution.family.name == "binomial":
        n, p = own["n_trials"], own["probability"]
        choose = gammaln(n + 1) - gammaln(values + 1) - gammaln(n - values + 1)
        return choose + xlogy(values, p) + xlog1py(n - values, -p)
    if distribution.family.name == "bernoulli":
        probabilities = np.array([1.0 - own["probability"], own["probability"]])
    else:
        assert distribution.family.name == "categorical"
        probabilities = np.array(own["probabilities"])
    with np.errstate(divide="ignore"):
        return np.log(probabilities)[values.astype(int)]


def scopes(roots: Sequence[Node]) -> dict[int, frozenset[int]]:
    """Scope of every node, by identity; fails unless the graph is smooth, decomposable and normalised."""
    found: dict[int, frozenset[int]] = {}
    for node in topological(roots):
        if isinstance(node, Leaf):
            found[id(node)] = frozenset([node.variable])
            own = node.distribution.parameters
            if node.distribution.family.name == "gaussian":
                assert math.isfinite(own["mean"])
                assert 0.0 < own["variance"] < math.inf
            elif node.distribution.family.name == "categorical":
                assert math.isclose(sum(own["probabilities"]), 1.0)
            continue
        below = [found[id(child)] for child in node.children]
        union = frozenset().union(*below)
        if isinstance(node, Product):
            assert len(node.children) > 1, "a product of one node"
            assert len(union) == sum(map(len, below)), "a product whose children share variables"
        else:
            assert all(scope == union for scope in below), "a sum over different variables"
            assert len(node.weights) == len(node.children)
            assert min(node.weights) > 0.0
            assert math.isclose(sum(node.weights), 1.0)
        found[id(node)] = union
    return found
