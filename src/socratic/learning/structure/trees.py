"""Trees of discrete states, one state variable for each column, as circuits.

A tree gives the probability of each state given the state of its parent, and a leaf for each state of each column. A
Chow-Liu tree has one state for each category; in a hidden tree the states are not observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from socratic.circuit import Leaf, Node, Product, Sum
from socratic.families import Family


@dataclass(frozen=True, eq=False)
class RootedTree:
    """A spanning tree of the columns.

    Attributes
    ----------
    order : tuple of int
        All columns, parents before children; the first is the root.
    parents : tuple of int
        Parent of each column; -1 for the root.
    """

    order: tuple[int, ...]
    parents: tuple[int, ...]

    @property
    def edges(self) -> list[tuple[int, int]]:
        """(parent, child) of each edge, parents before children."""
        return [(self.parents[column], column) for column in self.order[1:]]


def maximum_spanning_tree(strength: np.ndarray) -> RootedTree:
    """The tree over all columns with the largest total ``strength`` (V, V), at least 0; column 0 is its root."""
    cost = strength.max() + 1.0 - strength  # positive: zeros would be read as missing edges
    tree = minimum_spanning_tree(np.triu(cost, 1))
    order, parents = breadth_first_order(tree, 0, directed=False)
    return RootedTree(tuple(order.tolist()), tuple(np.maximum(parents, -1).tolist()))


def rooted_at_centre(tree: RootedTree) -> RootedTree:
    """The same tree with its root in the middle of its longest path: no other is as flat."""
    neighbours = csr_array((np.ones(len(tree.edges)), np.array(tree.edges).reshape(-1, 2).T), (len(tree.order),) * 2)

    def walk(start: int) -> tuple[np.ndarray, np.ndarray]:
        order, parents = breadth_first_order(neighbours, start, directed=False)
        return order, np.maximum(parents, -1)

    end = walk(0)[0][-1]  # the column furthest from any is one end of a longest path
    order, parents = walk(end)
    path = [order[-1]]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    order, parents = walk(path[len(path) // 2])
    return RootedTree(tuple(order.tolist()), tuple(parents.tolist()))


def tree_circuit(
    tree: RootedTree, prior: np.ndarray, transitions: Sequence[np.ndarray], leaves: Sequence[Sequence[Leaf]]
) -> Node:
    """The circuit of a tree: smooth and decomposable, its nodes shared by all states of the parent.

    Parameters
    ----------
    tree : RootedTree
    prior : ndarray (K,)
        Probabilities of the root's states, positive.
    transitions : sequence of ndarray (K of the parent, K)
        For each column, probabilities of its states given those of its parent, positive; not used for the root.
    leaves : sequence of sequences of Leaf
        For each column, one leaf for each state.
    """
    sums: list[list[tuple[Node, ...]]] = [[] for _ in tree.order]  # of each column: for each child, one per state
    for column in reversed(tree.order):
        below = zip(*sums[column], strict=True) if sums[column] else ((),) * len(leaves[column])
        states = tuple(
            Product((leaf, *children)) if children else leaf
            for leaf, children in zip(leaves[column], below, strict=True)
        )
        if tree.parents[column] < 0:
            return Sum(states, tuple(prior.tolist()))
        sums[tree.parents[column]].append(tuple(Sum(states, tuple(row)) for row in transitions[column].tolist()))
    raise AssertionError("a tree without a root")


def category_leaf(column: int, family: Family, probabilities: np.ndarray) -> Leaf:
    """A leaf of a Bernoulli or categorical column."""
    return Leaf(column, family.of_table(probabilities))
