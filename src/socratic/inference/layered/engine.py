"""The engine of layered circuits: every query is a walk through the layers with an algebra of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.leaves import LayerTerms
from socratic.draws import RowMasks
from socratic.inference.doubt import Doubt
from socratic.inference.dropout import Dropout
from socratic.inference.engine import Engine, Kind, LogMomentPlan
from socratic.inference.layered.algebra import LogAlgebra, Step
from socratic.inference.layered.bounds import Bound, BoundAlgebra
from socratic.inference.layered.descent import LayeredEvaluation
from socratic.inference.layered.log_moments import LayeredLogMoments
from socratic.inference.layered.log_weights import LayeredLogWeights
from socratic.inference.layered.moments import LayeredMoments
from socratic.inference.layered.regions import LayeredRegions
from socratic.inference.layered.replay import replay
from socratic.inference.layered.sampled import LayeredMaskedEvaluation, LayeredReweightedEvaluation
from socratic.inference.layered.sum_product import log_sums, log_sums_of_kept, log_sums_with_zeros
from socratic.inference.layered.surroundings import SurpriseEntries, log_without_columns
from socratic.inference.layered.values import LogValues
from socratic.inference.layered.walk import values_per_row, walk
from socratic.inference.results import CovarianceKind
from socratic.inference.weight_posterior import WeightPosterior
from socratic.numerics import logsumexp_or_dead, scale_dtype

_entries: WeakKeyDictionary[Circuit, tuple[int, SurpriseEntries]] = WeakKeyDictionary()


def _entries_per_row(circuit: Circuit) -> tuple[int, SurpriseEntries]:
    """Numbers held for a row by a walk, and besides by one that finds surprises: counting takes a GPU's time."""
    if torch.compiler.is_compiling():  # which cannot see through weak references
        return values_per_row(circuit), SurpriseEntries.of(circuit)
    if circuit not in _entries:
        _entries[circuit] = values_per_row(circuit), SurpriseEntries.of(circuit)
    return _entries[circuit]


