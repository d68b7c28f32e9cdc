"""Evaluation of a graph, bottom up: the log-value of every node and row.

Log-values are kept in float64 whatever the graph's type: those of thousands of variables are large, and it is their
differences, taken first, that are exponentiated in the graph's type. In the shapes below L counts leaves, M nodes and
E edges of sums.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from socratic.circuit.graph import Graph
from socratic.circuit.levels import Block
from socratic.memory import gathered_at_a_time
from socratic.numerics import finite_max, finite_or_zero, scale_dtype


def evaluate(graph: Graph, leaves: Tensor, log_weights: Tensor) -> Tensor:
    """Log-values of all nodes.

    Parameters
    ----------
    graph : Graph
    leaves : (L, N)
        Log-values of the leaves.
    log_weights : (E,) or (E, N)
        Logarithms of the weights, minus infinity for edges to drop.

    Returns
    -------
    Tensor (M, N)
        By number of node, in the type of :func:`~socratic.numerics.scale_dtype`.
    """
    if log_weights.ndim == 1:
        log_weights = log_weights.unsqueeze(-1)
    values: Tensor = _Evaluation.apply(graph, leaves, log_weights)
    return values


class _Evaluation(torch.autograd.Function):
    """Bottom up for values, top down for gradients: one buffer each, written in place."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, leaves: Tensor, log_weights: Tensor) -> Tensor:
        """Log-values of all nodes."""
        n_rows, levels = leaves.shape[1], graph.levels
        values = leaves.new_empty((graph.n_nodes, n_rows), dtype=scale_dtype(leaves))
        values[: graph.n_leaves] = leaves
        for block in levels.blocks:
            for tile in block.tiles(gathered_at_a_time(n_rows, values.device)):
                terms = gather(values, levels.children_of(tile))
                if not tile.is_sum:
                    values[tile.start : tile.stop] = terms.sum(1)
                    continue
                terms += _of_tile(log_weights, tile)
                top = finite_max(terms, dim=1)  # after masking: were it a dropped child's, the rest could underflow
                total = torch.exp((terms - top).to(leaves.dtype)).sum(1)
                values[tile.start : tile.stop] = torch.log(total) + top.squeeze(1)
        ctx.graph = graph
        ctx.save_for_backward(values, log_weights)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor]:
        """Gradients of the leaves and of the log-weights.

        A sum passes its gradient on by responsibilities, which are 0 where it is dead; a product to all its children.
        """
        graph: Graph = ctx.graph
        values, log_weights = ctx.saved_tensors
        n_rows, levels, dtype = values.shape[1], graph.levels, log_weights.dtype
        flow = gradient.clone()
        of_weights = torch.zeros_like(log_weights)
        for block in reversed(levels.blocks):
            for tile in block.tiles(gathered_at_a_time(n_rows, values.device)):
                numbers = levels.children_of(tile)
                share = flow[tile.start : tile.stop].unsqueeze(1).expand(*numbers.shape, n_rows)
                if tile.is_sum:
                    own = finite_or_zero(values[tile.start : tile.stop]).unsqueeze(1)
                    terms = gather(values, numbers) + _of_tile(log_weights, tile)
                    share = share * torch.exp((terms - own).to(dtype))
                    of_weights[tile.edges()] = (
                        share.flatten(0, 1).sum_to_size(numbers.numel(), log_weights.shape[1]).to(dtype)
                    )
                elif tile.arity == 1:
                    share = share.clone()  # what is added to the flow must not be a view of it
                flow.index_add_(0, numbers.flatten(), share.flatten(0, 1))
        return None, flow[: graph.n_leaves].to(dtype), of_weights


def evaluate_bound(graph: Graph, leaves: Tensor, log_weights: Tensor, epsilon: Tensor, *, largest: bool) -> Tensor:
    """Log-values (M, N) of all nodes, ``epsilon`` (N,) of every sum's weights being its smallest or largest child's."""
    n_rows, levels = leaves.shape[1], graph.levels
    values = leaves.new_empty((graph.n_nodes, n_rows), dtype=scale_dtype(leaves))
    values[: graph.n_leaves] = leaves
    log_known, log_unknown = torch.log1p(-epsilon).to(values), torch.log(epsilon).to(values)
    sign = 1.0 if largest else -1.0
    for block in levels.blocks:
        for tile in block.tiles(gathered_at_a_time(n_rows, values.device)):
            terms = gather(values, levels.children_of(tile))
            if tile.is_sum:
                weights = _of_tile(log_weights.unsqueeze(-1), tile).to(values)
                present = torch.where(weights > -torch.inf, sign * terms, -torch.inf)
                extreme = sign * present.amax(1)
                terms = torch.logaddexp(log_known + torch.logsumexp(terms + weights, dim=1), log_unknown + extreme)
            values[tile.start : tile.stop] = terms if tile.is_sum else terms.sum(1)
    return values


def _of_tile(log_weights: Tensor, tile: Block) -> Tensor:
    """The log-weights (n, arity, 1 or N) of a tile of sums."""
    return log_weights[tile.edges()].view(tile.n_nodes, tile.arity, -1)


def gather(values: Tensor, numbers: Tensor) -> Tensor:
    """Rows of ``values`` (M, N) by numbers (n, k): (n, k, N)."""
    return values.index_select(0, numbers.flatten()).view(*numbers.shape, values.shape[1])


def class_values(graph: Graph, values: Tensor, dtype: torch.dtype) -> Tensor:
    """The values of the class roots among those of all nodes: (M, N) -> (N, C)."""
    return values[graph.root_numbers].t().to(dtype)


def values_per_row(graph: Graph) -> int:
    """Numbers an evaluation holds for one row: wide values of all nodes, and the leaves with their intermediates."""
    return 2 * graph.n_nodes + 6 * graph.n_leaves
