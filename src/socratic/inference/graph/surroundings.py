"""What surrounds every node of a graph, carried down after the values came up.

The surroundings of a node are the derivative of the mixture of classes by that node's value: the value that the
mixture has if the node is 1 and all that does not lead to it is 0. In logarithms they never underflow.
"""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.graph.evaluation import gather
from socratic.memory import gathered_at_a_time
from socratic.numerics import logsumexp_by


def walk_down(graph: Graph, values: Tensor, log_weights: Tensor, log_class_weights: Tensor) -> Tensor:
    """Surroundings (M, N) of all nodes as logarithms, from their log-values (M, N).

    Parameters
    ----------
    graph : Graph
    values : (M, N)
    log_weights : (E,)
        Logarithms of the weights.
    log_class_weights : (N, C)
        Logarithms of the weights of the classes.
    """
    levels = graph.levels
    around = logsumexp_by(log_class_weights.t().to(values.dtype), graph.root_numbers, graph.n_nodes)
    for block in reversed(levels.blocks):
        for tile in block.tiles(gathered_at_a_time(values.shape[1], values.device)):
            numbers = levels.children_of(tile)
            own = around[tile.start : tile.stop].unsqueeze(1)
            if tile.is_sum:
                terms = own + log_weights[tile.edges()].view(*numbers.shape, 1)
            else:
                terms = own + _sum_of_others(gather(values, numbers))
            children, place = numbers.flatten().unique(return_inverse=True)
            groups = torch.cat([torch.arange(len(children), device=place.device), place])
            parts = torch.cat([around[children], terms.flatten(0, 1)])
            around[children] = logsumexp_by(parts, groups, len(children))
    return around


def _sum_of_others(values: Tensor) -> Tensor:
    """For each child the sum over all others: (n, arity, N). Nothing is subtracted: values may be minus infinity."""
    nothing = torch.zeros_like(values[:, :1])
    before = torch.cat([nothing, values[:, :-1].cumsum(1)], dim=1)
    after = torch.cat([values[:, 1:].flip(1).cumsum(1).flip(1), nothing], dim=1)
    return before + after
