"""The class posterior over Dirichlet weights: the covariance of log-values, to first order, from the leaves up.

Values at the mean weights are the means, whatever the weights do. Around them logarithms move in proportion: with
responsibilities e of a sum's children,

    product:  V = V_left + V_right
    sum:      V_st = sum_kl e_sk e_tl V_kl + [s = t] noise of the sum's own weights

No second moments of the values are needed, which far from the data are those of very few draws. The class roots are one
sum each over all repetitions.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.layers import SumProductLayer
from socratic.inference.engine import LogMomentPosterior
from socratic.inference.layered.log_moments.blocks import by_blocks, concatenate
from socratic.inference.layered.log_moments.sums import (
    Children,
    add_covariances,
    positive,
    quadratic,
    rescale,
    variances,
)
from socratic.inference.layered.moments import leaf_covariance
from socratic.inference.layered.walk import values_per_row, walk
from socratic.inference.log_normal import leaf_log_covariance, log_normal_posterior
from socratic.inference.weight_noise import log_noise
from socratic.inference.weight_posterior import WeightPosterior
from socratic.numerics import finite_or_zero, log_or_dead, logsumexp_or_dead
from socratic.tracing import holds


class LogSpread(NamedTuple):
    """How the logarithms of a layer's nodes vary. Rows come second: every row has small matrices of its own."""

    log_mean: Tensor  # (F, N, S) logarithms of the mean values, the largest of a region being 0
    log_scale: Tensor  # (F, N), in the type of numerics.scale_dtype
    covariance: Tensor | None  # (F, N, S, S), or variances (F, N, S), or None for zero
    squares: Tensor | None  # (F, N, C), of the roots' branches: sum_k w_k N_k^2 over the squared sum
    bend: Tensor  # (F, N, S), by how much taking the sums at and below a node as linear is wrong in the mean logarithm


class LogWeightAlgebra:
    """Passes the covariance of logarithms through layers."""

    def __init__(self, circuit: Circuit, posterior: WeightPosterior, like: Tensor) -> None:
        *of_layers, self.of_roots = posterior.relative_spreads(like)
        self.of_layer = dict(zip(circuit.inner_layers(), of_layers, strict=True))

    def layer(
        self, layer: SumProductLayer, weights: Tensor, left: LogSpread, right: LogSpread | None, *, root: bool
    ) -> LogSpread:
        """The sums of one layer; what the weights of the roots do is left to the join."""
        common = None if root else self.of_layer[layer]
        return by_blocks(partial(self._block, layer, common), weights, left, right)

    def _block(
        self,
        layer: SumProductLayer,
        common: Tensor | None,
        weights: Tensor,
        left: LogSpread,
        right: LogSpread | None,
        folds: slice,
    ) -> LogSpread:
        sides = [left] if right is None else [left, right]
        children = Children.of([side.log_mean for side in sides], all_pairs=layer.all_pairs)
        shares, sums = children.shares(weights)
        if _too_small_to_square(sums):
            wide = _to(left, torch.float64), None if right is None else _to(right, torch.float64)
            return _to(self._block(layer, common, weights.double(), *wide, folds), weights.dtype)
        covariance: Tensor | None = None
        bend = torch.zeros_like(sums)
        for side, rho in zip(sides, shares, strict=True):
            bend = bend + _average(rho, side.bend)
            if side.covariance is not None:
                passed = quadratic(rho, side.covariance)
                bend = bend + 0.5 * (_average(rho, variances(side.covariance)) - variances(passed))
                covariance = add_covariances(covariance, passed)
        squares = children.sums(weights, squared=True) / positive(sums) / positive(sums)
        if common is not None:
            relative = common[folds].unsqueeze(1).to(squares) * (squares - 1.0)
            covariance = add_covariances(covariance, log_noise(relative))
        log_mean, scale = rescale(log_or_dead(sums))
        log_scale = torch.stack([side.log_scale for side in sides]).sum(0) + children.log_scale + scale
        return LogSpread(log_mean, log_scale, covariance, squares if common is None else None, bend)

    def join(self, branches: list[LogSpread]) -> LogSpread:
        """The class roots, a state of one fold: sums over all repetitions, with one set of weights."""
        matrices = [branch._replace(covariance=_matrix(branch)) for branch in branches]
        parts = concatenate(matrices, dim=0)
        assert parts.covariance is not None
        assert parts.squares is not None
        values = parts.log_mean + parts.log_scale.unsqueeze(-1)  # (R, N, C), in the wide type
        log_mean = logsumexp_or_dead(values, dim=0)
        share = torch.exp(values - finite_or_zero(log_mean))
        covariance = (share.unsqueeze(-1) * share.unsqueeze(-2) * parts.covariance).sum(0, keepdim=True)
        bend = (share * (parts.bend + 0.5 * variances(parts.covariance))).sum(0, keepdim=True)
        bend = bend - 0.5 * variances(covariance)
        squares = (share * share * parts.squares).sum(0, keepdim=True)
        covariance = covariance + torch.diag_embed(log_noise(self.of_roots.to(share) * (squares - 1.0)))
        return LogSpread(log_mean, torch.zeros_like(log_mean[..., 0]), covariance, None, bend)


