"""Nodes that are no circuit are refused, with the path to the one that is wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from socratic import Graph, Leaf, Product, Sum
from socratic.circuit.nodes import Node
from socratic.families import Categorical, Gaussian


def leaf(variable: int) -> Leaf:
    return Leaf(variable, Gaussian.of(0.0, 1.0))


def both(*variables: int) -> Product:
    return Product(tuple(leaf(variable) for variable in variables))


WRONG: dict[str, tuple[object, str]] = {
    "not smooth": (
        Sum((both(0, 1), Sum((leaf(0), leaf(0), leaf(1)), (0.2, 0.3, 0.5))), (0.5, 0.5)),
        "roots[0].children[1], a Sum over the variables 0, 1, is not smooth: children[0] is over the variable 0, "
        "children[2] over the variable 1",
    ),
    "not decomposable": (
        Product((both(2, 1), leaf(0), both(3, 2))),
        "roots[0], a Product over the variables 0, 1, 2, 3, is not decomposable: children[2] and an earlier child are "
        "both over the variable 2",
    ),
    "weights": (
        Sum((leaf(0), leaf(0)), (0.5, 0.4)),
        "roots[0], a Sum over the variable 0, must have weights that add up to 1 (divide them by their total); "
        "they make 0.9",
    ),
    "a negative weight": (
        Sum((leaf(0), leaf(0)), (1.1, -0.1)),
        "must have weights of at least 0; weights[1] is -0.1",
    ),
    "a weight that is no number": (Sum((leaf(0), leaf(0)), (1.0, float("nan"))), "weights[1] is nan"),
    "too few weights": (Sum((leaf(0), leaf(0)), (1.0,)), "has 2 children and 1 weights"),
    "no children": (Product((Product(()), leaf(0))), "roots[0].children[0], a Product, has no children"),
    "a forgotten comma": (
        Product((leaf(1), Sum((leaf(0)), (1.0,)))),
        "roots[0].children[1], a Sum, must have a tuple of nodes as its children, such as (a, b) or (a,); got a Leaf",
    ),
    "children that are None": (Product(None), "as its children, such as (a, b) or (a,); got None"),
    "children that are a number": (Product(3), "as its children, such as (a, b) or (a,); got 3"),
    "children that are a set": (Product({leaf(0), leaf(1)}), "as its children, such as (a, b) or (a,); got a set"),
    "a generator of children": (Product(leaf(v) for v in range(2)), "(a, b) or (a,); got a generator"),
    "weights that are None": (Sum((leaf(0),), None), "must have a tuple of numbers as its weights; got None"),
    "weights that are a tensor": (
        Sum((leaf(0),), torch.ones(1)),
        "must have a tuple of numbers as its weights; got a Tensor; .tolist() makes it plain",
    ),
    "a weight that is a tensor": (
        Sum((leaf(0),), (torch.ones(()),)),
        "as its weights; got a Tensor; .tolist() makes it plain",
    ),
    "a column beyond all tables": (leaf(10**9), "has the variable 1000000000; a graph has at most 1,048,576 columns"),
    "roots that are None": (None, "roots must be a Leaf, Product or Sum, or a sequence of them; got None"),
    "no node": (Product((leaf(0), "leaf")), "roots[0].children[1] must be a Leaf, Product or Sum; got 'leaf'"),
    "no variable": (leaf(-1), "roots[0], a Leaf of variable -1, must have a column index as its variable"),
    "no distribution": (
        Leaf(0, 0.5),
        "must have a distribution such as socratic.families.Gaussian.of(0.0, 1.0); got 0.5",
    ),
    "scopes of roots": (
        (both(0, 1), leaf(0)),
        "roots[1] is over the variable 0 and roots[0] over the variables 0, 1; the roots of all classes need the same",
    ),
    "no roots": ((), "roots must hold at least one node"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    roots, message = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        Graph(roots)


def test_long_scopes_are_cut() -> None:
    with pytest.raises(ValueError, match="the variables 0, 1, 2, 3, 4, 5, 6, 7 and 12 more, is not smooth"):
        Graph(Sum((both(*range(20)), both(*range(19))), (0.5, 0.5)))


def test_a_cycle_is_found() -> None:
    children: list[Node] = [leaf(0)]
    node = Sum(children, (0.5, 0.5))
    children.append(Sum((node,), (1.0,)))
    with pytest.raises(ValueError, match=r"roots\[0\] is below itself; a circuit has no cycles"):
        Graph(node)


def test_the_number_of_features() -> None:
    assert Graph(both(0, 4)).n_features == 5
    assert Graph(both(0, 4), n_features=7).n_features == 7
    with pytest.raises(ValueError, match="has the variable 4, but n_features is 3"):
        Graph(both(0, 4), n_features=3)
    assert Graph(Leaf(np.int64(2), Gaussian.of(0.0, 1.0))).n_features == 3


def test_weights_are_normalised_within_the_tolerance() -> None:
    graph = Graph(Sum((leaf(0), leaf(0)), (0.50004, 0.5)))
    assert graph.log_weights().exp().sum().item() == pytest.approx(1.0, abs=1e-6)


def test_numbers_and_arrays_of_numpy_are_numbers() -> None:
    leaves = (Leaf(0, Gaussian.of(np.float32(0.0), np.float64(1.0))), leaf(0))
    expected = Graph(Sum((leaf(0), leaf(0)), (0.25, 0.75)))
    for weights in (np.array([0.25, 0.75], dtype=np.float32), (np.float32(0.25), np.float64(0.75))):
        assert torch.equal(Graph(Sum(leaves, weights)).logits, expected.logits)
    assert Graph(Leaf(0, Categorical.of(np.array([0.5, 0.5])))).n_leaves == 1


def test_a_single_leaf_of_a_late_column() -> None:
    assert Graph(leaf(2**20 - 1)).n_features == 2**20
    with pytest.raises(ValueError, match="n_features must be at most 1,048,576"):
        Graph(leaf(0), n_features=10**9)


@pytest.mark.parametrize("dtype", [torch.int64, "float32"])
def test_parameters_are_floating_point(dtype: object) -> None:
    with pytest.raises(ValueError, match="dtype must be a floating-point type such as"):
        Graph(leaf(0), dtype=dtype)


def test_a_deep_graph_that_is_wrong_is_not_printed() -> None:
    node: Node = leaf(0)
    for _ in range(5000):
        node = Sum((node, node), (0.5, 0.5))
    with pytest.raises(ValueError, match="got a Sum"):
        Graph(Sum(node, (1.0,)))
