"""From blocks to nodes: a circuit of any shape, with whatever it shares."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from socratic.circuit import Leaf, Node, Product, Sum
from socratic.interop.blocks import Block, Joined, Leaves, Sums


@torch.no_grad()
def as_nodes(root: Block) -> tuple[Node, ...]:
    """The nodes of ``root``. A node that is used twice in the blocks is one object here.

    The sums of a block share one tuple of children. An edge of weight 0 is no edge: such a sum has children of its
    own.
    """
    known: dict[int, tuple[Node, ...]] = {}
    stack: list[Block] = [root]
    while stack:
        block = stack[-1]
        waiting = [child for child in _children(block) if id(child) not in known]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if id(block) not in known:
            known[id(block)] = _nodes(block, [known[id(child)] for child in _children(block)])
    return known[id(root)]


def _children(block: Block) -> tuple[Block, ...]:
    if isinstance(block, Leaves):
        return ()
    return (block.child,) if isinstance(block, Sums) else block.children


def _nodes(block: Block, children: list[tuple[Node, ...]]) -> tuple[Node, ...]:
    if isinstance(block, Leaves):
        return tuple(Leaf(block.variable, leaf) for leaf in block.family.distributions(block.parameters))
    if isinstance(block, Joined):
        return tuple(itertools.chain.from_iterable(children))
    if isinstance(block, Sums):
        return _sums(block.log_weights, children[0])
    if block.all_pairs:
        return tuple(_product(factors) for factors in itertools.product(*children))
    wide = [nodes if len(nodes) > 1 else nodes * block.width for nodes in children]
    return tuple(_product(factors) for factors in zip(*wide, strict=True))


def _product(factors: tuple[Node, ...]) -> Product:
    """The product of nodes; products among them are taken apart."""
    flat = [factor.children if isinstance(factor, Product) else (factor,) for factor in factors]
    return Product(tuple(itertools.chain.from_iterable(flat)))


def _sums(log_weights: Tensor, children: tuple[Node, ...]) -> tuple[Node, ...]:
    rows: list[list[float]] = torch.softmax(log_weights.double(), dim=-1).tolist()
    sums: list[Node] = []
    for row in rows:
        if all(weight > 0.0 for weight in row):
            sums.append(Sum(children, tuple(row)))
            continue
        edges = [(child, weight) for child, weight in zip(children, row, strict=True) if weight > 0.0]
        sums.append(Sum(tuple(child for child, _ in edges), tuple(weight for _, weight in edges)))
    return tuple(sums)
