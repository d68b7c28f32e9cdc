"""Determinism of graphs, against every complete row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.circuit.nodes import Node
from socratic.families import Bernoulli, Binomial, Categorical, Distribution, Gaussian
from socratic.inference.graph.determinism import is_deterministic

OFF, ON = Bernoulli.of(0.0), Bernoulli.of(1.0)


def half(*children: Node) -> Sum:
    return Sum(children, (1.0 / len(children),) * len(children))


def positive(node: Node, states: np.ndarray) -> np.ndarray:
    """In which states a node has a positive value."""
    if isinstance(node, Leaf):
        return np.array([node.log_density(state) > -np.inf for state in states])
    parts = [positive(child, states) for child in node.children]
    return np.any(parts, axis=0) if isinstance(node, Sum) else np.all(parts, axis=0)


def truly_deterministic(graph: Graph, n_values: int) -> bool:
    """Whether no complete row gives a positive value to two children of a sum."""
    states = np.array(list(itertools.product(range(n_values), repeat=graph.n_features)))
    sums = [node for node in graph.nodes if isinstance(node, Sum)]
    return all(np.sum([positive(child, states) for child in node.children], axis=0).max() <= 1 for node in sums)


def pair(a: Distribution, b: Distribution) -> Product:
    return Product((Leaf(0, a), Leaf(1, b)))


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (Leaf(0, Bernoulli.of(0.5)), True),
        (Product((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(1, Bernoulli.of(0.5)))), True),
        (half(Leaf(0, Gaussian.of(0.0, 1.0))), True),
        (half(Leaf(0, OFF), Leaf(0, ON)), True),
        (half(Leaf(0, Bernoulli.of(1e-300)), Leaf(0, ON)), False),  # tiny is not 0
        (half(Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(100.0, 1.0))), False),
        (half(Leaf(0, Categorical.of((0.5, 0.0, 0.5))), Leaf(0, Categorical.of((0.0, 1.0)))), True),
        (half(Leaf(0, Binomial.of(3, 1.0)), Leaf(0, Categorical.of((0.5, 0.3, 0.2)))), True),
        (half(Leaf(0, Binomial.of(3, 0.5)), Leaf(0, Categorical.of((0.5, 0.3, 0.2)))), False),
        # Every two of three differ in some variable, no variable sets all apart.
        (half(pair(OFF, OFF), pair(OFF, ON), pair(ON, Bernoulli.of(0.5))), True),
        (half(pair(OFF, OFF), pair(OFF, ON), pair(Bernoulli.of(0.5), ON)), False),
        # A sum below that is not deterministic, although the root is.
        (half(Product((Leaf(0, OFF), half(Leaf(1, ON), Leaf(1, Bernoulli.of(0.5))))), pair(ON, ON)), False),
        # Apart only as the sets of values of a sum.
        (
            half(
                half(Leaf(0, Categorical.of((1.0, 0.0, 0.0, 0.0))), Leaf(0, Categorical.of((0.0, 0.0, 1.0, 0.0)))),
                Leaf(0, Categorical.of((0.0, 0.5, 0.0, 0.5))),
            ),
            True,
        ),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_supports_of_single_variables(root: Node, expected: bool, dtype: torch.dtype) -> None:
    assert is_deterministic(Graph(root, dtype=dtype)) is expected


def test_edges_without_weight_do_not_count() -> None:
    graph = Graph(half(Leaf(0, Bernoulli.of(0.3)), Leaf(0, Bernoulli.of(0.6))))
    assert not is_deterministic(graph)
    with torch.no_grad():
        graph.logits[1] = -torch.inf
    assert is_deterministic(graph)


def test_chow_liu_trees_are_and_their_mixtures_are_not() -> None:
    rng = np.random.default_rng(0)
    trees = [socratic.chow_liu_tree(rng.integers(0, 3, size=(60, 6)).astype(float), Categorical(3)) for _ in range(2)]
    assert all(is_deterministic(Graph(tree)) for tree in trees)
    assert is_deterministic(Graph(trees))  # one for each class
    assert not is_deterministic(Graph(half(*trees)))


def test_no_false_claim() -> None:
    """Random sums of products of leaves with few possible values."""
    claims = misses = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)

        def leaf(variable: int, rng: np.random.Generator = rng) -> Leaf:
            possible = rng.permutation([1.0, float(rng.random() < 0.35), float(rng.random() < 0.35)])
            return Leaf(variable, Categorical.of(tuple((possible / possible.sum()).tolist())))

        inner = [half(*(Product((leaf(0), leaf(1))) for _ in range(int(rng.integers(1, 3))))) for _ in range(2)]
        graph = Graph(half(*(Product((node, leaf(2))) for node in inner)), dtype=torch.float64)
        claimed, true = is_deterministic(graph), truly_deterministic(graph, 3)
        assert true or not claimed
        claims += claimed
        misses += true and not claimed
    assert claims >= 30
    assert misses <= 5
