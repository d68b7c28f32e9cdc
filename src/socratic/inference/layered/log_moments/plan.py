"""Log-moment propagation: rows in, the class posterior out."""

from __future__ import annotations

import math

from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.inference.dropout import Dropout
from socratic.inference.engine import LogMomentPosterior
from socratic.inference.layered.log_moments.algebra import LogMomentAlgebra, LogMoments, numbers_per_row
from socratic.inference.layered.log_moments.masks import N_SHARES
from socratic.inference.layered.log_moments.root import root_quadrature, roots_lost
from socratic.inference.layered.moments import leaf_covariance
from socratic.inference.layered.walk import values_per_row, walk


class LayeredLogMoments:
    """The class posterior from the log-moments of layers; see :class:`~socratic.inference.engine.LogMomentPlan`."""

    def __init__(self, circuit: Circuit, weights: Weights, dropout: Dropout) -> None:
        self.circuit, self.weights, self.dropout = circuit, weights, dropout
        self.algebra = LogMomentAlgebra(dropout)
        layers = [*circuit.inner_layers(), *circuit.root_branches()]
        states = sum(numbers_per_row(layer.n_folds, layer.n_nodes, min(N_SHARES, layer.n_children)) for layer in layers)
        self.entries_per_row = values_per_row(circuit) + 2 * states

    def of_rows(self, rows: Tensor, leaves: Tensor | None, log_prior: Tensor) -> LogMomentPosterior:
        """The class posterior, given the uncertainty (N, L, I) or (N, L, I, I) of leaves and the log-prior (C,)."""
        density = self.circuit.leaves.log_density(rows)
        start = LogMoments.of_leaves(density, leaf_covariance(leaves, matrix=True))
        roots = walk(self.circuit, start, self.weights, self.algebra)
        curvature = roots.curvature.amax(0).masked_fill(roots_lost(roots, self.dropout), math.inf)
        return LogMomentPosterior(root_quadrature(roots, log_prior, self.dropout), curvature)
