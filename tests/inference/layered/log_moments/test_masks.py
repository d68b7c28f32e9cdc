"""The masks of one region against enumeration, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from socratic.inference.layered.log_moments.masks import (
    N_CONDITIONED,
    N_SHARES,
    keep_patterns,
    own_mask_atoms,
    shared_mask_atoms,
    top_shares,
    two_states,
)
from socratic.inference.layered.log_moments.sums import atom_moments
from tests.inference.layered.log_moments.draws import P, Q, moments_of, normal, weights_of


def region(rng: torch.Generator, n_children: int, n_sums: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (1, S, K), values (1, 2, K) and all shares (1, 2, K, S) of one region and two rows."""
    weights = weights_of(rng, 1, n_sums, n_children)
    values = torch.exp(2.0 * normal(rng, 1, 2, n_children))
    terms = weights.mT.unsqueeze(1) * values.unsqueeze(-1)
    return weights, values, terms / terms.sum(2, keepdim=True)


def top_shares_of(weights: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    return top_shares(weights, [values], torch.bmm(values, weights.mT))


def enumerated(shares: Tensor, own: bool) -> tuple[Tensor, Tensor]:
    """Mean (F, N, S) and covariance of log X over all masks under which the sums are alive: shares (F, N, K, S)."""
    n_children, n_sums = shares.shape[2:]
    if own:
        means, variances = zip(*(enumerated(shares[..., [s]], own=False) for s in range(n_sums)), strict=True)
        return torch.cat(means, -1), torch.diag_embed(torch.cat(variances, -1).squeeze(-2))
    patterns, probability = keep_patterns(n_children, P, shares)
    patterns, probability = patterns[:-1], probability[:-1] / probability[:-1].sum()
    return atom_moments(torch.log(patterns @ shares), probability.expand(*shares.shape[:2], -1))


def test_patterns_are_those_of_independent_masks() -> None:
    patterns, probability = keep_patterns(3, P, torch.zeros(1, dtype=torch.float64))
    assert patterns.shape == (8, 3)
    assert patterns[0].tolist() == [1.0, 1.0, 1.0]
    torch.testing.assert_close(probability @ patterns, torch.full((3,), Q, dtype=torch.float64))
    assert probability.sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("n_children", [1, 5, N_SHARES, N_SHARES + 30])
def test_shares_and_the_rest_add_up_to_one(rng: torch.Generator, n_children: int) -> None:
    weights, values, expected = region(rng, n_children)
    shares, rest = top_shares_of(weights, values)
    torch.testing.assert_close(shares.sum(2) + rest, torch.ones_like(rest), atol=1e-12, rtol=0)
    best = expected.sum(-1).topk(min(n_children, N_SHARES), dim=-1).indices
    chosen = expected.gather(2, best.unsqueeze(-1).expand_as(shares))
    torch.testing.assert_close(shares.sort(2)[0], chosen.sort(2)[0])  # in no order
    if n_children <= N_SHARES:
        assert not rest.any()


def test_shares_of_pairs_are_those_of_their_products(rng: torch.Generator) -> None:
    weights = weights_of(rng, 2, 3, 35)
    left, right = torch.exp(2.0 * normal(rng, 2, 4, 5)), torch.exp(2.0 * normal(rng, 2, 4, 7))
    products = (left.unsqueeze(-1) * right.unsqueeze(-2)).flatten(-2)
    pairs = top_shares(weights, [left, right], torch.bmm(products, weights.mT))
    for found, expected in zip(pairs, top_shares_of(weights, products), strict=True):
        torch.testing.assert_close(found.sort(2)[0], expected.sort(2)[0])


def test_dead_sums_have_no_shares(rng: torch.Generator) -> None:
    weights, values, _ = region(rng, 5)
    shares, rest = top_shares_of(weights, torch.zeros_like(values))
    assert not shares.any()
    assert (rest == 1).all()
    for atoms_of in (shared_mask_atoms, own_mask_atoms):
        assert all(torch.isfinite(part).all() for part in atoms_of(shares, rest, torch.ones_like(rest), P))


@pytest.mark.parametrize("n_children", range(1, N_CONDITIONED + 1))
def test_masks_of_few_children_are_enumerated_exactly(rng: torch.Generator, n_children: int) -> None:
    weights, values, all_shares = region(rng, n_children)
    shares, rest = top_shares_of(weights, values)
    atoms = shared_mask_atoms(shares, rest, torch.ones_like(rest), P)
    torch.testing.assert_close(moments_of(atoms), enumerated(all_shares, own=False))
    assert float(atoms.residual.abs().max()) == 0.0


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("n_children", [6, 10])
def test_masks_of_many_children_are_close_to_enumeration(rng: torch.Generator, n_children: int, own: bool) -> None:
    weights, values, all_shares = region(rng, n_children)
    shares, rest = top_shares_of(weights, values)
    mean, covariance = enumerated(all_shares, own)
    if own:
        two = two_states(shares, rest, P)
        gap = two.log_kept - two.log_fallen
        found = two.log_kept - P * gap - 0.5 * two.residual
        spread = torch.diag_embed(P * Q * gap * gap + two.residual)
    else:
        found, spread = moments_of(shared_mask_atoms(shares, rest, torch.ones_like(rest), P))
    scale = covariance.diagonal(dim1=-2, dim2=-1).amax().sqrt()
    assert float((found - mean).abs().max()) < 0.1 * float(scale)
    assert float((spread - covariance).abs().max()) < 0.4 * float(scale) ** 2


@pytest.mark.parametrize("atoms_of", [shared_mask_atoms, own_mask_atoms])
def test_atoms_keep_the_mean_and_second_moment_of_the_values(rng: torch.Generator, atoms_of: object) -> None:
    """E[X] = q, and E[X_s X_t] as by the formula of sums, whatever is conditioned on."""
    weights, values, all_shares = region(rng, 8, n_sums=4)
    shares, rest = top_shares_of(weights, values)
    log_factor, probability, residual, _ = atoms_of(shares, rest, torch.ones_like(rest), 0.05)  # type: ignore[operator]
    factor = torch.exp(log_factor)
    mean = (probability.unsqueeze(-1) * factor).sum(2)
    torch.testing.assert_close(mean, torch.full_like(mean, 0.95), atol=1e-3, rtol=0)
    between = (factor.mT @ (probability.unsqueeze(-1) * factor)) - mean.unsqueeze(-1) * mean.unsqueeze(-2)
    matrix = residual if residual.ndim == 4 else torch.diag_embed(residual)
    exact = 0.05 * 0.95 * (all_shares.mT @ all_shares)
    if atoms_of is own_mask_atoms:
        exact = torch.diag_embed(exact.diagonal(dim1=-2, dim2=-1))
    assert float((between + matrix - exact).abs().max()) < 0.2 * float(exact.max())


def test_relevance_decides_which_masks_are_enumerated(rng: torch.Generator) -> None:
    """Five sums, each with a child of its own that holds nearly everything."""
    shares = (0.99 * torch.eye(5, dtype=torch.float64) + 0.002).view(1, 1, 5, 5)
    rest = torch.zeros(1, 1, 5, dtype=torch.float64)
    relevance = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0], dtype=torch.float64).view(1, 1, 5)
    for atoms_of in (shared_mask_atoms, own_mask_atoms):
        log_factor = atoms_of(shares, rest, relevance, P).log_factor[0, 0]
        depth = log_factor.amax(0) - log_factor.amin(0)
        assert (depth > 2.0).tolist() == [False, True, False, True, True]


