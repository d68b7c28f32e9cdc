"""Values of the regions of a layered circuit: how they lie in the layers, and sums over their nodes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.layout import plan_layout
from socratic.inference.layered.descent import LayeredEvaluation
from socratic.inference.layered.surroundings import log_sum, times
from socratic.inference.layered.values import LogValues
from socratic.inference.layered.walk import values_per_row
from socratic.numerics import logsumexp_by, logsumexp_or_dead
from socratic.structure.region_graph import ROOT


class Usage(NamedTuple):
    """How often the nodes of a circuit are used by mixtures of classes."""

    mixtures: Tensor  # (M, C), log-weights of the classes
    layers: list[LogValues]  # of the nodes of every layer
    total: Tensor  # (M, Q), of the nodes of each region together


class LayeredRegions:
    """The regions of a circuit, those with the same columns as one; see :class:`RegionPlan`."""

    def __init__(self, circuit: Circuit, weights: Weights, min_columns: int) -> None:
        self.circuit, self.weights = circuit, weights
        self.entries_per_row = 4 * values_per_row(circuit)
        graph, layout = circuit.region_graph, plan_layout(circuit.region_graph)
        in_order = [*layout.leaf_regions, *(region for layer in layout.layers for region in layer.regions)]
        scope_of = [graph.regions[region].scope for region in in_order]
        parent = {child: partition.parent for partition in graph.partitions for child in partition.children}
        # A region that its parent passes on whole is the parent itself once more.
        places = [
            place
            for place in sorted(range(len(in_order)), key=in_order.__getitem__)
            if len(scope_of[place]) >= min_columns and scope_of[place] != graph.regions[parent[in_order[place]]].scope
        ]
        self.scopes = tuple(dict.fromkeys([graph.regions[ROOT].scope, *(scope_of[place] for place in places)]))
        number = {scope: index for index, scope in enumerate(self.scopes)}
        self._places = torch.tensor(places, dtype=torch.long, device=circuit.device)
        self._groups = torch.tensor([0, *(number[scope_of[place]] for place in places)], device=circuit.device)

    def log_likelihood(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """log p(x_r) of each region: (N, Q)."""
        mixtures, mixture_of_row = log_class_weights.unique(dim=0, return_inverse=True)
        return self.of_mixtures(rows, self.usage(mixtures), mixture_of_row)

    def usage(self, mixtures: Tensor) -> Usage:
        """How often nodes are used, given the log-weights (M, C) of the classes: one walk for each mixture."""
        nothing = torch.full((len(mixtures), self.circuit.n_features), torch.nan).to(self.weights.roots[0])
        # What surrounds a node if nothing is known is the probability that it is used.
        used = self._evaluate(nothing).surroundings(mixtures)
        return Usage(mixtures, used, self._log_sums(used, mixtures))

    def of_mixtures(self, rows: Tensor, usage: Usage, mixture_of_row: Tensor) -> Tensor:
        """log p(x_r) of each region: (N, Q), by one of the mixtures for each row (N,)."""
        evaluated = self._evaluate(rows)
        of_row = [LogValues(*(part[..., mixture_of_row] for part in layer)) for layer in usage.layers]
        values = [times(*pair) for pair in zip(of_row, evaluated.walked.layers, strict=True)]
        whole = evaluated.log_roots + usage.mixtures[mixture_of_row]
        return self._log_sums(values, whole) - usage.total[mixture_of_row]

    def surprise(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """-log p(x_r | all other columns) of each region: (N, Q)."""
        evaluated = self._evaluate(rows)
        around = evaluated.surroundings(log_class_weights)
        values = [times(*pair) for pair in zip(around, evaluated.walked.layers, strict=True)]
        whole = self._log_sums(values, evaluated.log_roots + log_class_weights)
        return self._log_sums(around, log_class_weights) - whole

    def _evaluate(self, rows: Tensor) -> LayeredEvaluation:
        return LayeredEvaluation(self.circuit, self.weights, self.circuit.leaves.terms(), rows, "marginal")

    def _log_sums(self, layers: list[LogValues], classes: Tensor) -> Tensor:
        """Sums over the nodes of each region: (N, Q), as logarithms; ``classes`` (N, C) are those of the root."""
        root = logsumexp_or_dead(classes, dim=1).t()
        of_places = torch.cat([log_sum(layer) for layer in layers])[self._places]
        return logsumexp_by(torch.cat([root, of_places]), self._groups, len(self.scopes)).t()
