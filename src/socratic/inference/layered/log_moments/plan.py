"""Log-moment propagation: rows in, the class posterior out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.inference.dropout import Dropout
from socratic.inference.engine import LogMomentPosterior
from socratic.inference.layered.log_moments.algebra import LogMomentAlgebra, LogMoments, numbers_per_row
from socratic.inference.layered.log_moments.blocks import cut
from socratic.inference.layered.log_moments.masks import N_SHARES
from socratic.inference.layered.log_moments.root import root_quadrature, roots_lost
from socratic.inference.layered.moments import leaf_covariance
from socratic.inference.layered.walk import values_per_row, walk, walk_layers


class LayeredLogMoments:
    """The class posterior from the log-moments of layers; see :class:`~socratic.inference.engine.LogMomentPlan`."""

    def __init__(self, circuit: Circuit, weights: Weights, dropout: Dropout, limit: float | None = None) -> None:
        self.circuit, self.weights, self.dropout, self.limit = circuit, weights, dropout, limit
        self.algebra = LogMomentAlgebra(dropout)
        layers = [*circuit.inner_layers(), *circuit.root_branches()]
        states = sum(numbers_per_row(layer.n_folds, layer.n_nodes, min(N_SHARES, layer.n_children)) for layer in layers)
        self.entries_per_row = values_per_row(circuit) + 2 * states

    def of_rows(self, rows: Tensor, leaves: Tensor | None, log_prior: Tensor) -> LogMomentPosterior:
        """The class posterior, given the uncertainty (N, L, I) or (N, L, I, I) of leaves and the log-prior (C,)."""
        density = self.circuit.leaves.log_density(rows)
        start = LogMoments.of_leaves(density, leaf_covariance(leaves, matrix=True))
        if self.limit is None:
            roots = walk(self.circuit, start, self.weights, self.algebra)
            return LogMomentPosterior(root_quadrature(roots, log_prior, self.dropout), self._curvature(roots))
        calm = CalmRows(self.limit, rows)
        # A GPU would have to wait for what is found at each layer: it is asked at the roots alone.
        thin = calm.thin if rows.device.type == "cpu" else None
        roots = self.algebra.join(walk_layers(self.circuit, start, self.weights, self.algebra, thin=thin).branches)
        found = self._curvature(roots)
        followed = calm.numbers
        places = calm.follow(found)
        if len(places) == len(rows):
            return LogMomentPosterior(root_quadrature(roots, log_prior, self.dropout), found)
        curvature = found.new_full((len(rows),), math.inf).index_copy(0, followed, found)
        posterior = root_quadrature(cut(roots, slice(None), places), log_prior, self.dropout)
        return LogMomentPosterior(posterior.among(calm.numbers, len(rows)), curvature)

    def _curvature(self, roots: LogMoments) -> Tensor:
        """How far from linear each row is: (N,)."""
        return roots.curvature.amax(0).masked_fill(roots_lost(roots, self.dropout), math.inf)


class CalmRows:
    """The rows of a chunk whose curvature is not above a limit. It only grows from layer to layer.

    Parameters
    ----------
    limit : float
    rows : (N, V)
    """

    def __init__(self, limit: float, rows: Tensor) -> None:
        self.limit, self.numbers = limit, torch.arange(len(rows), device=rows.device)

    def follow(self, curvature: Tensor) -> Tensor:
        """The places of those that are still calm, among rows that have these curvatures (N',): no others remain."""
        places = (~(curvature > self.limit)).nonzero().squeeze(-1)
        self.numbers = self.numbers[places]
        return places

    def thin(self, layers: list[LogMoments]) -> list[LogMoments]:
        """Leave sharp rows out of the values of all layers, if they are at least half: fewer are not worth the copy."""
        curvature = layers[-1].curvature.amax(0)
        if 2 * int((curvature > self.limit).sum()) < max(1, len(curvature)):
            return layers
        places = self.follow(curvature)
        return [cut(layer, slice(None), places) for layer in layers]