class LayeredLogWeights:
    """The class posterior over Dirichlet weights; see :class:`~socratic.inference.engine.LogMomentPlan`."""

    def __init__(self, circuit: Circuit, weights: Weights, posterior: WeightPosterior) -> None:
        self.circuit, self.weights = circuit, weights
        self.algebra = LogWeightAlgebra(circuit, posterior, weights.roots[0])
        layers = [*circuit.inner_layers(), *circuit.root_branches()]
        states = sum(layer.n_folds * layer.n_nodes * (layer.n_nodes + 2) for layer in layers)
        self.entries_per_row = values_per_row(circuit) + 2 * states

    def of_rows(self, rows: Tensor, leaves: Tensor | None, log_prior: Tensor) -> LogMomentPosterior:
        """The class posterior, given the uncertainty (N, L, I) or (N, L, I, I) of leaves and the log-prior (C,)."""
        log_mean, log_scale = rescale(self.circuit.leaves.log_density(rows).mT)
        covariance = leaf_log_covariance(leaf_covariance(leaves, matrix=True))
        start = LogSpread(log_mean, log_scale, covariance, None, torch.zeros_like(log_mean))
        roots = walk(self.circuit, start, self.weights, self.algebra)
        assert roots.covariance is not None
        posterior = log_normal_posterior(roots.log_mean[0], roots.covariance[0], log_prior, "log-moments")
        return LogMomentPosterior(posterior, (posterior.mean * roots.bend[0]).sum(-1).detach())


def _average(shares: Tensor, values: Tensor) -> Tensor:
    """Averages of the values (F, N, A) of children by their shares (F, N, S, A) in sums: (F, N, S)."""
    return (shares @ values.unsqueeze(-1)).squeeze(-1)


def _too_small_to_square(sums: Tensor) -> bool:
    """Whether a sum is so far below its region's best that float32 would lose its square."""
    if sums.dtype == torch.float64 or not sums.numel() or sums.device.type == "mps":
        return False
    return not holds(sums, lambda: sums.detach().amin() >= torch.finfo(sums.dtype).tiny ** 0.5)


def _to(state: LogSpread, dtype: torch.dtype) -> LogSpread:
    """The same in another type, but for the scale, which is wide."""
    log_mean, log_scale, covariance, squares, bend = state
    covariance, squares = (None if part is None else part.to(dtype) for part in (covariance, squares))
    return LogSpread(log_mean.to(dtype), log_scale, covariance, squares, bend.to(dtype))


def _matrix(state: LogSpread) -> Tensor:
    if state.covariance is None:
        return torch.diag_embed(torch.zeros_like(state.log_mean))
    return state.covariance if state.covariance.ndim == 4 else torch.diag_embed(state.covariance)
