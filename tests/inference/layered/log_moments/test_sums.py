"""Layers against loops and sampling, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from socratic.inference.layered.log_moments.masks import MaskAtoms
from socratic.inference.layered.log_moments.sums import (
    Moved,
    add_moved,
    atom_moments,
    by_atoms,
    by_expansion,
    pair_shares,
    single_shares,
)
from tests.inference.layered.log_moments.draws import normal, weights_of

N_DRAWS = 100_000


def shares_of(rng: torch.Generator, n_sums: int, n_children: int) -> Tensor:
    """Shares (1, 2, S, A) of children in sums."""
    return torch.softmax(normal(rng, 1, 2, n_sums, n_children), dim=-1)


def covariance_of(rng: torch.Generator, n_children: int, spread: float) -> Tensor:
    half = spread * normal(rng, 1, 2, n_children, n_children)
    return half @ half.mT


def moments_of_draws(shares: Tensor, log_factors: Tensor) -> tuple[Tensor, Tensor]:
    """Of log(sum_a rho_sa g_a), by draws (1, 2, n, A) of log g."""
    changed = torch.log(torch.exp(log_factors) @ shares.mT)
    n = log_factors.shape[2]
    return atom_moments(changed, torch.full((1, 2, n), 1.0 / n, dtype=torch.float64))


def test_shares_of_single_children_add_up_to_one(rng: torch.Generator) -> None:
    weights, values = weights_of(rng, 2, 3, 7), torch.exp(normal(rng, 2, 5, 7))
    shares, sums = single_shares(weights, values)
    torch.testing.assert_close(shares.sum(-1), torch.ones_like(sums))
    torch.testing.assert_close(sums, torch.bmm(values, weights.mT))
    torch.testing.assert_close(shares[1, 2, 0], weights[1, 0] * values[1, 2] / sums[1, 2, 0])


def test_shares_of_pairs_are_marginals(rng: torch.Generator) -> None:
    weights = weights_of(rng, 2, 3, 20)
    left, right = torch.exp(normal(rng, 2, 5, 4)), torch.exp(normal(rng, 2, 5, 5))
    of_left, of_right, sums = pair_shares(weights, left, right)
    both, expected_sums = single_shares(weights, (left.unsqueeze(-1) * right.unsqueeze(-2)).flatten(-2))
    grid = both.unflatten(-1, (4, 5))
    torch.testing.assert_close(sums, expected_sums)
    torch.testing.assert_close(of_left, grid.sum(-1))
    torch.testing.assert_close(of_right, grid.sum(-2))


def test_dead_sums_have_no_shares(rng: torch.Generator) -> None:
    weights, dead = weights_of(rng, 1, 3, 20), torch.zeros(1, 2, 4, dtype=torch.float64)
    for part in pair_shares(weights, dead, torch.ones(1, 2, 5, dtype=torch.float64)):
        assert not part.any()


def test_atoms_equal_a_loop_over_them(rng: torch.Generator) -> None:
    shares = shares_of(rng, 3, 4)
    probability = torch.softmax(normal(rng, 1, 2, 5), dim=-1)
    still, lost = torch.zeros(1, 2, 4, dtype=torch.float64), torch.tensor([[False, True]])
    atoms = MaskAtoms(2.0 * normal(rng, 1, 2, 5, 4), probability, still, lost)
    found = by_atoms(shares, atoms)
    assert found.curvature.isinf().all(-1).tolist() == lost.tolist()
    own = torch.eye(4, dtype=torch.float64).expand(1, 2, 4, 4)  # sums of one child each fall apart
    assert by_atoms(own, atoms._replace(log_factor=50.0 * atoms.log_factor)).curvature.isinf().any(-1).all()
    for row in range(2):
        values = torch.stack([torch.log(shares[0, row] @ torch.exp(atoms.log_factor[0, row, k])) for k in range(5)])
        mean = probability[0, row] @ values
        torch.testing.assert_close(found.mean[0, row], mean)
        centred = values - mean
        torch.testing.assert_close(found.covariance[0, row], centred.T @ torch.diag(probability[0, row]) @ centred)


@pytest.mark.parametrize("as_variances", [True, False])
def test_gaussian_logarithms_agree_with_sampling(rng: torch.Generator, as_variances: bool) -> None:
    shares, covariance = shares_of(rng, 3, 4), covariance_of(rng, 4, 0.2)
    if as_variances:
        covariance = covariance.diagonal(dim1=-2, dim2=-1)
    found = by_expansion(shares, covariance, None)
    assert found is not None
    root = torch.diag_embed(covariance.sqrt()) if as_variances else torch.linalg.cholesky(covariance)
    mean, spread = moments_of_draws(shares, normal(rng, 1, 2, N_DRAWS, 4) @ root.mT)
    assert float((found.mean - mean).abs().max()) < 0.01
    assert float((found.covariance - spread).abs().max()) < 0.1 * float(spread.max())
    assert bool((found.curvature > 0).all())


def test_residuals_keep_the_mean_of_the_values(rng: torch.Generator) -> None:
    shares, variance = shares_of(rng, 3, 4), torch.full((1, 2, 4), 0.04, dtype=torch.float64)
    factors = torch.log(1.0 + 0.2 * torch.sign(normal(rng, 1, 2, N_DRAWS, 4)))
    mean, spread = moments_of_draws(shares, factors)
    for residual in (variance, torch.diag_embed(variance)):
        found = by_expansion(shares, None, residual)
        assert found is not None
        torch.testing.assert_close(found.mean, mean, atol=0.003, rtol=0)
        torch.testing.assert_close(found.covariance, spread, atol=0.003, rtol=0)


def test_covariances_and_residuals_move_together(rng: torch.Generator) -> None:
    """A matrix from below and variances of the values, as under edge masks."""
    shares, covariance = shares_of(rng, 3, 4), covariance_of(rng, 4, 0.2)
    residual = torch.full((1, 2, 4), 0.03, dtype=torch.float64)
    found = by_expansion(shares, covariance, residual)
    alone = [by_expansion(shares, covariance, None), by_expansion(shares, None, residual)]
    both = add_moved([part for part in alone if part is not None])
    assert found is not None
    assert both is not None
    for name in Moved._fields:
        torch.testing.assert_close(getattr(found, name), getattr(both, name))


def test_nothing_moves_without_covariances(rng: torch.Generator) -> None:
    assert by_expansion(shares_of(rng, 3, 4), None, None) is None
    assert add_moved([]) is None


def test_a_single_child_passes_as_it_is(rng: torch.Generator) -> None:
    """With a single child the logarithm of a sum is linear in that of the child."""
    shares = torch.ones(1, 2, 3, 1, dtype=torch.float64)
    found = by_expansion(shares, torch.full((1, 2, 1, 1), 4.0, dtype=torch.float64), None)
    assert found is not None
    torch.testing.assert_close(found.mean, torch.zeros(1, 2, 3, dtype=torch.float64))
    torch.testing.assert_close(found.covariance, torch.full((1, 2, 3, 3), 4.0, dtype=torch.float64))
    assert not found.curvature.any()
