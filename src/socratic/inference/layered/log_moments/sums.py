"""Mean and covariance of the logarithms of a layer's sums, from what moves their children.

The sums s have shares rho of their children at the children's mean values. Where a child's value changes by a factor
g, ``log sum`` changes by ``log(sum_a rho_sa g_a)``. The children of a product's two sides move independently, and
the effects of the sides are added up: each side moves with the other at its mean. A side moves in two ways:

- by the atoms of its masks, at which the change is evaluated as it is;
- by Gaussian logarithms, with covariance V from the masks further below and relative covariance R from the masks that
  no atom enumerates. To second order, with M = V + R:

    covariance  rho M rho'
    mean        (sum_a rho_sa V_aa - (rho M rho')_ss) / 2
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.inference.layered.log_moments.masks import MaskAtoms
from socratic.kernels.sums import sums_of_pairs, takes_pair_sums
from socratic.numerics import finite_or_zero, scale_dtype

DEEP_FALL = 40.0
"""Nats by which a sum may fall behind the best of its region in an atom: beyond, what the other side of its products
does is decisive, and not only added."""


class Moved(NamedTuple):
    """What moving children do to the logarithms of sums."""

    mean: Tensor  # (F, N, S)
    covariance: Tensor  # (F, N, S, S)
    curvature: Tensor  # (F, N, S) or their mean (F, N, 1): how wrong a linear sum would be; infinite where one is lost


def exp_shifted(log_values: Tensor) -> tuple[Tensor, Tensor]:
    """Values relative to the largest, and the logarithm of that: (..., A) -> (..., A), (..., 1)."""
    shift = finite_or_zero(log_values.detach().amax(-1, keepdim=True))
    return torch.exp(log_values - shift), shift


def single_shares(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Shares (F, N, S, K) of the children in sums over them, and the sums (F, N, S): (F, S, K), (F, N, K) ->."""
    terms = weights.unsqueeze(1) * values.unsqueeze(2)
    sums = terms.sum(-1)
    return terms / positive(sums).unsqueeze(-1), sums


