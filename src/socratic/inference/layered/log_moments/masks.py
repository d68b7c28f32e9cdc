"""The masks of one region: condition on the few that matter, average over the others.

A sum with all children kept has the value s; under masks m it has s X with ``X = sum_k m_k r_k`` and r the shares
(responsibilities) of its children. Where one share is large, X jumps, and no expansion follows it: the masks of the
children that matter most are therefore enumerated. Given those, X is a sum of many small independent terms, and its
mean and relative variance say enough.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.kernels.log_moments import takes_top_shares, top_shares_of_pairs

N_SHARES = 16
"""Children of a region whose shares are kept; the others are never dropped, only averaged."""

N_CONDITIONED = 3
"""Masks of a region that are enumerated: 2^3 atoms. A fourth costs twice as much and gains little."""

NEGLIGIBLE = 1e-3
"""Mean squared share in the sums above up to which it does not matter that a sum is lost."""

_ROUNDING = 16
"""Multiples of the machine epsilon below which what is left of a total of 1 is rounding."""


class MaskAtoms(NamedTuple):
    """The factors X of a region's sums given the enumerated masks, k of them.

    Given an atom, X has this mean; ``residual`` is its relative covariance, averaged over the atoms: a matrix
    (F, N, S, S) where sums share masks, variances (F, N, S) where they do not. ``lost`` tells the rows in which a sum
    that matters dies in an atom, or what is left of it is too small for a number: that is not followed.
    """

    log_factor: Tensor  # (F, N, k, S)
    probability: Tensor  # (F, N, k)
    residual: Tensor
    lost: Tensor  # (F, N), boolean


def keep_patterns(n: int, dropout: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """All patterns (2^n, n) of n masks, 1 for kept, and their probabilities (2^n,); all kept comes first."""
    patterns = torch.tensor(list(itertools.product((1.0, 0.0), repeat=n)), dtype=like.dtype, device=like.device)
    return patterns, (patterns * (1.0 - dropout) + (1.0 - patterns) * dropout).prod(-1)


def top_shares(weights: Tensor, sides: Sequence[Tensor], sums: Tensor) -> tuple[Tensor, Tensor]:
    """Shares of the children that matter most to the sums of a region.

    Parameters
    ----------
    weights : (F, S, K)
    sides : one (F, N, K), or two (F, N, A) and (F, N, B)
        Values of the children, relative to the largest: the products of all pairs, K = A B, if there are two.
    sums : (F, N, S)
        ``sum_k w_sk v_k``.

    Returns
    -------
    shares : Tensor (F, N, M, S)
        ``w_sk v_k / sum_k w_sk v_k`` of the M children with the largest total over the sums.
    rest : Tensor (F, N, S)
        What the other children share. A sum that is 0 has no shares, and a rest of 1.
    """
    n_folds, n_sums, n_children = weights.shape
    inverse = torch.where(sums > 0, 1.0 / sums.clamp_min(torch.finfo(sums.dtype).tiny), 0.0)
    rounding = _ROUNDING * torch.finfo(sums.dtype).eps
    if len(sides) == 2 and takes_top_shares(weights, *sides):
        n_shares = min(N_SHARES, n_children)
        return top_shares_of_pairs(weights, sides[0], sides[1], inverse, n_shares, rounding)
    score = torch.bmm(inverse.detach(), weights.detach())
    if len(sides) == 1:
        score *= sides[0].detach()
    else:
        grid = score.unflatten(-1, (sides[0].shape[-1], sides[1].shape[-1]))
        grid *= sides[0].detach().unsqueeze(-1)
        grid *= sides[1].detach().unsqueeze(-2)
    top = score.topk(min(N_SHARES, n_children), dim=-1, sorted=False).indices  # (F, N, M)
    first = n_children * torch.arange(n_folds, device=weights.device).view(-1, 1, 1)
    by_child = weights.mT.reshape(-1, n_sums)  # one row for each child of each fold
    of_top = by_child.index_select(0, (top + first).flatten()).view(*top.shape, n_sums)
    if len(sides) == 1:
        values = sides[0].gather(-1, top)
    else:
        n_right = sides[1].shape[-1]
        values = sides[0].gather(-1, top // n_right) * sides[1].gather(-1, top % n_right)
    shares = of_top * values.unsqueeze(-1) * inverse.unsqueeze(2)
    rest = 1.0 - shares.sum(2)
    # What is lost to rounding would be a floor under everything that is left when the best children are dropped.
    return shares, torch.where(rest < rounding, 0.0, rest)


def shared_mask_atoms(shares: Tensor, rest: Tensor, relevance: Tensor, dropout: float) -> MaskAtoms:
    """Atoms of unit masks: the masks of the n children that matter most are enumerated.

    Given them, ``X_s = sum_chosen m_j r_sj + q sum_others r_sj``, and between sums s and t the other children leave
    the relative covariance ``p q sum_j r_sj r_tj / (X_s X_t)``.

    Parameters
    ----------
    shares, rest : (F, N, M, S), (F, N, S)
        See :func:`top_shares`.
    relevance : (F, N, S)
        How much the sums matter to what comes above.
    dropout : float
    """
    keep = 1.0 - dropout
    n = min(N_CONDITIONED, shares.shape[2])
    score = (shares.detach() @ relevance.unsqueeze(-1)).squeeze(-1)  # (F, N, M)
    chosen = score.topk(n, dim=-1).indices.unsqueeze(-1).expand(-1, -1, -1, shares.shape[-1])
    patterns, probability = keep_patterns(n, dropout, shares)
    first = shares.gather(2, chosen)  # (F, N, n, S)
    others = shares.scatter(2, chosen, 0.0)
    total = others.sum(2) + rest  # (F, N, S)
    factor = patterns @ first + keep * total.unsqueeze(2)  # (F, N, k, S)
    # An atom in which nothing is left is not part of what is averaged over: the region is dead there.
    dies = factor.detach() <= 0
    possible = ~dies.all(-1)
    # If not all masks are enumerated, something should be left.
    lost = (dies & (possible.unsqueeze(-1) | (shares.shape[2] > n)) & _matters(relevance).unsqueeze(2)).flatten(2)
    probability = probability * possible
    probability = probability / probability.sum(-1, keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)
    factor = _without_zeros(factor)
    # Relative to the total, both factors of the covariance are of the order of 1, however small the total is.
    parts = others / total.clamp_min(torch.finfo(shares.dtype).tiny).unsqueeze(2)  # (F, N, M, S)
    inverse = total.unsqueeze(2) / factor  # (F, N, k, S)
    weighted = inverse * probability.unsqueeze(-1)
    residual = (keep * dropout) * (parts.mT @ parts) * (weighted.mT @ inverse)
    return MaskAtoms(torch.log(factor), probability, residual, lost.any(-1))


def own_mask_atoms(shares: Tensor, rest: Tensor, relevance: Tensor, dropout: float) -> MaskAtoms:
    """Atoms of edge masks: of the n sums that matter most, the mask of the largest share is enumerated.

    Every sum has masks of its own. A sum is kept at ``r_1 + q (1 - r_1)`` or falls to ``q (1 - r_1)``; the other
    sums have the mean q and the relative variance ``(p / q) sum_k r_k^2``. Parameters are those of
    :func:`shared_mask_atoms`.
    """
    keep, odds = 1.0 - dropout, dropout / (1.0 - dropout)
    two = two_states(shares, rest, dropout)
    spread = odds * (shares * shares).sum(2)  # (F, N, S)
    chosen = (relevance * spread.detach()).topk(min(N_CONDITIONED, shares.shape[-1]), dim=-1).indices
    patterns, probability = keep_patterns(chosen.shape[-1], dropout, shares)
    kept, fallen = (state.gather(-1, chosen).unsqueeze(2) for state in (two.log_kept, two.log_fallen))
    values = torch.where(patterns > 0, kept, fallen)  # (F, N, k, n)
    log_factor = torch.full_like(spread, math.log(keep)).unsqueeze(2).expand(-1, -1, len(patterns), -1)
    index = chosen.unsqueeze(2).expand_as(values)
    residual = spread.scatter(-1, chosen, two.residual.gather(-1, chosen))
    lost = (two.dies & _matters(relevance)).any(-1)
    probability = probability.expand(*spread.shape[:2], len(patterns))
    return MaskAtoms(log_factor.scatter(-1, index, values), probability, residual, lost)


class TwoStates(NamedTuple):
    """A sum with its largest share kept or dropped, and the mean relative variance within the states: (F, N, S)."""

    log_kept: Tensor
    log_fallen: Tensor
    residual: Tensor
    dies: Tensor  # boolean: nothing is left of it


def two_states(shares: Tensor, rest: Tensor, dropout: float) -> TwoStates:
    """Log factors of each sum given the mask of its largest share."""
    keep, odds = 1.0 - dropout, dropout / (1.0 - dropout)
    best, place = shares.max(2, keepdim=True)
    others = shares.scatter(2, place, 0.0)
    total = others.sum(2) + rest
    relative = others / total.clamp_min(torch.finfo(shares.dtype).tiny).unsqueeze(2)
    squares = (relative * relative).sum(2)
    factor = _without_zeros(torch.stack([best.squeeze(2) + keep * total, keep * total], dim=2))  # (F, N, 2, S)
    kept, fallen = factor.unbind(2)
    inverse = total / kept
    residual = squares * (keep * keep * dropout * inverse * inverse + dropout * odds)
    return TwoStates(torch.log(kept), torch.log(fallen), residual, total.detach() <= 0)


def _matters(relevance: Tensor) -> Tensor:
    return relevance > NEGLIGIBLE


def _without_zeros(factor: Tensor) -> Tensor:
    """Factors (F, N, k, S) with zeros replaced by the smallest positive one of the same sum, or by 1 if none is.

    A sum that is dead in one atom only is taken as it is in the worst atom that it survives.
    """
    dead = factor <= 0
    smallest = factor.masked_fill(dead, math.inf).amin(2, keepdim=True)
    return torch.where(dead, torch.where(smallest == math.inf, 1.0, smallest), factor)
