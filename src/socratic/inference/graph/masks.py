"""Which edges of a graph share a dropout mask."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.dropout import MaskKind


class Masks(NamedTuple):
    """The masks of all edges of sums.

    With edge masks every edge has its own. With unit masks the sums over one set of children are a group and have one
    mask for each child (for each occurrence of it, should a child occur twice). Without root dropout the root sums
    have no masks, wherever in the graph they are, and belong to no group.
    """

    of_edge: Tensor  # (E,) number of the mask, -1 for an edge that is never dropped
    group_of_sum: Tensor  # (sums,) number of the group, -1 for a sum without masks
    n_masks: int

    @property
    def masked(self) -> Tensor:
        """Whether an edge can be dropped: (E,)."""
        return self.of_edge >= 0

    def drop(self, log_weights: Tensor, dropped: Tensor) -> Tensor:
        """Log-weights (E, ...) without the edges whose masks, of (masks, ...), are dropped."""
        hit = dropped[self.of_edge.clamp_min(0)]
        return log_weights.masked_fill(hit & self.masked.view(-1, *[1] * (hit.ndim - 1)), -torch.inf)


def masks_of(graph: Graph, kind: MaskKind, root_dropout: bool) -> Masks:
    """Number the masks of a graph."""
    masked_sum = torch.ones_like(graph.sum_numbers, dtype=torch.bool)
    if not root_dropout:
        masked_sum = ~torch.isin(graph.sum_numbers, graph.root_numbers)
    masked_edge = masked_sum[graph.sum_of_edge]
    group = torch.arange(graph.n_sums, device=graph.device)
    mask = torch.arange(graph.n_edges, device=graph.device)
    if kind == "unit":
        mask, group = _shared(graph, mask, group, masked_sum)
    return Masks(mask.masked_fill(~masked_edge, -1), group.masked_fill(~masked_sum, -1), graph.n_edges)


def _shared(graph: Graph, mask: Tensor, group: Tensor, masked_sum: Tensor) -> tuple[Tensor, Tensor]:
    """Give the sums over one set of children the masks and the group of the first of them that has masks.

    Such sums are in one block: they agree in level and number of children.
    """
    mask, group = mask.clone(), group.clone()
    first = 0
    for block in graph.blocks:
        if not block.is_sum:
            continue
        sums = slice(first, first + block.n_nodes)
        first += block.n_nodes
        if block.n_nodes == 1:
            continue
        children, order = graph.levels.children_of(block).sort(dim=1, stable=True)
        _, kind = children.unique(dim=0, return_inverse=True)
        place = torch.arange(block.n_nodes, device=kind.device)
        late = torch.where(masked_sum[sums], place, block.n_nodes)
        leader = torch.full_like(place, block.n_nodes).scatter_reduce(0, kind, late, "amin")[kind]
        leader = torch.minimum(leader, place)  # without masks, whoever
        group[sums] = group[sums][leader]
        own = mask[block.edges()].view(-1, block.arity)
        by_child = own.gather(1, order)[leader]  # masks in the order of the sorted children
        mask[block.edges()] = torch.empty_like(own).scatter(1, order, by_child).flatten()
    return mask, group