def pair_shares(weights: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Shares (F, N, S, A) and (F, N, S, B) of the nodes in sums over all their pairs, and the sums (F, N, S).

    Parameters
    ----------
    weights : (F, S, A B)
    left, right : (F, N, A), (F, N, B)
        Values.
    """
    n_left, n_right = left.shape[-1], right.shape[-1]
    terms = contract_right(weights, n_left, right) * left.unsqueeze(2)
    sums = terms.sum(-1)
    scale = 1.0 / positive(sums).unsqueeze(-1)
    mirrored = weights.unflatten(2, (n_left, n_right)).mT.flatten(2)
    return terms * scale, contract_right(mirrored, n_right, left) * (right.unsqueeze(2) * scale), sums


def contract_right(weights: Tensor, n_left: int, right: Tensor) -> Tensor:
    """sum_r W_s[l, r] b_r: (F, S, A B), (F, N, B) -> (F, N, S, A)."""
    n_folds, n_rows, n_right = right.shape
    by_right = weights.view(n_folds, -1, n_right).mT  # [r, (s, l)]
    return torch.bmm(right, by_right).view(n_folds, n_rows, weights.shape[1], n_left)


class Children(NamedTuple):
    """What the sums of a layer are taken over, relative to a scale."""

    values: list[Tensor]  # (F, N, A) and (F, N, B), whose pairs are summed, or the products (F, N, K) alone
    log_scale: Tensor  # (F, N)
    n_sides: int

    @classmethod
    def of(cls, log_means: list[Tensor], *, all_pairs: bool) -> Children:
        """From the logarithms of the nodes of each side."""
        if len(log_means) == 2 and all_pairs:
            (left, first), (right, second) = (exp_shifted(side) for side in log_means)
            return cls([left, right], (first + second).squeeze(-1), 2)
        # The best nodes of the two sides need not meet: relative to both, every product could underflow.
        products, shift = exp_shifted(torch.stack(log_means).sum(0))
        return cls([products], shift.squeeze(-1), len(log_means))

    def sums(self, weights: Tensor, *, squared: bool = False) -> Tensor:
        """The sums (F, N, S), or those of the squares of what is summed."""
        values = [value * value for value in self.values] if squared else self.values
        if len(values) == 1:
            return torch.bmm(values[0], weights.mT)
        left, right = values
        if takes_pair_sums(weights, left.mT, right.mT):
            return sums_of_pairs(weights, left.mT, right.mT, by_row=True)
        return (contract_right(weights, left.shape[-1], right) * left.unsqueeze(2)).sum(-1)

    def shares(self, weights: Tensor) -> tuple[list[Tensor], Tensor]:
        """Shares of each side's nodes in the sums, and the sums (F, N, S)."""
        if len(self.values) == 2:
            of_left, of_right, sums = pair_shares(weights, *self.values)
            return [of_left, of_right], sums
        shares, sums = single_shares(weights, self.values[0])
        return [shares] * self.n_sides, sums


def rescale(log_values: Tensor) -> tuple[Tensor, Tensor]:
    """Log-values relative to the largest of their region, and that scale: (F, N, S) -> (F, N, S), (F, N)."""
    shift = finite_or_zero(log_values.detach().amax(-1, keepdim=True))
    return log_values - shift, shift.squeeze(-1).to(scale_dtype(shift))


def by_atoms(shares: Tensor, atoms: MaskAtoms) -> Moved:
    """What the atoms of the children's masks do."""
    changed = torch.log(positive(torch.exp(atoms.log_factor) @ shares.mT))  # (F, N, k, S)
    mean, covariance = atom_moments(changed, atoms.probability)
    fall = changed.detach() - changed.detach().amax(-1, keepdim=True)  # what all sums share moves nothing
    lost = atoms.lost.unsqueeze(-1) | (fall.amin(2) < -DEEP_FALL)
    return Moved(mean, covariance, torch.zeros_like(mean).masked_fill(lost, math.inf))


def by_expansion(shares: Tensor, covariance: Tensor | None, residual: Tensor | None) -> Moved | None:
    """What Gaussian logarithms of the children do, to second order; None where nothing moves."""
    total = add_covariances(covariance, residual)
    if total is None:
        return None
    passed = quadratic(shares, total)
    variance = passed.diagonal(dim1=-2, dim2=-1)
    own = (shares @ variances(total).unsqueeze(-1)).squeeze(-1)
    bend = 0.5 * (own - variance)
    mean = bend
    if residual is not None:  # the values, not their logarithms, keep their mean
        mean = mean - 0.5 * (shares @ variances(residual).unsqueeze(-1)).squeeze(-1)
    return Moved(mean, passed, bend)


def atom_moments(log_values: Tensor, probability: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (F, N, S) and covariance (F, N, S, S) over atoms (F, N, k, S) with probabilities (F, N, k)."""
    weight = probability.unsqueeze(-1)
    mean = (weight * log_values).sum(2)
    centred = log_values - mean.unsqueeze(2)
    return mean, centred.mT @ (weight * centred)


def add_moved(parts: list[Moved]) -> Moved | None:
    """The effects of independent moves, added up."""
    if not parts:
        return None
    mean, covariance, curvature = parts[0]
    for part in parts[1:]:
        mean, covariance, curvature = mean + part.mean, covariance + part.covariance, curvature + part.curvature
    return Moved(mean, covariance, curvature)


def quadratic(shares: Tensor, covariance: Tensor) -> Tensor:
    """rho M rho' for a matrix M (F, N, A, A) or variances (F, N, A): (F, N, S, S)."""
    if covariance.ndim == 3:
        return (shares * covariance.unsqueeze(2)) @ shares.mT
    return shares @ covariance @ shares.mT


def positive(sums: Tensor) -> Tensor:
    """Sums to divide by and to take logarithms of: the smallest positive number where they are 0."""
    return sums.clamp_min(torch.finfo(sums.dtype).tiny)


def variances(covariance: Tensor) -> Tensor:
    """The variances (F, N, A) of a covariance, which may be all that there is of it."""
    return covariance if covariance.ndim == 3 else covariance.diagonal(dim1=-2, dim2=-1)


def add_covariances(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    """The sum of two covariances, each a matrix, variances, or None for zero."""
    if x is None or y is None:
        return y if x is None else x
    if x.ndim != y.ndim:
        x, y = (torch.diag_embed(part) if part.ndim == 3 else part for part in (x, y))
    return x + y
