"""The engine of graphs: every query goes through their blocks, bottom up and top down."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.draws import RowMasks
from socratic.inference.doubt import Doubt
from socratic.inference.dropout import Dropout
from socratic.inference.engine import Engine, Kind, MaskDraw
from socratic.inference.graph.descent import GraphEvaluation
from socratic.inference.graph.determinism import is_deterministic
from socratic.inference.graph.evaluation import class_values, evaluate, evaluate_bound, values_per_row
from socratic.inference.graph.masks import masks_of
from socratic.inference.graph.moments import GraphLogWeights, GraphMoments
from socratic.inference.graph.regions import GraphRegions
from socratic.inference.passes import Shape
from socratic.inference.results import CovarianceKind
from socratic.inference.weight_posterior import WeightPosterior
from socratic.numerics import logsumexp_by, logsumexp_or_dead, scale_dtype


class GraphEngine(Engine):
    """Queries of a :class:`~socratic.Graph`."""

    kind = "graph"
    leaf_axes = "leaves in the order of graph.nodes"

    def __init__(self, graph: Graph) -> None:
        self.circuit: Graph = graph
        self.log_weights = graph.log_weights()
        self.leaf_shape = (graph.n_leaves,)
        self.sum_shapes = [(graph.n_sums,)]
        self.entries_per_row = values_per_row(graph)
        self.entries_per_evaluated_row = self.entries_per_row + 4 * graph.n_nodes
        self.entries_per_surprise = self.entries_per_surprised_row = self.entries_per_evaluated_row + 2 * graph.n_nodes
        self.entries_per_draw = graph.n_nodes + 8 * graph.n_features

    @property
    def leaf_scopes(self) -> Sequence[tuple[int, ...]]:
        """The column of each leaf."""
        return [(variable,) for batch in self.circuit.leaves.leaf_batches() for variable in batch.variables.tolist()]

    def log_likelihood(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """Log-likelihoods (N, C)."""
        values = evaluate(self.circuit, self.circuit.leaves.log_density(rows), self.log_weights)
        return class_values(self.circuit, values, dtype)

    def training_log_likelihood(self, rows: Tensor, dropout: Dropout, leaf_dropout: float, masks: RowMasks) -> Tensor:
        """Log-likelihoods (N, C) with masks of their own for each row."""
        log_weights, leaves = self.log_weights, self.circuit.leaves.log_density(rows)
        if leaf_dropout > 0.0:
            leaves = leaves.masked_fill(masks.draw(leaves.shape, leaf_dropout), 0.0)
        if dropout.rate > 0.0:
            edges = masks_of(self.circuit, dropout.masks, dropout.root)
            dropped = masks.draw((edges.n_masks, len(rows)), dropout.rate)
            log_weights = edges.drop(log_weights.unsqueeze(-1), dropped)
        return class_values(self.circuit, evaluate(self.circuit, leaves, log_weights), rows.dtype)

    def masked(self, rows: Tensor, dropout: Dropout) -> GraphMaskedEvaluation:
        """Get ready to be evaluated under masks."""
        return GraphMaskedEvaluation(self.circuit, self.log_weights, rows, dropout)

    def reweighted(self, rows: Tensor, posterior: WeightPosterior) -> GraphReweightedEvaluation:
        """Get ready to be evaluated with drawn weights."""
        return GraphReweightedEvaluation(self.circuit, rows, posterior)

    def bound(self, rows: Tensor, epsilon: Tensor, *, largest: bool) -> Tensor:
        """Logarithms (N, C) of the smallest or largest class likelihoods."""
        density = self.circuit.leaves.log_density(rows)
        values = evaluate_bound(self.circuit, density, self.log_weights, epsilon, largest=largest)
        return class_values(self.circuit, values, rows.dtype)

    def moments(
        self, doubt: Doubt, covariance: CovarianceKind, *, leaves: Tensor | None, budget: int | None
    ) -> GraphMoments:
        """Moments of the class likelihoods, exact as far as the budget goes."""
        return GraphMoments(self.circuit, self.log_weights, doubt, covariance, leaves=leaves, budget=budget)

    def no_log_moments(self, doubt: Doubt, *, leaves: Tensor | None) -> str | None:
        """Masks need regions; of uncertain weights it is those whose moments would cost too much."""
        if isinstance(doubt, Dropout):
            return "a Graph has no regions to follow; use 'expansion', 'monte-carlo' or 'auto'"
        plan = GraphMoments(self.circuit, self.log_weights, doubt, leaves=leaves)
        return plan.reason if plan.method == "bounds" else None

    def log_moments(
        self,
        doubt: Doubt,
        *,
        leaves: Tensor | None,
        limit: float | None = None,  # noqa: ARG002 - curvature is known at the roots alone
    ) -> GraphLogWeights:
        """Log-moment propagation, of uncertain weights."""
        reason = self.no_log_moments(doubt, leaves=leaves)
        if reason is not None:
            raise ValueError(f"method='log-moments' is not possible here: {reason}")
        return GraphLogWeights(GraphMoments(self.circuit, self.log_weights, doubt, leaves=leaves))

    def node_moments(self, dropout: Dropout, budget: int | None) -> GraphMoments:
        """Moments of every node, likewise."""
        return GraphMoments(self.circuit, self.log_weights, dropout, budget=budget, every_node=True)

    def evaluate(self, rows: Tensor, kind: Kind = "marginal") -> GraphEvaluation:
        """Carry the values of all nodes up and keep them."""
        return GraphEvaluation(self.circuit, self.log_weights, rows, kind)

    def column_surprise(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """-log p(x_j | all other columns): (N, V), NaN for columns without leaves."""
        evaluated = self.evaluate(rows)
        around = evaluated.surroundings(log_class_weights)[: self.circuit.n_leaves]
        variables = torch.cat([batch.variables for batch in self.circuit.leaves.leaf_batches()])
        without = logsumexp_by(around, variables, self.circuit.n_features).t()
        surprise = without - logsumexp_or_dead(evaluated.log_roots + log_class_weights, dim=1)
        no_leaves = [column for column, families in enumerate(self.circuit.column_families) if not families]
        surprise[:, no_leaves] = torch.nan
        return surprise

    def regions(self, min_columns: int) -> GraphRegions:
        """All regions of at least so many columns."""
        return GraphRegions(self.circuit, self.log_weights, min_columns)

    def is_deterministic(self) -> bool:
        """Whether the children of every sum are certain to be positive on different rows."""
        return is_deterministic(self.circuit)


class GraphMaskedEvaluation:
    """A graph under masks; see :class:`~socratic.inference.engine.MaskedEvaluation`."""

    passes_at_a_time = 1

    def __init__(self, graph: Graph, log_weights: Tensor, rows: Tensor, dropout: Dropout) -> None:
        self.graph, self.log_weights, self.dtype = graph, log_weights, rows.dtype
        self.masks = masks_of(graph, dropout.masks, dropout.root)
        self.leaves = graph.leaves.log_density(rows)
        self.mask_shapes: Sequence[Shape] = [(self.masks.n_masks,)]
        self.leaf_mask_shapes: Sequence[Shape] = [(graph.n_leaves, 1)]

    def log_likelihood(self, draws: Sequence[MaskDraw]) -> Tensor:
        """Log-likelihoods (P, N, C) under each of these masks."""
        return torch.stack([self._pass(*draw) for draw in draws])

    def _pass(self, dropped: Sequence[Tensor], dropped_leaves: Sequence[Tensor] | None) -> Tensor:
        leaves = self.leaves if dropped_leaves is None else self.leaves.masked_fill(dropped_leaves[0], 0.0)
        log_weights = self.masks.drop(self.log_weights, dropped[0])
        return class_values(self.graph, evaluate(self.graph, leaves, log_weights), self.dtype)


class GraphReweightedEvaluation:
    """A graph with drawn weights; see :class:`~socratic.inference.engine.ReweightedEvaluation`."""

    passes_at_a_time = 1

    def __init__(self, graph: Graph, rows: Tensor, posterior: WeightPosterior) -> None:
        self.graph, self.dtype = graph, rows.dtype
        self.leaves = graph.leaves.log_density(rows)
        weights = torch.exp(graph.normalise(graph.logits.to(scale_dtype(rows))))
        (strengths,) = posterior.strengths(weights)
        self.parameters = [weights * strengths[graph.sum_of_edge]]

    def log_likelihood(self, draws: Sequence[Sequence[Tensor]]) -> Tensor:
        """Log-likelihoods (P, N, C) with each of these weights."""
        return torch.stack([self._pass(*draw) for draw in draws])

    def _pass(self, log_gammas: Tensor) -> Tensor:
        log_weights = self.graph.normalise(log_gammas).to(self.dtype)
        return class_values(self.graph, evaluate(self.graph, self.leaves, log_weights), self.dtype)
