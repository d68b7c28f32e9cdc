"""Values of the regions of a graph: the nodes over the same columns, and sums over them."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.graph.descent import GraphEvaluation
from socratic.inference.graph.evaluation import values_per_row
from socratic.numerics import logsumexp_by


class GraphRegions:
    """The regions of a graph: what nodes with the same columns are worth together; see :class:`RegionPlan`.

    Of the nodes with the same columns those count that have no child with them: whoever comes to a region comes to one
    of them, and to no more.
    """

    def __init__(self, graph: Graph, log_weights: Tensor, min_columns: int) -> None:
        self.graph, self.log_weights = graph, log_weights
        self.entries_per_row = values_per_row(graph) + 8 * graph.n_nodes
        scope_of = graph.scopes()
        lowest = [True] * graph.n_nodes
        for block in graph.blocks:
            for node, children in enumerate(graph.levels.children_of(block).tolist(), start=block.start):
                lowest[node] = all(scope_of[child] != scope_of[node] for child in children)
        nodes = [node for node in range(graph.n_nodes) if lowest[node] and scope_of[node].bit_count() >= min_columns]
        nodes.reverse()  # from the roots down, as the regions of a circuit
        number: dict[int, int] = {}
        groups = [number.setdefault(scope_of[node], len(number)) for node in nodes]
        self.scopes = tuple(
            tuple(column for column in range(graph.n_features) if scope >> column & 1) for scope in number
        )
        self._nodes = torch.tensor(nodes, dtype=torch.long, device=graph.device)
        self._groups = torch.tensor(groups, dtype=torch.long, device=graph.device)

    def log_likelihood(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """log p(x_r) of each region: (N, Q)."""
        # What surrounds a node if nothing is known is the probability that it is used: one walk for each mixture.
        mixtures, mixture_of_row = log_class_weights.unique(dim=0, return_inverse=True)
        nothing = rows.new_full((len(mixtures), rows.shape[1]), torch.nan)
        used = self._evaluate(nothing).surroundings(mixtures)
        values = used[:, mixture_of_row] + self._evaluate(rows).values.detach()
        return self._log_sums(values) - self._log_sums(used)[mixture_of_row]

    def surprise(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """-log p(x_r | all other columns) of each region: (N, Q)."""
        evaluated = self._evaluate(rows)
        around = evaluated.surroundings(log_class_weights)
        return self._log_sums(around) - self._log_sums(around + evaluated.values.detach())

    def _evaluate(self, rows: Tensor) -> GraphEvaluation:
        return GraphEvaluation(self.graph, self.log_weights, rows, "marginal")

    def _log_sums(self, nodes: Tensor) -> Tensor:
        """Sums over the nodes of each region: (N, Q), as logarithms."""
        return logsumexp_by(nodes[self._nodes], self._groups, len(self.scopes)).t()
