"""The class posterior from the log-moments of the class roots, by quadrature."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.inference.dropout import Dropout
from socratic.inference.layered.log_moments.algebra import LogMoments
from socratic.inference.layered.log_moments.blocks import cut
from socratic.inference.layered.log_moments.masks import own_mask_atoms, shared_mask_atoms, two_states
from socratic.inference.layered.log_moments.sums import positive
from socratic.inference.points import covariance_root, uniform_points
from socratic.inference.posterior import Posterior, entropy
from socratic.memory import points_at_a_time
from socratic.numerics import finite_or_zero, sqrt_or_zero

N_POINTS = 256
"""Points of the quadrature over the class roots, half of them mirror images of the others."""


def root_quadrature(roots: LogMoments, log_prior: Tensor, dropout: Dropout) -> Posterior:
    """Posterior from the log-likelihoods of the repetitions; see :func:`quadrature`. Some rows at a time."""
    n_repetitions, n_rows, n_classes = roots.log_mean.shape
    size = points_at_a_time(N_POINTS * n_repetitions * n_classes, roots.log_mean.device)
    blocks = [slice(first, first + size) for first in range(0, max(n_rows, 1), size)]
    return Posterior.concatenate([quadrature(cut(roots, slice(None), rows), log_prior, dropout) for rows in blocks])


def quadrature(roots: LogMoments, log_prior: Tensor, dropout: Dropout) -> Posterior:
    """Posterior from the log-likelihoods of the repetitions, which are independent.

    In repetition r ``(log S_rc)_c ~ N(mu_r, V_r)``, moved by the atoms of the roots' own masks if they have any, and
    a repetition is left with its probability of being alive. The mean of
    ``f = softmax_c(log prior_c + logsumexp_r log S_rc)`` and the like are taken over fixed points.

    Parameters
    ----------
    roots : LogMoments
        Of R folds, the repetitions.
    log_prior : (C,)
    dropout : Dropout
        The class roots' own masks.
    """
    n_repetitions, _, n_classes = roots.log_mean.shape
    like = roots.log_mean
    cube = uniform_points(N_POINTS, n_repetitions * (2 * n_classes + 1)).to(like.device)
    # The first dimensions of the sequence, the most even ones, go to the common shifts of the repetitions.
    cube = cube.view(N_POINTS, 2 * n_classes + 1, n_repetitions).permute(2, 0, 1)  # (R, P, 2 C + 1)
    normal, coin = torch.special.ndtri(cube[..., :n_classes]).to(like), cube[..., n_classes:].to(like)
    log_scale = (roots.log_scale - roots.log_scale.amax(0, keepdim=True)).to(like)
    covariance, log_values = roots.covariance, (roots.log_mean + log_scale.unsqueeze(-1)).unsqueeze(2)  # (R, N, 1, C)
    if roots.shares is not None and roots.rest is not None:
        moved, residual = own_mask_points(roots.shares, roots.rest, coin[..., 1:], dropout)
        log_values = log_values + moved
        covariance = residual if covariance is None else covariance + residual
    if covariance is not None:
        log_values = log_values + normal.unsqueeze(1) @ covariance_root(covariance).to(like).mT  # (R, N, P, C)
    left = coin[..., 0].unsqueeze(1) <= roots.alive.unsqueeze(-1)  # (R, N, P)
    log_values = log_values.masked_fill(~left.unsqueeze(-1), -torch.inf)
    top = finite_or_zero(log_values.detach().amax(0).amax(-1))  # (N, P); both at once take nine times as long
    joint = torch.exp(log_values - top.unsqueeze(-1)).sum(0) * torch.exp(log_prior).to(like)  # (N, P, C)
    total = joint.sum(-1, keepdim=True)
    alive = total.detach().squeeze(-1) > 0
    log_density = torch.log(positive(total)).squeeze(-1) + top
    return _summarise(joint / positive(total), log_density, alive, (1.0 - roots.alive).prod(0), log_prior)


def own_mask_points(shares: Tensor, rest: Tensor, coin: Tensor, dropout: Dropout) -> tuple[Tensor, Tensor]:
    """Log factors (R, N, P, C) of the roots' own masks at points, and the covariance (R, N, C, C) left to a Gaussian.

    Parameters
    ----------
    shares, rest : (R, N, M, C), (R, N, C)
        See :func:`~socratic.inference.layered.log_moments.masks.top_shares`.
    coin : (R, P, C)
        Uniform points that choose the atoms: one for the whole repetition, or one for each class.
    """
    if not dropout.shared:
        two = two_states(shares, rest, dropout.rate)
        fallen = coin.unsqueeze(1) < dropout.rate
        moved = torch.where(fallen, two.log_fallen.unsqueeze(2), two.log_kept.unsqueeze(2))
        return moved - 0.5 * two.residual.unsqueeze(2), torch.diag_embed(two.residual)
    atoms = shared_mask_atoms(shares, rest, torch.ones_like(rest), dropout.rate)
    bounds = atoms.probability.cumsum(-1)[..., :-1]  # (R, N, k - 1)
    place = (coin[..., 0].view(len(coin), 1, -1, 1) > bounds.unsqueeze(2)).sum(-1)  # (R, N, P)
    index = place.unsqueeze(-1).expand(*place.shape, shares.shape[-1])
    variance = atoms.residual.diagonal(dim1=-2, dim2=-1)
    return atoms.log_factor.gather(2, index) - 0.5 * variance.unsqueeze(2), atoms.residual


def roots_lost(roots: LogMoments, dropout: Dropout) -> Tensor:
    """Whether a class root dies by its own masks, in a way that is not followed: (N,)."""
    if roots.shares is None or roots.rest is None:
        return torch.zeros_like(roots.alive[0], dtype=torch.bool)
    atoms_of = shared_mask_atoms if dropout.shared else own_mask_atoms
    return atoms_of(roots.shares, roots.rest, torch.ones_like(roots.rest), dropout.rate).lost.any(0)


def _summarise(share: Tensor, log_density: Tensor, alive: Tensor, dead: Tensor, log_prior: Tensor) -> Posterior:
    """Moments of posteriors (N, P, C) and log-densities (N, P) over the points (N, P) in which a class is alive."""
    count = alive.sum(-1, keepdim=True).to(share.dtype)  # (N, 1)
    weight = (alive / count.clamp_min(1.0)).unsqueeze(-1)
    mean = (weight * share).sum(1)
    centred = share - mean.unsqueeze(1)
    std = sqrt_or_zero((weight * centred * centred).sum(1))
    weight = weight.squeeze(-1)
    within = (weight * entropy(share)).sum(1)
    moved = log_density - (weight * log_density).sum(1, keepdim=True)
    spread = sqrt_or_zero((weight * moved * moved).sum(1))
    return Posterior.of_masks(mean, std, within, alive.any(-1), dead, log_prior, "log-moments", spread)
