"""Log-moment propagation: mean and covariance of the logarithms of all nodes over dropout masks, in one pass."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from socratic.circuit.layers import SumProductLayer
from socratic.inference.log_moments.displaced import N_DISPLACED, displaced_sums
from socratic.inference.log_moments.masks import N_CONDITIONED, own_mask_atoms, shared_mask_atoms, top_shares
from socratic.inference.log_moments.sums import (
    Children,
    LogSums,
    Shares,
    atom_pair_sums,
    atom_sums,
    exp_of_atoms,
    left_shares,
)
from socratic.inference.results import MaskKind
from socratic.numerics import finite_or_zero, scale_dtype

_BLOCK_BYTES = {"cpu": 32 * 2**20}
_DEVICE_BLOCK_BYTES = 512 * 2**20


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

    def of_rows(self, rows: Tensor) -> LogMoments:
        """The moments of some rows, given by their numbers."""
        parts: dict[str, Any] = {
            name: None if part is None else part.index_select(1, rows) for name, part in self._asdict().items()
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
    """Passes log-moments through layers; the class roots are kept apart for every repetition.

    ``displaced`` says that covariances pass by points instead of an expansion: for sharp circuits.
    """

    def __init__(self, dropout: float, masks: MaskKind, root_dropout: bool, displaced: bool = False) -> None:
        self.dropout, self.masks, self.root_dropout, self.displaced = dropout, masks, root_dropout, displaced

    def layer(
        self, layer: SumProductLayer, weights: Tensor, left: LogMoments, right: LogMoments | None, *, root: bool
    ) -> LogMoments:
        """Log-moments of the sums of one layer, block by block so that intermediates stay small."""
        masked = self.dropout > 0.0 and (self.root_dropout or not root)
        n_folds, n_rows, width = left.log_mean.shape
        widest = width if right is None else max(width, right.log_mean.shape[-1])
        points = N_DISPLACED if self.displaced else 2**N_CONDITIONED if left.shares is not None else 1
        numbers = 4 * points * weights.shape[1] * widest + 6 * weights.shape[2]
        blocks = _blocks(n_folds, n_rows, numbers * weights.element_size(), weights.device)
        folds: list[LogMoments] = []
        for fold, rows in blocks:
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
        if right is not None and layer.all_pairs:
            sums, values = self._pairs(weights, left, right)
        else:
            sums, values = self._singles(weights, left, right)
        log_mean, shift = _rescale(sums.mean.masked_fill(sums.dead, -math.inf))
        log_scale, alive = left.log_scale + shift, left.alive
        if right is not None:
            log_scale, alive = log_scale + right.log_scale, alive * right.alive
        curvature = torch.maximum(left.curvature, sums.curvature.detach().mean(-1))
        if right is not None:
            curvature = torch.maximum(curvature, right.curvature)
        if not masked:
            return LogMoments(log_mean, log_scale, sums.covariance, None, None, alive, curvature)
        shares, rest = top_shares(weights, values)
        n_masks = (values.detach() > 0).sum(-1).to(alive.dtype) * (weights.shape[1] if self.masks == "edge" else 1)
        alive = alive * (1.0 - self.dropout**n_masks)
        return LogMoments(log_mean, log_scale, sums.covariance, shares, rest, alive, curvature)

    def _pairs(self, weights: Tensor, left: LogMoments, right: LogMoments) -> tuple[LogSums, Tensor]:
        """Sums over all pairs of nodes, and the values (F, N, K) of the products at the children's log-means."""
        plain = _PairShares(weights, left.log_mean, right.log_mean)
        left_children, left_centre = self._condition(left, plain.of_left)
        right_children, right_centre = self._condition(right, plain.of_right)
        centre = _PairShares(weights, left_centre, right_centre)
        if self.displaced and (left.covariance is not None or right.covariance is not None):
            still = left_children.still(), right_children.still()
            sums = atom_pair_sums(weights, *still, (centre.of_left, centre.of_right))
            sums = displaced_sums(weights, sums, [left_children, right_children], [left_centre, right_centre])
        else:
            sums = atom_pair_sums(weights, left_children, right_children, (centre.of_left, centre.of_right))
        return sums, (centre.left.unsqueeze(-1) * centre.right.unsqueeze(-2)).flatten(-2)

    def _singles(self, weights: Tensor, left: LogMoments, right: LogMoments | None) -> tuple[LogSums, Tensor]:
        """The same where products stand alone: one-sided layers, and element-wise products."""
        log_values = left.log_mean if right is None else left.log_mean + right.log_mean

        def rho() -> Tensor:
            return left_shares(weights, exp_of_atoms(log_values)[0], None)

        children, centre = self._condition(left, rho)
        if right is not None:
            others, other_centre = self._condition(right, rho)
            children, centre = children.times(others), centre + other_centre
        values = exp_of_atoms(centre)[0]
        if self.displaced and children.covariance is not None:
            sums = atom_sums(weights, children.still(), lambda: left_shares(weights, values, None))
            return displaced_sums(weights, sums, [children], [centre]), values
        return atom_sums(weights, children, lambda: left_shares(weights, values, None)), values

    def _condition(self, state: LogMoments, rho: Shares) -> tuple[Children, Tensor]:
        """Atoms of the children's own masks, chosen by their shares rho above, and their mean log-values (F, N, A)."""
        if state.shares is None or state.rest is None:
            probability = torch.ones_like(state.log_mean[..., :1])
            return Children(state.log_mean.unsqueeze(2), probability, None, state.covariance), state.log_mean
        with torch.no_grad():
            relevance = rho().square().mean(2)  # (F, N, A)
        atoms_of = shared_mask_atoms if self.masks == "unit" else own_mask_atoms
        found = atoms_of(state.shares, state.rest, relevance, self.dropout)
        mean_factor = (found.probability.unsqueeze(-1) * found.log_factor).sum(2)
        atoms = state.log_mean.unsqueeze(2) + found.log_factor
        return Children(atoms, found.probability, found.residual, state.covariance), state.log_mean + mean_factor


