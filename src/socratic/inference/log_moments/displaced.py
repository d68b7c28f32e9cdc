"""Sharp circuits: the covariances of the children pass through a layer by points, not by an expansion.

Where the children move against each other by nats, another child takes over, and an expansion at the mean misses it.
The log-sums h are then evaluated at fixed points d of the children's Gaussians. Shares rho averaged over the points
are the regression of h on d (Stein's lemma: Cov[h, d] = E[rho] V), so with the remainder ``e = h - E[h] - rho d``

    covariance  rho V rho' + E[e e']
    mean        E[h] - h(0)

is positive semi-definite, and exact where h is linear, however few the points are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.inference.log_moments.points import covariance_root, uniform_points
from socratic.inference.log_moments.sums import (
    Children,
    LogSums,
    contract_right,
    exp_of_atoms,
    positive,
    quadratic,
)

N_DISPLACED = 32
"""Points of the Gaussians of a layer's children, half of them mirror images of the others."""


def displacements(covariance: Tensor, normal: Tensor) -> Tensor:
    """Points (F, N, P, A) of a Gaussian with this covariance, from standard normal ones (P, A)."""
    if covariance.ndim == 3:
        return normal * covariance.clamp_min(torch.finfo(covariance.dtype).tiny).sqrt().unsqueeze(2)
    return normal @ covariance_root(covariance).to(covariance.dtype).mT


def displaced_sums(weights: Tensor, sums: LogSums, children: list[Children], centres: list[Tensor]) -> LogSums:
    """Add what the covariances of the children do to log-sums at their atoms.

    Parameters
    ----------
    weights : (F, S, K)
    sums : LogSums
        At the atoms alone.
    children : list of Children
        The left and right nodes of sums over all pairs, or the K children.
    centres : list of (F, N, A)
        Their mean log-values.
    """
    widths = [centre.shape[-1] for centre in centres]
    uniform = uniform_points(N_DISPLACED, sum(widths))
    normal = torch.special.ndtri(uniform)
    normal = (normal / normal.square().mean(0).sqrt()).to(weights)
    moved: list[Tensor | None] = []
    points = [centre.unsqueeze(2) for centre in centres]
    for place, (side, part) in enumerate(zip(children, normal.split(widths, dim=1), strict=True)):
        moved.append(None if side.covariance is None else displacements(side.covariance, part))
        points[place] = points[place] + (torch.zeros_like(part) if moved[-1] is None else moved[-1])
    at_points, shares = log_sums_and_shares(weights, points)
    at_centre, _ = log_sums_and_shares(weights, [centre.unsqueeze(2) for centre in centres])
    mean = at_points.mean(2)
    remainder = at_points - mean.unsqueeze(2)
    covariance = sums.covariance
    for side, step, rho in zip(children, moved, shares, strict=True):
        if side.covariance is not None and step is not None:
            passed = quadratic(rho, side.covariance)
            covariance = passed if covariance is None else covariance + passed
            remainder = remainder - step @ rho.mT
    bent = remainder.mT @ remainder / N_DISPLACED
    covariance = bent if covariance is None else covariance + bent
    return sums._replace(mean=sums.mean + mean - at_centre.squeeze(2), covariance=covariance)


def log_sums_and_shares(weights: Tensor, points: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Log-sums (F, N, P, S) at points of the children's log-values, and shares (F, N, S, A) averaged over them."""
    values, shifts = zip(*(exp_of_atoms(part) for part in points), strict=True)
    if len(points) == 1:
        sums = positive(values[0] @ weights.unsqueeze(1).mT)
        shares = [(1.0 / sums).mT @ values[0] * weights.unsqueeze(1) / sums.shape[2]]
        return torch.log(sums) + shifts[0], shares
    a, b = values
    by_left = contract_right(weights, a.shape[-1], b)  # (F, N, P, S, A)
    sums = positive((by_left @ a.unsqueeze(-1)).squeeze(-1))
    mirrored = weights.unflatten(2, (a.shape[-1], b.shape[-1])).mT.flatten(2)
    by_right = contract_right(mirrored, b.shape[-1], a)
    inverse = (1.0 / sums).unsqueeze(-1)
    shares = [(by_left * a.unsqueeze(3) * inverse).mean(2), (by_right * b.unsqueeze(3) * inverse).mean(2)]
    return torch.log(sums) + shifts[0] + shifts[1], shares
