"""The compiled form of a graph: nodes numbered so that a level is a few dense gathers.

Nodes are numbered from the leaves up, by level (one more than the highest child's), kind and number of children. The
nodes that agree in all three are a *block*: their numbers are consecutive, their children a dense matrix, and the
weights of a block of sums are consecutive entries of the graph's ``logits``. A query takes block after block, from the
first to the last bottom up and in reverse top down; blocks of one level do not depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.nodes import Leaf, Node, Sum, children_of


class Block(NamedTuple):
    """Sums or products of one level with equally many children."""

    level: int
    is_sum: bool
    start: int  # number of the first node
    stop: int  # one more than the number of the last
    arity: int  # children of each node
    first_child: int  # where its rows begin in Levels.child_numbers
    first_edge: int  # where its weights begin among all edges of sums

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.stop - self.start

    def edges(self) -> slice:
        """The edges of a block of sums, node by node."""
        return slice(self.first_edge, self.first_edge + self.n_nodes * self.arity)

    def tiles(self, size: int) -> Iterator[Block]:
        """The block in pieces of at most ``size`` children."""
        step = max(1, size // self.arity)
        for skip in range(0, self.n_nodes, step):
            yield self._replace(
                start=self.start + skip,
                stop=min(self.start + skip + step, self.stop),
                first_child=self.first_child + skip * self.arity,
                first_edge=self.first_edge + skip * self.arity,
            )


class Levels(NamedTuple):
    """The wiring of a graph."""

    blocks: tuple[Block, ...]  # bottom up
    child_numbers: Tensor  # (all children,) numbers of the children of every inner node, block by block
    sum_numbers: Tensor  # (sums,) numbers of the sums
    sum_of_edge: Tensor  # (E,) which of the sums an edge belongs to
    edge_child: Tensor  # (E,) number of the child at an edge's end

    def children_of(self, block: Block) -> Tensor:
        """Numbers of the children of a block: (n, arity)."""
        stop = block.first_child + block.n_nodes * block.arity
        return self.child_numbers[block.first_child : stop].view(-1, block.arity)


def compile_levels(order: Sequence[Node], leaves: Sequence[Leaf]) -> tuple[tuple[Node, ...], Levels]:
    """Number the nodes, and wire them.

    Parameters
    ----------
    order : sequence of nodes
        All of them, children before parents.
    leaves : sequence of Leaf
        The leaves in the order they are to be numbered in.

    Returns
    -------
    tuple of nodes, Levels
        The nodes in the order of their numbers, and their wiring.
    """
    level: dict[int, int] = {}
    for node in order:
        level[id(node)] = 1 + max((level[id(child)] for child in children_of(node)), default=-1)

    def key(node: Node) -> tuple[int, bool, int]:
        return level[id(node)], isinstance(node, Sum), len(children_of(node))

    inner = sorted((node for node in order if not isinstance(node, Leaf)), key=key)
    nodes = (*leaves, *inner)
    number = {id(node): index for index, node in enumerate(nodes)}
    blocks: list[Block] = []
    flat: list[int] = []
    edge_child: list[int] = []
    sums: list[int] = []
    sizes: list[int] = []
    for (height, is_sum, arity), group in groupby(inner, key=key):
        members = list(group)
        start = number[id(members[0])]
        blocks.append(Block(height, is_sum, start, start + len(members), arity, len(flat), len(edge_child)))
        here = [number[id(child)] for node in members for child in children_of(node)]
        flat += here
        if is_sum:
            edge_child += here
            sums += range(start, start + len(members))
            sizes += [arity] * len(members)
    return nodes, Levels(
        tuple(blocks),
        torch.tensor(flat, dtype=torch.long),
        torch.tensor(sums, dtype=torch.long),
        torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.long)),
        torch.tensor(edge_child, dtype=torch.long),
    )