class _PairShares:
    """Shares of the left and right nodes in sums over all their pairs, computed when they are asked for."""

    def __init__(self, weights: Tensor, left: Tensor, right: Tensor) -> None:
        self.weights, self.left, self.right = weights, exp_of_atoms(left)[0], exp_of_atoms(right)[0]

    def of_left(self) -> Tensor:
        """(F, N, S, A)."""
        return left_shares(self.weights, self.left, self.right)

    def of_right(self) -> Tensor:
        """(F, N, S, B)."""
        mirrored = self.weights.unflatten(2, (self.left.shape[-1], self.right.shape[-1])).mT.flatten(2)
        return left_shares(mirrored, self.right, self.left)


def numbers_per_row(n_folds: int, n_nodes: int, n_shares: int) -> int:
    """Numbers held for one row of a layer."""
    return n_folds * n_nodes * (n_nodes + n_shares + 3)


def _rescale(log_values: Tensor) -> tuple[Tensor, Tensor]:
    """Log-values relative to the largest of their region, and that scale: (F, N, S) -> (F, N, S), (F, N)."""
    shift = finite_or_zero(log_values.detach().amax(-1, keepdim=True))
    return log_values - shift, shift.squeeze(-1).to(scale_dtype(shift))


def _blocks(n_folds: int, n_rows: int, entry_bytes: int, device: torch.device) -> list[tuple[slice, list[slice]]]:
    """Folds and rows to take at a time."""
    budget = _BLOCK_BYTES.get(device.type, _DEVICE_BLOCK_BYTES)
    rows = max(1, min(n_rows, budget // entry_bytes))
    folds = max(1, min(n_folds, budget // (entry_bytes * rows)))
    row_blocks = [slice(first, first + rows) for first in range(0, max(n_rows, 1), rows)]
    return [(slice(first, first + folds), row_blocks) for first in range(0, n_folds, folds)]


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
