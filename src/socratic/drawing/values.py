"""What a picture says of the values of a graph's nodes, for one row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

import torch
from torch import Tensor

from socratic.circuit import Graph, Sum
from socratic.circuit.nodes import children_of
from socratic.inference import NodeMoments, node_moments
from socratic.inference.dropout import Dropout
from socratic.inference.graph.evaluation import evaluate
from socratic.inference.graph.masks import masks_of
from socratic.inference.passes import independent_passes
from socratic.inference.rows import check_rows


@dataclass(frozen=True)
class NodeValues:
    """Values in words, and what a mask took away; without arguments nothing is said.

    Attributes
    ----------
    texts : list of str
        The value of each node, in the order of ``graph.nodes``.
    caption : list of str
        How they were computed, in lines.
    dropped : set of (int, int)
        Edges that a mask dropped: the number of a sum, and the place of the child among its children.
    unused : set of int
        Nodes that no root reaches any more.
    """

    texts: list[str] = field(default_factory=list)
    caption: list[str] = field(default_factory=list)
    dropped: frozenset[tuple[int, int]] = frozenset()
    unused: frozenset[int] = frozenset()


def over_masks(graph: Graph, row: Tensor, dropout: Dropout) -> NodeValues:
    """Mean and standard deviation over all masks; ``row`` is (1, V)."""
    moments = node_moments(graph, row, dropout=dropout.rate, masks=dropout.masks, root_dropout=dropout.root)
    return NodeValues([moments_of(moments, number) for number in range(graph.n_nodes)], caption(moments))


def under_one_mask(graph: Graph, row: Tensor, dropout: Dropout, seed: int) -> NodeValues:
    """The values of one pass: the first of :func:`socratic.sample_log_likelihoods` with that seed."""
    rows = check_rows(graph, row)
    masks, log_weights = masks_of(graph, dropout.masks, dropout.root), graph.log_weights()
    generator = torch.Generator(rows.device).manual_seed(seed)
    (drawn,) = next(independent_passes([(masks.n_masks,)], dropout.rate, 1, generator))
    values = evaluate(graph, graph.leaves.log_density(rows), masks.drop(log_weights, drawn))
    sums = [(number, len(node.children)) for number, node in enumerate(graph.nodes) if isinstance(node, Sum)]
    edges = [(number, place) for number, n_children in sums for place in range(n_children)]
    taken = masks.drop(torch.zeros_like(log_weights), drawn).isinf().tolist()
    dropped = frozenset(edge for edge, gone in zip(edges, taken, strict=True) if gone)
    words = f"one sampled mask, seed {seed}: dropout {dropout.rate:g}, {_kind(dropout.masks, dropout.root)}"
    return NodeValues(
        [exp_text(value) for value in values[:, 0].tolist()],
        [words, "dashed: dropped; grey: no longer used"],
        dropped,
        _unused(graph, dropped),
    )


def _unused(graph: Graph, dropped: frozenset[tuple[int, int]]) -> frozenset[int]:
    """Nodes that no root reaches by edges that are left. Children have smaller numbers than their parents."""
    nodes = graph.nodes
    number_of = {id(node): number for number, node in enumerate(nodes)}
    used = set(graph.root_numbers.tolist())
    for number in range(len(nodes) - 1, -1, -1):
        if number in used:
            children = enumerate(children_of(nodes[number]))
            used |= {number_of[id(child)] for place, child in children if (number, place) not in dropped}
    return frozenset(range(len(nodes))) - used


def caption(moments: NodeMoments) -> list[str]:
    """How moments were computed, in lines."""
    if moments.dropout == 0.0:
        return ["values without dropout"]
    words = f"dropout {moments.dropout:g}, {_kind(moments.masks, moments.root_dropout)}"
    kind = "bounds of the deviation" if moments.method == "bounds" else "exact"
    return [f"mean ± standard deviation over masks: {words}", f"{moments.method}: {kind}"]


def _kind(masks: str, root_dropout: bool) -> str:
    return f"{masks} masks{', roots too' if root_dropout else ''}"


def moments_of(moments: NodeMoments, number: int) -> str:
    """Mean and standard deviation of a node; of bounds the range of the deviation."""
    log_mean = moments.log_mean[0, number].item()
    lower, upper = (
        exp_text(log_mean + 0.5 * math.log(variance)) if (variance := side[0, number].item()) > 0.0 else "0"
        for side in moments.variance_bounds
    )
    if upper == "0":
        return exp_text(log_mean)
    return f"{exp_text(log_mean)} ± {lower if lower == upper else f'({lower} to {upper})'}"


def exp_text(logarithm: float) -> str:
    """Three digits of a number of any size, from its logarithm."""
    if logarithm == -math.inf:
        return "0"
    if abs(logarithm) < 700:
        return f"{math.exp(logarithm):.3g}"
    # Beyond, the exponent would be longer than the rest, and too large for decimals.
    return f"{Decimal(logarithm).exp():.3g}" if abs(logarithm) < 1e6 else f"exp({logarithm:.3g})"
