"""Tractable dropout inference: mean and covariance of the class likelihoods over dropout masks.

Relative moments are propagated: the log of the mean and, between nodes of one region, the covariance divided by both
means. Every term is non-negative, so nothing cancels, and likelihoods of any size neither underflow nor overflow
(layers in which a sum is tiny beside its region's best are computed in float64). With p the dropout rate, q = 1 - p
and responsibilities r of a sum's children:

    product:  1 + R = (1 + R_left) (1 + R_right)
    sum:      R_ab = sum_ij r_ai r_bj R_ij + mask
    mask:     edge  [a = b] (p / q) sum_i r_ai^2 (1 + R_ii)
              unit          (p / q) sum_i r_ai r_bi (1 + R_ii)

For one mask per edge these are the equations of the TDI paper (sections 3.2.1 to 3.2.3), including the
covariance of sums and products in RAT structures.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.layers import SumProductLayer
from socratic.errors import check_choice, check_count, check_rate
from socratic.inference.covariance import (
    Children,
    as_matrix,
    join_covariances,
    join_variances,
    multiply,
    sum_covariance,
    sum_variance,
    variances,
    warn_of_saturation,
)
from socratic.inference.graph import DEFAULT_BUDGET, MomentSettings, graph_moments
from socratic.inference.leaf_uncertainty import LeafUncertainty
from socratic.inference.likelihood import LogValues, Products, join_repetitions, sum_products
from socratic.inference.results import COVARIANCE_KINDS, MASK_KINDS, CovarianceKind, MaskKind, Method, Moments
from socratic.inference.rows import check_rows, chunk_rows, map_chunks, values_per_row
from socratic.inference.walk import walk
from socratic.numerics import finite_or_zero, log_or_dead, sqrt_or_zero

LAYERED_REASON = "nodes share randomness only within their region"
"""Why the moments of a tensor circuit are exact."""


class MomentState(NamedTuple):
    """Log-means of a layer's nodes, as in :class:`LogValues`, and their relative covariance.

    ``covariance`` is None where it is zero, variances (F, S, N) where the nodes are uncorrelated, and a
    matrix for each row (F, N, S, S) otherwise. Without exact covariances only variances are kept.
    """

    log_value: Tensor  # (F, S, N)
    log_scale: Tensor  # (F, 1, N)
    covariance: Tensor | None

    @property
    def mean(self) -> LogValues:
        """The log-means alone."""
        return LogValues(self.log_value, self.log_scale)


class MomentAlgebra:
    """Passes moments through layers: all covariances ("exact"), or variances with a rule for the rest."""

    def __init__(self, dropout: float, masks: MaskKind, covariance: CovarianceKind, root_dropout: bool) -> None:
        self.dropout, self.masks, self.covariance, self.root_dropout = dropout, masks, covariance, root_dropout
        self.peaks: list[Tensor] = []

    def layer(
        self,
        layer: SumProductLayer,
        weights: Tensor,
        left: MomentState,
        right: MomentState | None,
        *,
        root: bool,
    ) -> MomentState:
        """Moments of the sums of one layer."""
        dropout = self.dropout if self.root_dropout or not root else 0.0
        products = Products.of(layer, left.mean, None if right is None else right.mean)
        a, b = products.exp()
        if b is None and right is not None:
            children = Children(a, None, multiply(left.covariance, right.covariance, left.log_value), None)
        else:
            children = Children(a, b, left.covariance, None if right is None else right.covariance)
        sums = sum_products(weights, a, b)
        odds = dropout / (1.0 - dropout)
        if self.covariance == "exact":
            covariance = sum_covariance(weights, children, sums, odds, shared_masks=self.masks == "unit")
        else:
            covariance = sum_variance(weights, children, sums, odds, correlated=self.covariance == "upper")
        if covariance is not None and covariance.numel():
            self.peaks.append(variances(covariance, sums).detach().amax())
        mean = LogValues.rescale(log_or_dead(sums), products.log_scale + math.log1p(-dropout))
        return MomentState(*mean, covariance)

    def join(self, branches: list[MomentState]) -> MomentState:
        """Moments of the class roots: repetitions have no mask in common, so their covariances add up."""
        mean = join_repetitions([branch.mean for branch in branches])
        covariances = [branch.covariance for branch in branches]
        if all(covariance is None for covariance in covariances):
            return MomentState(*mean, None)
        parts = [
            branch.log_value + (branch.log_scale - mean.log_scale).to(branch.log_value.dtype) for branch in branches
        ]
        # A class that is dead has no share in anything; its relative moments are 0 by convention.
        shares = torch.exp(torch.cat(parts) - finite_or_zero(mean.log_value))  # (R, C, N)
        join = join_covariances if self.covariance == "exact" else join_variances
        return MomentState(*mean, join(shares, covariances, [branch.log_value for branch in branches]))


def tdi(
    circuit: Circuit | Graph,
    x: Any,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    covariance: CovarianceKind = "exact",
    root_dropout: bool = False,
    leaf_variance: float | Tensor | None = None,
    leaf_covariance: Tensor | None = None,
    budget: int | None = None,
    chunk_size: int | None = None,
) -> Moments:
    """Tractable dropout inference: moments of the class likelihoods over all dropout masks, in one pass.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    dropout : float
        Probability p of dropping a child from a sum, in [0, 1).
    masks : {"edge", "unit"}
        One mask for each edge of each sum (the paper's equations), or one for each child, shared by all sums
        of its region (what dropout in a layer does); in a graph, by all sums over the same children.
    covariance : {"exact", "independent", "upper"}
        Exact covariances; none, as if shared nodes were copies (the paper's "copy-paste", a lower bound on
        the variance); or the Cauchy-Schwarz bound (an upper bound on the variance).
    root_dropout : bool
        Whether the class roots drop children too. Without it a root sum keeps its children wherever it occurs.
    leaf_variance : float or Tensor, optional
        Prior relative variance (Var / mean^2) of the leaves, broadcast to (N, L, I) with L leaf regions in
        the order of ``circuit.leaves.scopes``; for a graph to (N, L) with L leaves in the order of ``graph.nodes``,
        each independent of the others.
    leaf_covariance : Tensor, optional
        Prior relative covariance between the leaves of a region, broadcast to (N, L, I, I); its diagonal is
        the variance. Give this or ``leaf_variance``. Not for graphs.
    budget : int, optional
        For graphs: how many terms may be spent on nodes that share randomness before the result is bounds instead;
        200,000 by default.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Moments
    """
    dropout = check_rate("dropout", dropout)
    check_choice("masks", masks, MASK_KINDS)
    check_choice("covariance", covariance, COVARIANCE_KINDS)
    rows = check_rows(circuit, x)
    if isinstance(circuit, Graph):
        if leaf_covariance is not None:
            raise ValueError("leaf_covariance is for circuits with regions; the leaves of a graph take leaf_variance")
        budget = DEFAULT_BUDGET if budget is None else check_count("budget", budget, minimum=0)
        settings = MomentSettings(dropout, masks, root_dropout, covariance, leaf_variance, budget, chunk_size)
        return graph_moments(circuit, rows, settings)
    if budget is not None:
        raise ValueError("budget is for graphs; the moments of a Circuit are always exact")
    leaf_uncertainty = LeafUncertainty.check(circuit, rows, leaf_variance, leaf_covariance)
    weights = circuit.weights()
    algebra = MomentAlgebra(dropout, masks, covariance, root_dropout)

    entries = values_per_row(circuit) + covariances_per_row(circuit, covariance)

    def query(start: int, stop: int) -> tuple[Tensor, Tensor]:
        mean = LogValues.rescale(circuit.leaves.log_density(rows[start:stop]))
        prior = leaf_uncertainty.of_rows(start, stop, matrix=covariance == "exact")
        roots = walk(circuit, MomentState(*mean, prior), weights, algebra)
        return roots.mean.of_classes(rows.dtype), _class_matrix(roots, covariance)

    parts = map_chunks(query, len(rows), chunk_rows(circuit, entries, chunk_size))
    log_mean, relative = (torch.cat(part) for part in zip(*parts, strict=True))
    warn_of_saturation(algebra.peaks, rows, "circuit", stacklevel=3)
    method: Method = "layered" if covariance == "exact" else covariance
    reason = f"{covariance=} was asked for"
    if covariance == "exact":
        reason = LAYERED_REASON
    return Moments(log_mean, relative, dropout, masks, covariance, root_dropout, method, reason)


def covariances_per_row(circuit: Circuit, covariance: CovarianceKind) -> int:
    """Numbers held for the covariances of one row, with their scaled copies."""
    power = 2 if covariance == "exact" else 1
    layers = [*circuit.inner_layers(), *circuit.root_branches()]
    return 3 * sum(layer.n_folds * layer.n_nodes**power for layer in layers)


def _class_matrix(roots: MomentState, covariance: CovarianceKind) -> Tensor:
    """Relative covariance of the class roots (N, C, C), symmetric to the last digit."""
    if covariance == "upper" and roots.covariance is not None:
        deviation = sqrt_or_zero(roots.covariance[0]).t()  # (N, C)
        return deviation.unsqueeze(-1) * deviation.unsqueeze(-2)
    matrix = as_matrix(roots.covariance, roots.log_value)[0]
    return 0.5 * (matrix + matrix.mT)
