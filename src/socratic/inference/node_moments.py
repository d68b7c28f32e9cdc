"""Moments of every node of a graph, for pictures and for looking inside."""

from __future__ import annotations

from typing import Any

from socratic.circuit.graph import Graph
from socratic.errors import check_choice, check_count, check_rate
from socratic.inference.graph import DEFAULT_BUDGET, MomentSettings, graph_node_moments
from socratic.inference.results import MASK_KINDS, MaskKind, NodeMoments
from socratic.inference.rows import check_circuit, check_rows


def node_moments(
    graph: Graph,
    x: Any,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    root_dropout: bool = False,
    budget: int = DEFAULT_BUDGET,
) -> NodeMoments:
    """Mean and variance of every node over all dropout masks; those of the roots are those of :func:`socratic.tdi`.

    Parameters
    ----------
    graph : Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    dropout, masks, root_dropout
        As in :func:`socratic.tdi`.
    budget : int
        How many terms may be spent on nodes that share randomness before variances are bounds instead.

    Returns
    -------
    NodeMoments
    """
    check_choice("masks", masks, MASK_KINDS)
    check_circuit(graph)
    if not isinstance(graph, Graph):
        raise ValueError("node_moments takes a Graph; of a Circuit pass circuit.to_graph()")
    rate, most = check_rate("dropout", dropout), check_count("budget", budget, minimum=0)
    return graph_node_moments(graph, check_rows(graph, x), MomentSettings(rate, masks, root_dropout, budget=most))
