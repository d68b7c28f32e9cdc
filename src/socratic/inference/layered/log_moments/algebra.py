"""Log-moment propagation: mean and covariance of the logarithms of all nodes over dropout masks, in one pass."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from socratic.circuit.layers import SumProductLayer
from socratic.inference.dropout import Dropout
from socratic.inference.layered.log_moments.masks import own_mask_atoms, shared_mask_atoms, top_shares
from socratic.inference.layered.log_moments.sums import (
    Moved,
    add_moved,
    by_atoms,
    by_expansion,
    exp_shifted,
    pair_shares,
    positive,
    single_shares,
)
from socratic.memory import blocks
from socratic.numerics import finite_or_zero, scale_dtype


class LogMoments(NamedTuple):
    """Moments of ``log value`` of a layer's nodes, in two parts: the masks below, and the region's own masks.

    The first has the mean ``log_mean + log_scale`` and the covariance ``covariance`` (None where it is zero,
    variances (F, N, S) where the nodes are uncorrelated). The second, the factor of the sums' own masks, is left to
    the layer above: which of them matter is known there. Rows come second: every row has small matrices of its own.
    """

    log_mean: Tensor  # (F, N, S); minus infinity where a node is dead
    log_scale: Tensor  # (F, N), in the type of numerics.scale_dtype
    covariance: Tensor | None  # (F, N, S, S) or (F, N, S)
    shares: Tensor | None  # (F, N, M, S); None where there are no masks
    rest: Tensor | None  # (F, N, S)
    alive: Tensor  # (F, N), probability that a node of the region is left
    curvature: Tensor  # (F, N), the largest mean curvature of a region below

    @classmethod
    def of_leaves(cls, log_density: Tensor, relative: Tensor | None) -> LogMoments:
        """The leaves (F, I, N), with relative variances (F, I, N) or covariances (F, N, I, I) if they are uncertain."""
        values = log_density.mT
        covariance = None
        if relative is not None:
            covariance = log_covariance(relative if relative.ndim == 4 else relative.mT)
            variances = covariance if covariance.ndim == 3 else covariance.diagonal(dim1=-2, dim2=-1)
            values = values - 0.5 * variances
        log_mean, log_scale = _rescale(values)
        alive = torch.isfinite(log_mean.detach()).any(-1).to(log_mean.dtype)
        return cls(log_mean, log_scale, covariance, None, None, alive, torch.zeros_like(alive))

    def cut(self, folds: slice, rows: slice) -> LogMoments:
        """The moments of some folds and rows."""
        parts: dict[str, Any] = {
            name: None if part is None else part[folds, rows] for name, part in self._asdict().items()
        }
        return self._replace(**parts)


def log_covariance(relative: Tensor) -> Tensor:
    """Covariance of logarithms from relative variances (..., I) or a relative covariance (F, N, I, I).

    Variances become log(1 + R), as for log-normal values; correlations are kept.
    """
    if relative.ndim == 3:
        return torch.log1p(relative)
    variance = relative.diagonal(dim1=-2, dim2=-1)
    ratio = torch.where(variance > 0, torch.log1p(variance) / torch.where(variance > 0, variance, 1.0), 1.0).sqrt()
    return relative * ratio.unsqueeze(-1) * ratio.unsqueeze(-2)


class LogMomentAlgebra:
    """Passes log-moments through layers; the class roots are kept apart for every repetition."""

    def __init__(self, dropout: Dropout) -> None:
        self.dropout = dropout

    def layer(
        self, layer: SumProductLayer, weights: Tensor, left: LogMoments, right: LogMoments | None, *, root: bool
    ) -> LogMoments:
        """Log-moments of the sums of one layer, block by block so that intermediates stay small."""
        masked = self.dropout.of_sums(root=root) is not None
        n_folds, n_rows, width = left.log_mean.shape
        widest = width if right is None else max(width, right.log_mean.shape[-1])
        numbers = 12 * weights.shape[1] * widest + 2 * weights.shape[2]
        folds: list[LogMoments] = []
        for fold, rows in blocks(n_folds, n_rows, numbers * weights.element_size(), weights.device):
            parts = [
                self._block(
                    layer, weights[fold], left.cut(fold, r), None if right is None else right.cut(fold, r), masked
                )
                for r in rows
            ]
            folds.append(_concatenate(parts, dim=1))
        return _concatenate(folds, dim=0)

    def join(self, branches: list[LogMoments]) -> LogMoments:
        """The class roots of all repetitions, one fold each."""
        return _concatenate(_alike(branches), dim=0)

    def _block(
        self, layer: SumProductLayer, weights: Tensor, left: LogMoments, right: LogMoments | None, masked: bool
    ) -> LogMoments:
        """Log-moments of some folds and rows of a layer."""
        sides = [left] if right is None else [left, right]
        shares, sums, values, log_scale = _centre(weights, sides, all_pairs=layer.all_pairs)
        moved = add_moved([part for side, rho in zip(sides, shares, strict=True) for part in self._moves(side, rho)])
        log_mean = torch.log(positive(sums))
        curvature = torch.stack([side.curvature for side in sides]).amax(0)
        covariance = None
        if moved is not None:
            log_mean, covariance = log_mean + moved.mean, moved.covariance
            curvature = torch.maximum(curvature, moved.curvature.detach().mean(-1))
        log_mean, shift = _rescale(log_mean.masked_fill(sums <= 0, -math.inf))
        n_masked = sum(side.shares is not None for side in sides)
        log_scale = log_scale + shift + n_masked * self.dropout.log_kept
        alive = left.alive if right is None else left.alive * right.alive
        if not masked:
            return LogMoments(log_mean, log_scale, covariance, None, None, alive, curvature)
        top, rest = top_shares(weights, values, sums)
        n_masks = _n_alive(sides, all_pairs=layer.all_pairs).to(alive.dtype)
        if not self.dropout.shared:
            n_masks = n_masks * weights.shape[1]
        alive = alive * (1.0 - self.dropout.rate**n_masks)
        return LogMoments(log_mean, log_scale, covariance, top, rest, alive, curvature)

    def _moves(self, state: LogMoments, rho: Tensor) -> list[Moved]:
        """What moves the sums that have the shares ``rho`` (F, N, S, A) of the children ``state``."""
        parts, residual = [], None
        if state.shares is not None and state.rest is not None:
            relevance = rho.detach().square().mean(2)  # (F, N, A)
            atoms_of = shared_mask_atoms if self.dropout.shared else own_mask_atoms
            atoms = atoms_of(state.shares, state.rest, relevance, self.dropout.rate)
            relative = atoms.log_factor - self.dropout.log_kept  # the mean factor is q
            parts.append(by_atoms(rho, atoms._replace(log_factor=relative)))
            residual = atoms.residual
        spread = by_expansion(rho, state.covariance, residual)
        return parts if spread is None else [*parts, spread]


def _centre(
    weights: Tensor, sides: list[LogMoments], *, all_pairs: bool
) -> tuple[list[Tensor], Tensor, list[Tensor], Tensor]:
    """Shares of each side's nodes in the sums, the sums (F, N, S), the values that they sum over, and the scale (F, N).

    The values are those of both sides' nodes where all pairs are summed, and otherwise of the products.
    """
    log_scale = torch.stack([side.log_scale for side in sides]).sum(0)
    if len(sides) == 2 and all_pairs:
        (left, first), (right, second) = (exp_shifted(side.log_mean) for side in sides)
        of_left, of_right, sums = pair_shares(weights, left, right)
        return [of_left, of_right], sums, [left, right], log_scale + (first + second).squeeze(-1)
    # The best nodes of the two sides need not meet: relative to both, every product could underflow.
    products, shift = exp_shifted(torch.stack([side.log_mean for side in sides]).sum(0))
    shares, sums = single_shares(weights, products)
    return [shares] * len(sides), sums, [products], log_scale + shift.squeeze(-1)


def _n_alive(sides: list[LogMoments], *, all_pairs: bool) -> Tensor:
    """How many of the products that are summed over are not 0: (F, N)."""
    alive = [side.log_mean.detach() > -math.inf for side in sides]
    if all_pairs:
        return torch.stack([part.sum(-1) for part in alive]).prod(0)
    return torch.stack(alive).all(0).sum(-1)


def numbers_per_row(n_folds: int, n_nodes: int, n_shares: int) -> int:
    """Numbers held for one row of a layer."""
    return n_folds * n_nodes * (n_nodes + n_shares + 3)


def _rescale(log_values: Tensor) -> tuple[Tensor, Tensor]:
    """Log-values relative to the largest of their region, and that scale: (F, N, S) -> (F, N, S), (F, N)."""
    shift = finite_or_zero(log_values.detach().amax(-1, keepdim=True))
    return log_values - shift, shift.squeeze(-1).to(scale_dtype(shift))


def _alike(branches: list[LogMoments]) -> list[LogMoments]:
    """Branches with the same parts: shares padded with zeros to equally many, no covariance made one of zeros."""
    width = max(0 if branch.shares is None else branch.shares.shape[2] for branch in branches)
    moving = any(branch.covariance is not None for branch in branches)
    found = []
    for branch in branches:
        shares, covariance = branch.shares, branch.covariance
        if shares is not None:
            shares = pad(shares, (0, 0, 0, width - shares.shape[2]))
        if moving and covariance is None:
            covariance = torch.diag_embed(torch.zeros_like(branch.log_mean))
        found.append(branch._replace(shares=shares, covariance=covariance))
    return found


def _concatenate(states: list[LogMoments], dim: int) -> LogMoments:
    if len(states) == 1:
        return states[0]
    joined: dict[str, Any] = {
        name: None if part is None else torch.cat([getattr(state, name) for state in states], dim)
        for name, part in states[0]._asdict().items()
    }
    return states[0]._replace(**joined)
