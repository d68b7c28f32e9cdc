"""Points, roots of covariances and the root quadrature against sampling, in float64."""

from __future__ import annotations

import math

import pytest
import torch

from socratic.inference.dropout import Dropout
from socratic.inference.layered.log_moments.algebra import LogMoments
from socratic.inference.layered.log_moments.masks import (
    shared_mask_atoms,
    two_states,
)
from socratic.inference.layered.log_moments.root import own_mask_points, root_quadrature
from socratic.inference.layered.log_moments.sums import atom_moments
from socratic.inference.log_normal import log_covariance
from socratic.inference.points import common_first, covariance_root, uniform_points
from tests.inference.layered.log_moments.draws import P, Q, moments_of, normal


def test_common_direction_comes_first() -> None:
    rotation = common_first(5, torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(rotation @ rotation.mT, torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(rotation[0], torch.full((5,), 5**-0.5, dtype=torch.float64))


@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 1e4])
def test_root_of_a_covariance(rng: torch.Generator, scale: float) -> None:
    half = normal(rng, 3, 4, 2)  # of rank two
    covariance = (scale * half @ half.mT).requires_grad_()
    root = covariance_root(covariance)
    torch.testing.assert_close(root @ root.mT, covariance, atol=1e-9 * max(1.0, scale), rtol=1e-9)
    (root.sum() + (root * root).sum()).backward()
    assert covariance.grad is not None
    assert torch.isfinite(covariance.grad).all()


def test_points_are_even_fixed_and_mirrored() -> None:
    points = uniform_points(256, 30)
    assert torch.equal(points, uniform_points(256, 30))
    torch.testing.assert_close(points.mean(0), torch.full((30,), 0.5, dtype=torch.float64))
    torch.testing.assert_close(points[128:], 1.0 - points[:128])
    assert uniform_points(4, 30_000).shape == (4, 30_000)  # more dimensions than the sequence has


def roots_of(rng: torch.Generator, n_repetitions: int, n_classes: int) -> LogMoments:
    half = normal(rng, n_repetitions, 2, n_classes, n_classes)
    covariance = half @ half.mT + 9.0  # a common shift of three nats
    log_scale = torch.zeros(n_repetitions, 2, dtype=torch.float64)
    alive = torch.full_like(log_scale, 0.9)
    return LogMoments(
        normal(rng, n_repetitions, 2, n_classes), log_scale, covariance, None, None, alive, torch.zeros_like(alive)
    )


@pytest.mark.parametrize("masks", ["unit", "edge"])
@pytest.mark.parametrize("root_dropout", [False, True])
@pytest.mark.parametrize(("n_repetitions", "n_classes"), [(1, 2), (3, 4), (2, 1)])
def test_root_quadrature_agrees_with_sampling(
    rng: torch.Generator, n_repetitions: int, n_classes: int, root_dropout: bool, masks: str
) -> None:
    roots = roots_of(rng, n_repetitions, n_classes)
    assert roots.covariance is not None
    n = 40_000
    drawn = (
        roots.log_mean.unsqueeze(2)
        + normal(rng, n_repetitions, 2, n, n_classes) @ torch.linalg.cholesky(roots.covariance).mT
    )
    if root_dropout:
        terms = torch.softmax(3.0 * normal(rng, n_repetitions, 2, 3, n_classes), dim=2)
        roots = roots._replace(shares=terms, rest=torch.zeros_like(roots.log_mean))
        shape = (n_repetitions, 2, n, 3, 1 if masks == "unit" else n_classes)
        kept = (torch.rand(shape, generator=rng, dtype=torch.float64) < Q).double()
        # As in the quadrature, a root is not dead by its own masks.
        kept[..., 0, :] = torch.maximum(kept[..., 0, :], (kept.sum(-2) == 0).double())
        drawn = drawn + torch.log((kept * terms.unsqueeze(2)).sum(3))
    left = torch.rand(n_repetitions, 2, n, 1, generator=rng, dtype=torch.float64) < 0.9
    drawn = drawn.masked_fill(~left, -math.inf)
    log_prior = torch.log_softmax(normal(rng, n_classes), dim=0)
    share = torch.softmax(torch.logsumexp(drawn, 0) + log_prior, dim=-1)
    found = root_quadrature(roots, log_prior, Dropout(P, masks))
    tolerance = 0.03 if root_dropout else 0.015
    torch.testing.assert_close(found.mean, torch.nanmean(share, 1), atol=tolerance, rtol=0)
    second = torch.nanmean(share * share, 1) - torch.nanmean(share, 1) ** 2
    torch.testing.assert_close(found.std, second.clamp_min(0.0).sqrt(), atol=tolerance, rtol=0)
    dead = torch.full((2,), 0.1**n_repetitions, dtype=torch.float64)
    torch.testing.assert_close(found.dead, dead)


def test_points_of_own_masks_follow_their_probabilities(rng: torch.Generator) -> None:
    shares = torch.softmax(3.0 * normal(rng, 2, 3, 3, 4), dim=2)
    rest = torch.zeros(2, 3, 4, dtype=torch.float64)
    coin = uniform_points(4096, 8).view(4096, 4, 2).permute(2, 0, 1)
    for masks, atoms_of in (("unit", shared_mask_atoms), ("edge", None)):
        moved, residual = own_mask_points(shares, rest, coin, Dropout(P, masks))
        if atoms_of is not None:
            mean, covariance = moments_of(atoms_of(shares, rest, torch.ones_like(rest), P))
        else:
            two = two_states(shares, rest, P)
            gap = two.log_kept - two.log_fallen
            mean = two.log_kept - P * gap - 0.5 * two.residual
            covariance = torch.diag_embed(P * Q * gap * gap + two.residual)
        even = torch.full(moved.shape[:3], 1.0 / 4096, dtype=torch.float64)
        found, spread = atom_moments(moved, even)
        torch.testing.assert_close(found, mean, atol=0.01, rtol=0)
        torch.testing.assert_close(spread + residual, covariance, atol=0.05, rtol=0.02)


def test_log_covariance_keeps_correlations(rng: torch.Generator) -> None:
    half = normal(rng, 1, 2, 3, 3)
    relative = half @ half.mT
    found = log_covariance(relative)
    variance = relative.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(found.diagonal(dim1=-2, dim2=-1), torch.log1p(variance))
    assert bool((torch.linalg.eigvalsh(found) > 0).all())
    assert not log_covariance(torch.zeros_like(relative)).any()
