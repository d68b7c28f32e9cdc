"""Log-moment propagation: mean and covariance of the logarithms of all nodes over dropout masks, in one pass."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from socratic.circuit.layers import SumProductLayer
from socratic.inference.dropout import Dropout
from socratic.inference.layered.log_moments.blocks import COPIES, by_blocks, concatenate
from socratic.inference.layered.log_moments.masks import NEGLIGIBLE, own_mask_atoms, shared_mask_atoms, top_shares
from socratic.inference.layered.log_moments.sums import (
    DEEP_FALL,
    Children,
    Moved,
    add_moved,
    by_atoms,
    by_expansion,
    positive,
    rescale,
)
from socratic.inference.log_normal import leaf_log_covariance
from socratic.kernels.log_moments import moved_sums_of_pairs, takes_moved, takes_top_shares
from socratic.kernels.processor import Moving

_FUSED_COPIES = 3
"""Matrices of each row that kernels leave to be held: both sides' marginals, and the covariance."""


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
        covariance = leaf_log_covariance(relative)
        if covariance is not None:
            variances = covariance if covariance.ndim == 3 else covariance.diagonal(dim1=-2, dim2=-1)
            values = values - 0.5 * variances
        log_mean, log_scale = rescale(values)
        alive = torch.isfinite(log_mean.detach()).any(-1).to(log_mean.dtype)
        return cls(log_mean, log_scale, covariance, None, None, alive, torch.zeros_like(alive))


class LogMomentAlgebra:
    """Passes log-moments through layers; the class roots are kept apart for every repetition."""

    def __init__(self, dropout: Dropout) -> None:
        self.dropout = dropout

    def layer(
        self, layer: SumProductLayer, weights: Tensor, left: LogMoments, right: LogMoments | None, *, root: bool
    ) -> LogMoments:
        """Log-moments of the sums of one layer, block by block so that intermediates stay small."""
        masked = self.dropout.of_sums(root=root) is not None
        fused = right is not None and layer.all_pairs and takes_top_shares(weights, left.log_mean, right.log_mean)
        copies = _FUSED_COPIES if fused else COPIES
        return by_blocks(partial(self._block, layer, masked=masked), weights, left, right, copies)

    def join(self, branches: list[LogMoments]) -> LogMoments:
        """The class roots of all repetitions, one fold each."""
        return concatenate(_alike(branches), dim=0)

    def _block(
        self,
        layer: SumProductLayer,
        weights: Tensor,
        left: LogMoments,
        right: LogMoments | None,
        _folds: slice,
        *,
        masked: bool,
    ) -> LogMoments:
        """Log-moments of some folds and rows of a layer."""
        sides = [left] if right is None else [left, right]
        children = Children.of([side.log_mean for side in sides], all_pairs=layer.all_pairs)
        sums, moved = self._sums(weights, children, sides)
        log_scale = torch.stack([side.log_scale for side in sides]).sum(0) + children.log_scale
        log_mean = torch.log(positive(sums))
        curvature = torch.stack([side.curvature for side in sides]).amax(0)
        covariance = None
        if moved is not None:
            log_mean, covariance = log_mean + moved.mean, moved.covariance
            curvature = torch.maximum(curvature, moved.curvature.detach().mean(-1))
        log_mean, shift = rescale(log_mean.masked_fill(sums <= 0, -math.inf))
        n_masked = sum(side.shares is not None for side in sides)
        log_scale = log_scale + shift + n_masked * self.dropout.log_kept
        alive = left.alive if right is None else left.alive * right.alive
        if not masked:
            return LogMoments(log_mean, log_scale, covariance, None, None, alive, curvature)
        top, rest = top_shares(weights, children.values, sums)
        n_masks = _n_alive(sides, all_pairs=layer.all_pairs).to(alive.dtype)
        if not self.dropout.shared:
            n_masks = n_masks * weights.shape[1]
        alive = alive * (1.0 - self.dropout.rate**n_masks)
        return LogMoments(log_mean, log_scale, covariance, top, rest, alive, curvature)

    def _sums(self, weights: Tensor, children: Children, sides: list[LogMoments]) -> tuple[Tensor, Moved | None]:
        """The sums (F, N, S) at the means of their children, and what those that move do to them."""
        if all(side.shares is None and side.covariance is None for side in sides):
            return children.sums(weights), None
        if (moving := _moving_pairs(children, sides)) and takes_moved(weights, *moving):
            rate, shared = self.dropout.rate, self.dropout.shared
            sums, *moved = moved_sums_of_pairs(weights, moving, rate, NEGLIGIBLE, DEEP_FALL, shared=shared)
            return sums, Moved(*moved)
        shares, sums = children.shares(weights)
        parts = [part for side, rho in zip(sides, shares, strict=True) for part in self._moves(side, rho)]
        return sums, add_moved(parts)

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


def _moving_pairs(children: Children, sides: list[LogMoments]) -> tuple[Moving, Moving] | None:
    """Both sides of products of all pairs, if masks move them."""
    moving = [
        Moving(values, side.shares, side.rest, side.covariance)
        for values, side in zip(children.values, sides, strict=False)
        if side.shares is not None and side.rest is not None
    ]
    return (moving[0], moving[1]) if len(moving) == 2 else None


def _n_alive(sides: list[LogMoments], *, all_pairs: bool) -> Tensor:
    """How many of the products that are summed over are not 0: (F, N)."""
    alive = [side.log_mean.detach() > -math.inf for side in sides]
    if all_pairs:
        return torch.stack([part.sum(-1) for part in alive]).prod(0)
    return torch.stack(alive).all(0).sum(-1)


def numbers_per_row(n_folds: int, n_nodes: int, n_shares: int) -> int:
    """Numbers held for one row of a layer."""
    return n_folds * n_nodes * (n_nodes + n_shares + 3)


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
