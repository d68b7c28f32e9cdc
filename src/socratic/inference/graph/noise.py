"""How the weights of a graph's sums vary; see :mod:`socratic.inference.layered.noise` for the kinds of noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.doubt import Doubt
from socratic.inference.dropout import Dropout
from socratic.inference.graph.masks import Masks, masks_of
from socratic.inference.saturation import saturation


class GraphNoise(NamedTuple):
    """The noise of the weights of all sums.

    ``masks`` say which edges vary, and which of them together: a Dirichlet is like masks of its own for every edge.
    """

    masks: Masks
    wiring: tuple[object, ...]  # what ``masks`` depend on besides the graph
    log_mean: Tensor  # (E,) logarithms of the mean weights
    odds: Tensor  # (E,) p / q of the masks, 0 without
    common: Tensor | None  # (sums + 1,) 1 / (alpha_0 + 1) of Dirichlet weights, and a 0 for none
    certain: bool = False  # whether no weight varies

    def squares(self, log_ratio: Tensor, log_weights: Tensor, odds: Tensor, common: Tensor | None) -> Tensor:
        """What edges give to the relative variance of their sums, if their children are certain.

        Parameters
        ----------
        log_ratio : (..., N)
            Logarithms of the children's values over those of the sums.
        log_weights, odds, common : (..., 1)
            Of these edges, ``common`` that of their sums.
        """
        if common is None:
            return odds * torch.exp(2.0 * (log_weights + log_ratio))
        # No weight is divided by: one that is 0, whose logarithm is minus infinity, gives nothing.
        return common * torch.exp(log_weights + 2.0 * log_ratio).clamp_max(saturation(log_ratio.dtype))


def noise_of(graph: Graph, log_weights: Tensor, doubt: Doubt) -> GraphNoise:
    """The noise that ``doubt`` brings to the weights."""
    if isinstance(doubt, Dropout):
        masks = masks_of(graph, doubt.masks, doubt.root)
        masked = masks.masked.to(graph.dtype)
        wiring = (doubt.masks, doubt.root)
        log_mean, odds = log_weights + masked * doubt.log_kept, masked * doubt.odds
        return GraphNoise(masks, wiring, log_mean, odds, None, certain=doubt.rate == 0.0)
    (common,) = doubt.relative_spreads(log_weights)
    masks = masks_of(graph, "edge", root_dropout=True)
    common = torch.cat([common, common.new_zeros(1)])
    return GraphNoise(masks, ("edge", True), log_weights, torch.zeros_like(log_weights), common)
