"""Moments on layers: mean and covariance of the class likelihoods over dropout masks, or over uncertain weights.

Relative moments are propagated: the log of the mean and, between nodes of one region, the covariance divided by both
means. Likelihoods of any size neither underflow nor overflow (layers in which a sum is tiny beside its region's best
are computed in float64). With p the dropout rate, q = 1 - p, mean weights w and responsibilities r of a sum's children:

    product:  1 + R = (1 + R_left) (1 + R_right)
    sum:      R_ab = sum_ij r_ai r_bj R_ij + noise
    noise:    edge masks  [a = b] (p / q) sum_i r_ai^2 (1 + R_ii)
              unit masks          (p / q) sum_i r_ai r_bi (1 + R_ii)
              Dirichlet   [a = b] (sum_i r_ai^2 / w_ai (1 + R_ii) - sum_ij r_ai r_aj (1 + R_ij)) / (alpha_0 + 1)

For one mask per edge these are the equations of the TDI paper (sections 3.2.1 to 3.2.3), including the
covariance of sums and products in RAT structures. Under masks every term is non-negative, so nothing cancels. Of a
Dirichlet's two terms the second is at most the first: where they cancel, the noise is small beside ``1 / alpha_0``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.layers import SumProductLayer
from socratic.inference.doubt import Doubt
from socratic.inference.dropout import Dropout
from socratic.inference.engine import MomentsOfRows
from socratic.inference.layered.covariance import (
    Children,
    as_matrix,
    join_covariances,
    join_variances,
    less_variance,
    multiply,
    sum_covariance,
    sum_variance,
    variances,
)
from socratic.inference.layered.noise import Noise, noise_of
from socratic.inference.layered.replay import replay
from socratic.inference.layered.sum_product import sum_products
from socratic.inference.layered.values import LogValues, Products, sum_repetitions
from socratic.inference.layered.walk import values_per_row, walk
from socratic.inference.results import CovarianceKind, Method
from socratic.kernels.processor import takes_processor_kernel
from socratic.numerics import finite_or_zero, log_or_dead

EXACT_REASON = "nodes share randomness only within their region"
"""Why the moments of a layered circuit are exact."""


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

    def __init__(self, noise: Noise, covariance: CovarianceKind) -> None:
        self.noise, self.covariance = noise, covariance
        self.peaks: list[Tensor] = []

    def layer(
        self,
        layer: SumProductLayer,
        weights: Tensor,
        left: MomentState,
        right: MomentState | None,
        *,
        root: bool,  # noqa: ARG002 - a layer's noise says it
    ) -> MomentState:
        """Moments of the sums of one layer."""
        noise = self.noise.of_layer[layer]
        products = Products.of(layer, left.mean, None if right is None else right.mean)
        a, b = products.exp()
        if b is None and right is not None:
            children = Children(a, None, multiply(left.covariance, right.covariance, left.log_value), None)
        else:
            children = Children(a, b, left.covariance, None if right is None else right.covariance)
        sums = sum_products(weights, a, b, digits=noise.digits)
        if self.covariance == "exact":
            covariance = sum_covariance(weights, children, sums, noise)
        else:
            covariance = sum_variance(weights, children, sums, noise, correlated=self.covariance == "upper")
        if covariance is not None and covariance.numel():
            self.peaks.append(variances(covariance, sums).detach().amax())
        mean = LogValues.rescale(log_or_dead(sums), products.log_scale + noise.log_kept)
        return MomentState(*mean, covariance)

    def join(self, branches: list[MomentState]) -> MomentState:
        """Moments of the class roots: nothing below two repetitions is the same, so their covariances add up."""
        mean = sum_repetitions([branch.mean for branch in branches])
        covariances = [branch.covariance for branch in branches]
        if all(covariance is None for covariance in covariances):
            return MomentState(*mean, None)
        parts = [
            branch.log_value + (branch.log_scale - mean.log_scale).to(branch.log_value.dtype) for branch in branches
        ]
        # A class that is dead has no share in anything; its relative moments are 0 by convention.
        shares = torch.exp(torch.cat(parts) - finite_or_zero(mean.log_value))  # (R, C, N)
        join = join_covariances if self.covariance == "exact" else join_variances
        joined = join(shares, covariances, [branch.log_value for branch in branches])
        if self.noise.common_of_roots is not None:
            joined = less_variance(joined, self.noise.common_of_roots.to(joined))
        return MomentState(*mean, joined)


class LayeredMoments:
    """Moments of the class roots; see :class:`~socratic.inference.engine.MomentPlan`."""

    def __init__(
        self, circuit: Circuit, weights: Callable[[], Weights], doubt: Doubt, covariance: CovarianceKind
    ) -> None:
        self.circuit, self.weights, self.doubt, self.covariance = circuit, weights, doubt, covariance
        self.peaks: list[Tensor] = []
        self.method: Method = "layered" if covariance == "exact" else covariance
        self.reason = EXACT_REASON if covariance == "exact" else f"{covariance=} was asked for"
        # A kernel needs no scaled copies of the covariances.
        copies = 1 if takes_processor_kernel(circuit.root_branches()[0].logits) else 3
        self.entries_per_row = values_per_row(circuit) + copies * _covariances_per_row(circuit, covariance)

    def of_rows(self, rows: Tensor, leaves: Tensor | None) -> MomentsOfRows:
        """The moments, given those of uncertain leaves: (N, L, I) or (N, L, I, I)."""
        found = None
        if leaves is None and isinstance(self.doubt, Dropout):

            def anew(rows: Tensor) -> tuple[Tensor, ...]:
                return self._of_rows(self.circuit.weights(), rows, None)

            found = replay(self.circuit, ("moments", self.doubt, self.covariance), rows, anew)
        log_mean, relative, *peaks = self._of_rows(self.weights(), rows, leaves) if found is None else found
        self.peaks += peaks
        return MomentsOfRows(log_mean, relative)

    def _of_rows(self, weights: Weights, rows: Tensor, leaves: Tensor | None) -> tuple[Tensor, ...]:
        """Log-means, relative moments, and the largest variances met on the way."""
        algebra = MomentAlgebra(noise_of(self.circuit, self.doubt, weights.roots[0]), self.covariance)
        mean = LogValues.rescale(self.circuit.leaves.log_density(rows))
        prior = leaf_covariance(leaves, matrix=self.covariance == "exact")
        roots = walk(self.circuit, MomentState(*mean, prior), weights, algebra)
        if self.covariance == "exact":
            relative = as_matrix(roots.covariance, roots.log_value)[0]
        else:
            relative = variances(roots.covariance, roots.log_value)[0].t()
        peaks = [torch.stack(algebra.peaks).amax()] if algebra.peaks else []
        return roots.mean.of_classes(rows.dtype), relative, *peaks


def leaf_covariance(leaves: Tensor | None, *, matrix: bool) -> Tensor | None:
    """Relative variances (N, L, I) or covariances (N, L, I, I) of leaves as the layers have them.

    Covariances are matrices (L, N, I, I) if those are wanted; otherwise variances (L, I, N) are left of them.
    """
    if leaves is None:
        return None
    if leaves.ndim == 4 and matrix:
        return leaves.transpose(0, 1)
    relative = leaves if leaves.ndim == 3 else leaves.diagonal(dim1=-2, dim2=-1)
    return relative.permute(1, 2, 0)


def _covariances_per_row(circuit: Circuit, covariance: CovarianceKind) -> int:
    """Numbers held for the covariances of one row."""
    power = 2 if covariance == "exact" else 1
    layers = [*circuit.inner_layers(), *circuit.root_branches()]
    return sum(layer.n_folds * layer.n_nodes**power for layer in layers)
