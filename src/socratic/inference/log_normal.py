"""The class posterior of likelihoods that are log-normal together: what moments are turned into by quadrature."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from socratic.inference.points import covariance_root, uniform_points
from socratic.inference.posterior import Posterior, entropy
from socratic.memory import points_at_a_time
from socratic.numerics import logsumexp_or_dead, scale_dtype, sqrt_or_zero
from socratic.tracing import is_exporting

N_POINTS = 256
"""Points of the quadrature, half of them mirror images of the others."""

_LEAST = 1e-30
"""Variances below this are none. Float32 holds it, in which ONNX files keep such numbers."""


def log_normal_posterior(log_mean: Tensor, covariance: Tensor, log_prior: Tensor, method: str) -> Posterior:
    """The posterior if the logarithms of the class likelihoods are Gaussian.

    Parameters
    ----------
    log_mean : (N, C)
        Logarithms of the mean likelihoods, minus infinity for a dead class.
    covariance : (N, C, C)
        Covariance of the logarithms of the likelihoods.
    log_prior : (C,)
    method : str
        What the result is called.
    """
    wide = scale_dtype(log_mean)
    log_mean, covariance = log_mean.to(wide), covariance.to(wide)
    if is_exporting():
        return _quadrature(log_mean, covariance, log_prior, method)
    size = points_at_a_time(N_POINTS * log_mean.shape[1], log_mean.device)
    parts = [
        _quadrature(log_mean[first : first + size], covariance[first : first + size], log_prior, method)
        for first in range(0, max(len(log_mean), 1), size)
    ]
    return Posterior.concatenate(parts)


@lru_cache(maxsize=8)
def normal_points(n_classes: int) -> tuple[Tensor, Tensor]:
    """Points (P, C) of a standard normal distribution, in float64, and which move each takes (P,), of 2 C."""
    towards = torch.randperm(N_POINTS, generator=torch.Generator().manual_seed(0)) % (2 * n_classes)
    return torch.special.ndtri(uniform_points(N_POINTS, n_classes)), towards


def _quadrature(log_mean: Tensor, covariance: Tensor, log_prior: Tensor, method: str) -> Posterior:
    """:func:`log_normal_posterior` of some rows."""
    dead = log_mean == -torch.inf
    alive = ~dead.all(-1)
    covariance = covariance.masked_fill(dead.unsqueeze(-1) | dead.unsqueeze(-2), 0.0)
    mean_joint = log_mean + log_prior.to(log_mean)
    change, weight = _points(mean_joint, covariance)
    # Relative to the likeliest class: beside log-likelihoods far from the data the changes would be lost.
    relative = mean_joint - torch.where(alive, mean_joint.detach().amax(-1), 0.0).unsqueeze(-1)
    log_joint = torch.where(alive[:, None, None], relative.unsqueeze(1) + change, 0.0)
    share = torch.softmax(log_joint, dim=-1)  # (N, P, C)
    mean = (weight * share).sum(1)
    std = sqrt_or_zero((weight * (share - mean.unsqueeze(1)) ** 2).sum(1))
    within = (weight.squeeze(-1) * entropy(share)).sum(1)
    log_density = logsumexp_or_dead(log_joint, dim=-1)
    centred = log_density - (weight * log_density).sum(1, keepdim=True)
    spread = sqrt_or_zero((weight * centred * centred).sum((1, 2)))
    return Posterior.of_masks(mean, std, within, alive, (~alive).to(mean), log_prior, method, spread)


def _points(log_joint: Tensor, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Changes (N, P, C) of log-likelihoods relative to their means at fixed points, and the points' weights (N, P, 1).

    A class that is unlikely, but whose likelihood varies by many nats, is probable at few points, and those hold all
    that it adds to the posterior. So half of the points are left where they are, and some are moved towards each class
    c: by its covariances with the difference to the best class b, as far as where both are equally likely. That is the
    Gaussian times (S_c / S_b)^t, normalised; weights undo the moves (importance sampling from the mixture).

    Parameters
    ----------
    log_joint : (N, C)
        Logarithms of the mean likelihoods times the prior.
    covariance : (N, C, C)
        Covariance of the logarithms of the likelihoods.
    """
    n_classes = log_joint.shape[1]
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    typical = log_joint - 0.5 * variance
    top, best = typical.detach().max(-1, keepdim=True)
    of_best = covariance.gather(1, best.unsqueeze(-1).expand(-1, 1, n_classes)).squeeze(1)  # (N, C)
    variance_of_best = variance.gather(1, best)
    of_difference = variance - 2.0 * of_best + variance_of_best
    gap = (top - typical.detach()).nan_to_num(0.0, posinf=0.0)  # there is no way to a class that is dead
    how_far = (gap / of_difference.detach().clamp_min(_LEAST)).clamp(0.0, 1.0)  # t

    normal, towards = normal_points(n_classes)
    normal = normal.to(covariance)
    moves = how_far.unsqueeze(-1) * (covariance - of_best.unsqueeze(1))  # (N, C, C): a row for each class
    moved = (towards < n_classes).to(moves).unsqueeze(-1) * moves[:, towards % n_classes]
    change = normal @ covariance_root(covariance).mT - 0.5 * variance.unsqueeze(1) + moved

    difference = change - change.gather(2, best.unsqueeze(1).expand(-1, N_POINTS, 1))
    norm = 0.5 * how_far * (variance_of_best - variance + how_far * of_difference)
    moves_back = how_far.unsqueeze(1) * difference - norm.unsqueeze(1)
    towards_classes = logsumexp_or_dead(moves_back, dim=-1).squeeze(-1) - math.log(n_classes)
    # Not logaddexp, which ONNX would take apart into exponentials that overflow.
    either = towards_classes.clamp_min(0.0) + torch.log1p(torch.exp(-towards_classes.abs()))
    weight = torch.softmax(-either, dim=1)
    return change, weight.unsqueeze(-1)


def leaf_log_covariance(relative: Tensor | None) -> Tensor | None:
    """Variances (F, N, I) or covariances (F, N, I, I) of the logarithms of uncertain leaves; None if they are certain.

    Parameters
    ----------
    relative : Tensor (F, I, N) or (F, N, I, I), optional
        Relative variances, or covariances.
    """
    if relative is None:
        return None
    return torch.log1p(relative).mT if relative.ndim == 3 else log_covariance(relative)


def log_covariance(relative: Tensor) -> Tensor:
    """Covariance (..., C, C) of logarithms from a relative covariance.

    Variances become log(1 + R), as for log-normal values; correlations are kept, and are at most 1 even where
    variances were cut off.
    """
    variance = relative.diagonal(dim1=-2, dim2=-1)
    ratio = torch.where(variance > 0, torch.log1p(variance) / torch.where(variance > 0, variance, 1.0), 1.0).sqrt()
    deviation = sqrt_or_zero(torch.log1p(variance))
    most = deviation.unsqueeze(-1) * deviation.unsqueeze(-2)
    found = relative * ratio.unsqueeze(-1) * ratio.unsqueeze(-2)
    return torch.minimum(torch.maximum(found, -most), most)