class LayeredEngine(Engine):
    """Queries of a :class:`~socratic.Circuit`."""

    kind = "circuit"
    no_node_moments = "a Circuit has layers, not nodes to be told apart; pass circuit.to_graph()"
    leaf_axes = "leaf regions, leaves"

    def __init__(self, circuit: Circuit) -> None:
        self.circuit: Circuit = circuit
        # Found when asked for, and not by cached_property, whose lock torch.compile cannot see through.
        self._weights: Weights | None = None
        self._leaf_terms: LayerTerms | None = None
        self._plain: tuple[Weights, Step] | None = None
        leaves, layers = circuit.leaves, circuit.inner_layers()
        self.leaf_shape = (leaves.n_folds, leaves.n_nodes)
        self.has_roots_alone = not layers
        self.sum_shapes = [*((layer.n_folds, layer.n_nodes) for layer in layers), (circuit.n_classes,)]
        self.entries_per_row, for_surprises = _entries_per_row(circuit)
        self.entries_per_evaluated_row = 2 * self.entries_per_row
        self.entries_per_surprise = 3 * self.entries_per_row + for_surprises.computed
        self.entries_per_surprised_row = 3 * self.entries_per_row + for_surprises.held
        self.entries_per_draw = 4 * (leaves.n_folds + sum(layer.n_folds for layer in layers)) + 8 * circuit.n_features
        if self.has_roots_alone:
            # All values are in a few tensors. Large ones go back to the system each time, and to be given zeros for
            # them again takes longer than the arithmetic: a third of the rows at a time.
            self.entries_per_row = 3 * self.entries_per_row

    @property
    def weights(self) -> Weights:
        """The weights that the circuit has when they are first asked for: what is replayed has no need of them."""
        if self._weights is None:
            self._weights = self.circuit.weights()
        return self._weights

    @property
    def leaf_terms(self) -> LayerTerms:
        """The terms that the leaves have, likewise."""
        if self._leaf_terms is None:
            self._leaf_terms = self.circuit.leaves.terms()
        return self._leaf_terms

    @property
    def leaf_scopes(self) -> Sequence[tuple[int, ...]]:
        """The columns of each leaf region."""
        return self.circuit.leaves.scopes

    def log_likelihood(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """Log-likelihoods (N, C)."""

        def anew(rows: Tensor) -> tuple[Tensor]:
            return (LayeredEngine(self.circuit)._log_likelihood(rows, dtype),)

        replayed = replay(self.circuit, ("log_likelihood", dtype), rows, anew)
        return self._log_likelihood(rows, dtype) if replayed is None else replayed[0]

    def _log_likelihood(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        if self._plain is None:
            self._plain = self._weights_and_step()
        weights, step = self._plain
        leaves = LogValues.rescale(self._log_density(rows).to(weights.roots[0].dtype))
        return walk(self.circuit, leaves, weights, LogAlgebra(step)).of_classes(dtype)

    def _log_density(self, rows: Tensor) -> Tensor:
        """Log-densities (F, I, N) of the leaves."""
        return self.circuit.leaves.log_density(rows, self.leaf_terms)

    def _weights_and_step(self) -> tuple[Weights, Step]:
        """Weights and the step for likelihoods.

        A sum with a weight that is 0, or nearly, can live on products far below its region's best. Such circuits, which
        other libraries bring, are evaluated with more digits and a second look at sums that underflow.
        """
        if self.weights.ordinary:
            return self.weights, log_sums
        return self.circuit.weights(scale_dtype(self.weights.roots[0])), log_sums_with_zeros

    def training_log_likelihood(self, rows: Tensor, dropout: Dropout, leaf_dropout: float, masks: RowMasks) -> Tensor:
        """Log-likelihoods (N, C) with one mask for each row and child, shared by the sums of a region."""
        leaves = self.circuit.leaves
        if leaf_dropout > 0.0:
            density = leaves.log_density_with_dropout(rows, leaf_dropout, masks)
        else:
            density = leaves.log_density(rows)
        kept = partial(log_sums_of_kept, rate=dropout.rate, masks=masks)
        step, root_step = (log_sums if dropout.of_sums(root=root) is None else kept for root in (False, True))
        algebra = LogAlgebra(step, root_step)
        return walk(self.circuit, LogValues.rescale(density), self.weights, algebra).of_classes(rows.dtype)

    def masked(self, rows: Tensor, dropout: Dropout) -> LayeredMaskedEvaluation:
        """Get ready to be evaluated under masks."""
        return LayeredMaskedEvaluation(self.circuit, self.weights, rows, dropout)

    def reweighted(self, rows: Tensor, posterior: WeightPosterior) -> LayeredReweightedEvaluation:
        """Get ready to be evaluated with drawn weights."""
        return LayeredReweightedEvaluation(self.circuit, rows, posterior)

    def bound(self, rows: Tensor, epsilon: Tensor, *, largest: bool) -> Tensor:
        """Logarithms (N, C) of the smallest or largest class likelihoods."""
        leaves = Bound(*LogValues.rescale(self.circuit.leaves.log_density(rows)))
        return walk(self.circuit, leaves, self.weights, BoundAlgebra(epsilon, largest=largest)).of_classes(rows.dtype)

    def moments(
        self,
        doubt: Doubt,
        covariance: CovarianceKind,
        *,
        leaves: Tensor | None,  # noqa: ARG002 - makes no difference to layers
        budget: int | None,
    ) -> LayeredMoments:
        """Moments of the class likelihoods, always exact unless ``covariance`` asks for bounds."""
        if budget is not None:
            raise ValueError("budget is for graphs; the moments of a Circuit are always exact")
        return LayeredMoments(self.circuit, lambda: self.weights, doubt, covariance)

    def no_log_moments(self, doubt: Doubt, *, leaves: Tensor | None) -> None:
        """Layers can always."""

    def log_moments(
        self,
        doubt: Doubt,
        *,
        leaves: Tensor | None,  # noqa: ARG002 - makes no difference to layers
        limit: float | None = None,
    ) -> LogMomentPlan:
        """Log-moment propagation."""
        if isinstance(doubt, Dropout):
            return LayeredLogMoments(self.circuit, self.weights, doubt, limit)
        return LayeredLogWeights(self.circuit, self.weights, doubt)

    def evaluate(self, rows: Tensor, kind: Kind = "marginal") -> LayeredEvaluation:
        """Carry the values of all nodes up and keep them."""
        return LayeredEvaluation(self.circuit, self.weights, self.leaf_terms, rows, kind)

    def column_surprise(self, rows: Tensor, log_class_weights: Tensor) -> Tensor:
        """-log p(x_j | all other columns): (N, V)."""
        evaluated = self.evaluate(rows)
        around = evaluated.surroundings(log_class_weights)
        without = log_without_columns(self.circuit, self.leaf_terms, rows, evaluated.walked.layers[0], around[0])
        return without.t() - logsumexp_or_dead(evaluated.log_roots + log_class_weights, dim=1)

    def regions(self, min_columns: int) -> LayeredRegions:
        """All regions of at least so many columns."""
        return LayeredRegions(self.circuit, self.weights, min_columns)

    def is_deterministic(self) -> bool:
        """Whether every sum has a single child of positive weight.

        The leaves of a layered circuit are positive everywhere: nothing else can make it deterministic.
        """
        roots = torch.cat([branch.transpose(0, 1).flatten(1) for branch in self.weights.roots], dim=1)
        return all(bool(((layer > 0).sum(-1) <= 1).all()) for layer in [*self.weights.layers, roots])