@pytest.mark.parametrize("atoms_of", [shared_mask_atoms, own_mask_atoms])
def test_rows_in_which_a_sum_is_lost_are_told(atoms_of: object) -> None:
    """The second sum has one child alone, in the second row; it is lost with that, unless it does not matter."""
    shares = torch.full((1, 2, 5, 2), 0.2, dtype=torch.float64)
    shares[0, 1, :, 1] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])
    rest = torch.zeros(1, 2, 2, dtype=torch.float64)
    for relevance, expected in ((torch.ones_like(rest), True), (torch.tensor([1.0, 0.0]).expand(1, 2, 2), False)):
        found = atoms_of(shares, rest, relevance.double(), P)  # type: ignore[operator]
        assert found.lost.tolist() == [[False, expected]]
        assert all(torch.isfinite(part).all() for part in found[:3])


def test_what_underflows_is_told() -> None:
    """Five children, of which four are too small for a number."""
    shares = torch.zeros(1, 1, 5, 2)
    shares[:, :, 0] = 1.0
    assert shared_mask_atoms(shares, torch.zeros(1, 1, 2), torch.ones(1, 1, 2), P).lost.all()
    assert not shared_mask_atoms(shares[:, :, :3], torch.zeros(1, 1, 2), torch.ones(1, 1, 2), P).lost.any()
