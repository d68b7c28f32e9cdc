"""Sampled dropout on graphs: passes whose masks all rows share, and masks drawn for each row in training."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.graph.evaluation import class_values, evaluate
from socratic.inference.graph.masks import Masks, masks_of
from socratic.inference.passes import balanced_passes, independent_passes
from socratic.inference.results import MaskKind
from socratic.numerics import draw_dropped


@torch.no_grad()
def graph_passes(
    graph: Graph,
    rows: Tensor,
    *,
    dropout: float,
    masks: MaskKind,
    n_passes: int,
    leaf_dropout: float,
    root_dropout: bool,
    balanced: bool,
    generator: torch.Generator,
) -> Iterator[Tensor]:
    """Log-likelihoods (N, C) under sampled masks, one pass at a time; arguments are checked by the caller."""
    known = masks_of(graph, masks, root_dropout)
    log_weights = graph.log_weights()
    leaves = graph.leaves.log_density(rows)
    draw = balanced_passes if balanced else independent_passes
    for (dropped,) in draw([(known.n_masks,)], dropout, n_passes, generator):
        values = leaves
        if leaf_dropout > 0.0:
            values = leaves.masked_fill(draw_dropped((graph.n_leaves, 1), leaf_dropout, generator), 0.0)
        masked = log_weights.masked_fill(_of_edges(known, dropped), -torch.inf)
        yield class_values(graph, evaluate(graph, values, masked), rows.dtype)


def graph_training_log_likelihood(
    graph: Graph, rows: Tensor, *, dropout: float, leaf_dropout: float, root_dropout: bool, generator: torch.Generator
) -> Tensor:
    """Log-likelihoods (N, C) with unit masks drawn anew for every row."""
    log_weights = graph.log_weights()
    leaves = graph.leaves.log_density(rows)
    if leaf_dropout > 0.0:
        leaves = leaves.masked_fill(draw_dropped(leaves.shape, leaf_dropout, generator), 0.0)
    if dropout > 0.0:
        known = masks_of(graph, "unit", root_dropout)
        dropped = draw_dropped((known.n_masks, len(rows)), dropout, generator)
        log_weights = log_weights.unsqueeze(-1).masked_fill(_of_edges(known, dropped), -torch.inf)
    return class_values(graph, evaluate(graph, leaves, log_weights), rows.dtype)


def _of_edges(masks: Masks, dropped: Tensor) -> Tensor:
    """Which edges (E, ...) are dropped, given which masks (masks, ...) are."""
    hit = dropped[masks.of_edge.clamp_min(0)]
    return hit & masks.masked.view(-1, *[1] * (hit.ndim - 1))
