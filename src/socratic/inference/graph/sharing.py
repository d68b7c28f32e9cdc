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
    leaf_groups : Tensor (L,)
        Number of the group of each leaf that is correlated with another leaf; -1 for the others.
    """

    stochastic: Tensor
    shared: Tensor
    groups: Tensor
    leaf_groups: Tensor

    @property
    def is_tree(self) -> bool:
        """Whether no two different nodes that meet depend on one random number: all their covariances are 0."""
        grouped = bool((self.groups >= 0).any()) or bool((self.leaf_groups >= 0).any())
        return not bool(self.shared.any()) and not grouped


def correlated_leaves(relative: Tensor) -> Tensor:
    """The groups (L,) of leaves whose relative covariances (N, L, L) link them in some row, -1 for a leaf alone.

    Of variances (N, L) there are none: all leaves are alone.
    """
    n_leaves = relative.shape[-1]
    number = torch.arange(n_leaves, device=relative.device)
    if relative.ndim == 2:
        return torch.full_like(number, -1)
    linked = (relative != 0).any(0) | (number == number.unsqueeze(-1))
    group, smaller = number, torch.where(linked, number, n_leaves).amin(-1)
    while not torch.equal(group, smaller):
        group, smaller = smaller, torch.where(linked, smaller, n_leaves).amin(-1)
    return _grouped(group)


def sharing_of(graph: Graph, masks: Masks, leaf_groups: Tensor | None) -> Sharing:
    """Find what is random and what is shared, from the wiring and the groups (L,) of uncertain leaves, if they are."""
    stochastic = torch.zeros(graph.n_nodes, dtype=torch.bool, device=graph.device)
    stochastic[: graph.n_leaves] = leaf_groups is not None
    if leaf_groups is None:
        leaf_groups = torch.full((graph.n_leaves,), -1, device=graph.device)
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
    return Sharing(stochastic, shared, _grouped(masks.group_of_sum), leaf_groups)


def _grouped(group: Tensor) -> Tensor:
    """Numbers of groups, -1 for whoever is alone in one."""
    sizes = torch.bincount(group.clamp_min(0), weights=(group >= 0).double())
    return group.masked_fill(sizes[group.clamp_min(0)] < 2, -1)
