"""Which nodes of a graph are random under dropout, and which randomness they share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.graph.masks import Masks


@dataclass(frozen=True, eq=False)
class Sharing:
    """What is random below each node.

    Attributes
    ----------
    stochastic : Tensor (M,)
        Whether a mask, or a leaf of uncertain density, is at or below the node.
    shared : Tensor (M,)
        Whether the node is stochastic and met in more than one way: by several parents, as a root and as a child, as
        several roots, or as a factor of a product that is.
    groups : Tensor (sums,)
        Number of the mask group of each sum that shares its masks with another sum; -1 for the others.
    """

    stochastic: Tensor
    shared: Tensor
    groups: Tensor

    @property
    def is_tree(self) -> bool:
        """Whether no two different nodes that meet depend on one random number: all their covariances are 0."""
        return not bool(self.shared.any()) and not bool((self.groups >= 0).any())


def sharing_of(graph: Graph, masks: Masks, uncertain_leaves: bool) -> Sharing:
    """Find what is random and what is shared, from the wiring alone."""
    stochastic = torch.zeros(graph.n_nodes, dtype=torch.bool, device=graph.device)
    stochastic[: graph.n_leaves] = uncertain_leaves
    levels = graph.levels
    first = 0
    for block in levels.blocks:
        found = stochastic[levels.children_of(block)].any(1)
        if block.is_sum:
            found |= masks.group_of_sum[first : first + block.n_nodes] >= 0
            first += block.n_nodes
        stochastic[block.start : block.stop] = found
    met = torch.bincount(torch.cat([levels.child_numbers, graph.root_numbers]), minlength=graph.n_nodes)
    shared = stochastic & (met > 1)
    for block in reversed(levels.blocks):
        if not block.is_sum:  # whoever meets a product meets its factors
            children = levels.children_of(block)[shared[block.start : block.stop]]
            shared[children.flatten()] = True
    shared &= stochastic
    group = masks.group_of_sum
    sizes = torch.bincount(group.clamp_min(0), weights=(group >= 0).double(), minlength=graph.n_sums)
    alone = sizes[group.clamp_min(0)] < 2
    return Sharing(stochastic, shared, group.masked_fill(alone, -1))
