"""Mean and covariance of the logarithms of a layer's sums, from the atoms and covariances of their children.

With children g at an atom, ``log sum_k w_sk exp(g_k)`` is evaluated as it is. What moves the children besides, with
covariance V, passes to second order through the shares rho of the children at the mean of their logarithms:

    covariance  rho V rho'
    mean        (sum_i rho_si V_ii - (rho V rho')_ss) / 2     for V of the logarithms
                -(rho R rho')_ss / 2                          for relative covariances R of the values
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.numerics import finite_or_zero

Shares = Callable[[], Tensor]


class Children(NamedTuple):
    """What a layer knows of its children: atoms of their log-values, and what moves them besides."""

    atoms: Tensor  # (F, N, k, A), logarithms
    probability: Tensor  # (F, N, k)
    residual: Tensor | None  # relative covariance of the values, (F, N, A, A) or variances (F, N, A)
    covariance: Tensor | None  # of the logarithms, likewise

    def still(self) -> Children:
        """The same with nothing that moves the logarithms."""
        return self._replace(covariance=None)

    def times(self, other: Children) -> Children:
        """Element-wise products with independent children: all pairs of atoms, and the sum of what moves them."""
        atoms = (self.atoms.unsqueeze(3) + other.atoms.unsqueeze(2)).flatten(2, 3)
        probability = (self.probability.unsqueeze(3) * other.probability.unsqueeze(2)).flatten(2)
        residual = _total(self.residual, other.residual)
        return Children(atoms, probability, residual, _total(self.covariance, other.covariance))


class LogSums(NamedTuple):
    """Mean and covariance of the logarithms of sums, and whether a sum is 0."""

    mean: Tensor  # (F, N, S)
    covariance: Tensor | None  # (F, N, S, S); None where nothing moves
    dead: Tensor  # (F, N, S)
    curvature: Tensor  # (F, N, S), what the covariances of the children add to the mean: how far from linear they act


def exp_of_atoms(atoms: Tensor) -> tuple[Tensor, Tensor]:
    """Values relative to the largest of each atom, and the shift: (..., A) -> (..., A), (..., 1)."""
    shift = finite_or_zero(atoms.detach().amax(-1, keepdim=True))
    return torch.exp(atoms - shift), shift


def left_shares(weights: Tensor, left: Tensor, right: Tensor | None) -> Tensor:
    """Shares (F, N, S, A) of the left nodes in sums over pairs, or of the K children where there is no right side.

    Parameters
    ----------
    weights : (F, S, K)
    left, right : (F, N, A), (F, N, B)
        Values.
    """
    if right is None:
        terms = weights.unsqueeze(1) * left.unsqueeze(2)
    else:
        terms = contract_right(weights, left.shape[-1], right.unsqueeze(2)).squeeze(2) * left.unsqueeze(2)
    return terms / positive(terms.sum(-1, keepdim=True))


def atom_sums(weights: Tensor, children: Children, rho: Shares) -> LogSums:
    """Log-sums over children that stand alone, in one-sided layers and element-wise products.

    ``rho`` gives the shares (F, N, S, K) of the children where they are needed.
    """
    n_folds, n_rows, n_atoms, n_children = children.atoms.shape
    values, shift = exp_of_atoms(children.atoms)
    sums = torch.bmm(values.reshape(n_folds, -1, n_children), weights.mT).view(n_folds, n_rows, n_atoms, -1)
    mean, covariance = atom_moments(torch.log(positive(sums)) + shift, children.probability)
    return add_spread(LogSums(mean, covariance, sums[:, :, 0] <= 0, torch.zeros_like(mean)), rho, children)


def atom_pair_sums(weights: Tensor, left: Children, right: Children, rhos: tuple[Shares, Shares]) -> LogSums:
    """Log-sums over all pairs of left and right nodes, at all pairs of atoms.

    ``rhos`` give the shares (F, N, S, A) and (F, N, S, B) of the left and of the right nodes where they are needed.
    """
    a, a_shift = exp_of_atoms(left.atoms)
    b, b_shift = exp_of_atoms(right.atoms)
    n_left = a.shape[-1]
    by_left = contract_right(weights, n_left, b)  # (F, N, kR, S, A)
    sums = a.unsqueeze(2) @ by_left.mT  # (F, N, kR, kL, S)
    log_sums = torch.log(positive(sums)) + b_shift.unsqueeze(-1) + a_shift.unsqueeze(2)
    pairs = right.probability.unsqueeze(3) * left.probability.unsqueeze(2)  # (F, N, kR, kL)
    mean, covariance = atom_moments(log_sums.flatten(2, 3), pairs.flatten(2))
    # Which sums are dead does not depend on the masks: all atoms have positive factors.
    found = LogSums(mean, covariance, sums[:, :, 0, 0] <= 0, torch.zeros_like(mean))
    return add_spread(add_spread(found, rhos[0], left), rhos[1], right)


def atom_moments(log_values: Tensor, probability: Tensor) -> tuple[Tensor, Tensor | None]:
    """Mean (F, N, S) and covariance (F, N, S, S) over atoms (F, N, k, S) with probabilities (F, N, k).

    A single atom has no covariance.
    """
    if log_values.shape[2] == 1:
        return log_values.squeeze(2), None
    weight = probability.unsqueeze(-1)
    mean = (weight * log_values).sum(2)
    centred = log_values - mean.unsqueeze(2)
    return mean, centred.mT @ (weight * centred)


def add_spread(sums: LogSums, rho: Shares, children: Children) -> LogSums:
    """Add what moves the children besides their atoms, through their shares (F, N, S, A)."""
    if children.residual is None and children.covariance is None:
        return sums
    mean, covariance, _, curvature = sums
    shares = rho()
    if children.residual is not None:
        passed = quadratic(shares, children.residual)
        covariance = _total(covariance, passed)
        mean = mean - 0.5 * passed.diagonal(dim1=-2, dim2=-1)
    if children.covariance is not None:
        passed = quadratic(shares, children.covariance)
        covariance = _total(covariance, passed)
        own = (shares @ _variances(children.covariance).unsqueeze(-1)).squeeze(-1)
        bend = 0.5 * (own - passed.diagonal(dim1=-2, dim2=-1))
        mean, curvature = mean + bend, curvature + bend
    return LogSums(mean, covariance, sums.dead, curvature)


def quadratic(rho: Tensor, covariance: Tensor) -> Tensor:
    """rho V rho' for a matrix V (F, N, A, A) or variances (F, N, A): (F, N, S, S)."""
    if covariance.ndim == 3:
        return (rho * covariance.unsqueeze(2)) @ rho.mT
    return rho @ covariance @ rho.mT


def contract_right(weights: Tensor, n_left: int, right: Tensor) -> Tensor:
    """sum_r W_s[l, r] b_r at every atom: (F, S, A B), (F, N, k, B) -> (F, N, k, S, A)."""
    n_folds, n_rows, n_atoms, n_right = right.shape
    by_right = weights.view(n_folds, -1, n_right).mT  # [r, (s, l)]
    flat = torch.bmm(right.reshape(n_folds, n_rows * n_atoms, n_right), by_right)
    return flat.view(n_folds, n_rows, n_atoms, weights.shape[1], n_left)


def positive(sums: Tensor) -> Tensor:
    """Sums to divide by and to take logarithms of: the smallest positive number where they are 0."""
    return sums.clamp_min(torch.finfo(sums.dtype).tiny)


def _variances(covariance: Tensor) -> Tensor:
    return covariance if covariance.ndim == 3 else covariance.diagonal(dim1=-2, dim2=-1)


def _total(x: Tensor | None, y: Tensor | None) -> Tensor | None:
    if x is None or y is None:
        return y if x is None else x
    if x.ndim != y.ndim:
        x, y = (torch.diag_embed(part) if part.ndim == 3 else part for part in (x, y))
    return x + y
