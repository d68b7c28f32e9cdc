"""Inference on graphs: circuits of any shape, evaluated block by block."""

from socratic.inference.graph.evaluation import class_values, evaluate, graph_log_likelihood, graph_values_per_row
from socratic.inference.graph.moments import (
    DEFAULT_BUDGET,
    MomentSettings,
    choose_method,
    graph_moments,
    graph_node_moments,
)
from socratic.inference.graph.passes import graph_passes, graph_training_log_likelihood

__all__ = [
    "DEFAULT_BUDGET",
    "MomentSettings",
    "choose_method",
    "class_values",
    "evaluate",
    "graph_log_likelihood",
    "graph_moments",
    "graph_node_moments",
    "graph_passes",
    "graph_training_log_likelihood",
    "graph_values_per_row",
]
