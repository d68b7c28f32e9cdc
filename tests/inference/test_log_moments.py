"""Each step of log-moment propagation against enumeration or sampling of that step, in float64."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from socratic.inference.log_moments.algebra import LogMoments, log_covariance
from socratic.inference.log_moments.displaced import N_DISPLACED, displaced_sums, displacements
from socratic.inference.log_moments.masks import (
    N_CONDITIONED,
    N_SHARES,
    MaskAtoms,
    keep_patterns,
    own_mask_atoms,
    shared_mask_atoms,
    top_shares,
    two_states,
)
from socratic.inference.log_moments.points import common_first, covariance_root, uniform_points
from socratic.inference.log_moments.root import own_mask_points, root_quadrature
from socratic.inference.log_moments.sums import Children, Shares, atom_pair_sums, atom_sums, left_shares
from socratic.inference.log_moments.sums import atom_moments as moments_or_none

P = 0.2
Q = 1.0 - P


def atom_moments(log_values: Tensor, probability: Tensor) -> tuple[Tensor, Tensor]:
    mean, covariance = moments_or_none(log_values, probability)
    return mean, torch.zeros_like(mean.unsqueeze(-1) * mean.unsqueeze(-2)) if covariance is None else covariance


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def weights_of(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.softmax(2.0 * normal(rng, *shape), dim=-1)


def region(rng: torch.Generator, n_children: int, n_sums: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (1, S, K), values (1, 2, K) and all shares (1, 2, K, S) of one region and two rows."""
    weights = weights_of(rng, 1, n_sums, n_children)
    values = torch.exp(2.0 * normal(rng, 1, 2, n_children))
    terms = weights.mT.unsqueeze(1) * values.unsqueeze(-1)
    return weights, values, terms / terms.sum(2, keepdim=True)


def enumerated(shares: Tensor, own: bool) -> tuple[Tensor, Tensor]:
    """Mean (F, N, S) and covariance of log X over all masks under which the sums are alive: shares (F, N, K, S)."""
    n_children, n_sums = shares.shape[2:]
    if own:
        means, variances = zip(*(enumerated(shares[..., [s]], own=False) for s in range(n_sums)), strict=True)
        return torch.cat(means, -1), torch.diag_embed(torch.cat(variances, -1).squeeze(-2))
    patterns, probability = keep_patterns(n_children, P, shares)
    patterns, probability = patterns[:-1], probability[:-1] / probability[:-1].sum()
    return atom_moments(torch.log(patterns @ shares), probability.expand(*shares.shape[:2], -1))


def moments_of(atoms: MaskAtoms) -> tuple[Tensor, Tensor]:
    mean, covariance = atom_moments(atoms.log_factor, atoms.probability)
    residual = atoms.residual if atoms.residual.ndim == 4 else torch.diag_embed(atoms.residual)
    return mean - 0.5 * residual.diagonal(dim1=-2, dim2=-1), covariance + residual


def test_patterns_are_those_of_independent_masks() -> None:
    patterns, probability = keep_patterns(3, P, torch.zeros(1, dtype=torch.float64))
    assert patterns.shape == (8, 3)
    assert patterns[0].tolist() == [1.0, 1.0, 1.0]
    torch.testing.assert_close(probability @ patterns, torch.full((3,), Q, dtype=torch.float64))
    assert probability.sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("n_children", [1, 5, N_SHARES, N_SHARES + 30])
def test_shares_and_the_rest_add_up_to_one(rng: torch.Generator, n_children: int) -> None:
    weights, values, expected = region(rng, n_children)
    shares, rest = top_shares(weights, values)
    torch.testing.assert_close(shares.sum(2) + rest, torch.ones_like(rest), atol=1e-12, rtol=0)
    best = expected.sum(-1).topk(min(n_children, N_SHARES), dim=-1).indices
    torch.testing.assert_close(shares, expected.gather(2, best.unsqueeze(-1).expand_as(shares)))
    if n_children <= N_SHARES:
        assert not rest.any()


def test_dead_sums_have_no_shares(rng: torch.Generator) -> None:
    weights, values, _ = region(rng, 5)
    shares, rest = top_shares(weights, torch.zeros_like(values))
    assert not shares.any()
    assert (rest == 1).all()
    for atoms_of in (shared_mask_atoms, own_mask_atoms):
        assert all(torch.isfinite(part).all() for part in atoms_of(shares, rest, torch.ones_like(rest), P))


@pytest.mark.parametrize("n_children", range(1, N_CONDITIONED + 1))
def test_masks_of_few_children_are_enumerated_exactly(rng: torch.Generator, n_children: int) -> None:
    weights, values, all_shares = region(rng, n_children)
    shares, rest = top_shares(weights, values)
    atoms = shared_mask_atoms(shares, rest, torch.ones_like(rest), P)
    torch.testing.assert_close(moments_of(atoms), enumerated(all_shares, own=False))
    assert float(atoms.residual.abs().max()) == 0.0


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("n_children", [6, 10])
def test_masks_of_many_children_are_close_to_enumeration(rng: torch.Generator, n_children: int, own: bool) -> None:
    weights, values, all_shares = region(rng, n_children)
    shares, rest = top_shares(weights, values)
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
    shares, rest = top_shares(weights, values)
    log_factor, probability, residual = atoms_of(shares, rest, torch.ones_like(rest), 0.05)  # type: ignore[operator]
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


def children_of(rng: torch.Generator, n_atoms: int, n_nodes: int, spread: float = 0.0) -> Children:
    probability = torch.softmax(normal(rng, 1, 2, n_atoms), dim=-1)
    covariance = None
    if spread > 0:
        half = spread * normal(rng, 1, 2, n_nodes, n_nodes)
        covariance = half @ half.mT
    return Children(2.0 * normal(rng, 1, 2, n_atoms, n_nodes), probability, None, covariance)


def centre_of(children: Children) -> Tensor:
    return torch.exp((children.probability.unsqueeze(-1) * children.atoms).sum(2))


def rho_of(weights: Tensor, children: Children) -> Shares:
    return lambda: left_shares(weights, centre_of(children), None)


def rhos_of(weights: Tensor, left: Children, right: Children) -> tuple[Shares, Shares]:
    a, b = centre_of(left), centre_of(right)
    mirrored = weights.unflatten(2, (a.shape[-1], b.shape[-1])).mT.flatten(2)
    return lambda: left_shares(weights, a, b), lambda: left_shares(mirrored, b, a)


def test_atom_pairs_equal_a_loop_over_them(rng: torch.Generator) -> None:
    left, right = children_of(rng, 3, 4), children_of(rng, 2, 5)
    weights = weights_of(rng, 1, 6, 20)
    found = atom_pair_sums(weights, left, right, rhos_of(weights, left, right))
    values, probabilities = [], []
    for i, j in itertools.product(range(3), range(2)):
        products = (left.atoms[:, :, i, :, None] + right.atoms[:, :, j, None, :]).flatten(-2)
        values.append(torch.logsumexp(torch.log(weights).unsqueeze(1) + products.unsqueeze(2), dim=-1))
        probabilities.append(left.probability[:, :, i] * right.probability[:, :, j])
    mean, covariance = atom_moments(torch.stack(values, 2), torch.stack(probabilities, 2))
    torch.testing.assert_close(found.mean, mean)
    torch.testing.assert_close(found.covariance, covariance)
    assert not found.dead.any()


def test_atoms_of_element_wise_products_equal_a_loop_over_them(rng: torch.Generator) -> None:
    left, right = children_of(rng, 3, 4), children_of(rng, 2, 4)
    weights = weights_of(rng, 1, 6, 4)
    found = atom_sums(weights, left.times(right), rho_of(weights, left.times(right)))
    values, probabilities = [], []
    for i, j in itertools.product(range(3), range(2)):
        products = left.atoms[:, :, i] + right.atoms[:, :, j]
        values.append(torch.logsumexp(torch.log(weights).unsqueeze(1) + products.unsqueeze(2), dim=-1))
        probabilities.append(left.probability[:, :, i] * right.probability[:, :, j])
    mean, covariance = atom_moments(torch.stack(values, 2), torch.stack(probabilities, 2))
    torch.testing.assert_close(found.mean, mean)
    torch.testing.assert_close(found.covariance, covariance)


def test_shares_of_the_left_nodes_are_marginals(rng: torch.Generator) -> None:
    weights = weights_of(rng, 2, 3, 20)
    left, right = torch.exp(normal(rng, 2, 5, 4)), torch.exp(normal(rng, 2, 5, 5))
    terms = weights.unsqueeze(1) * (left.unsqueeze(-1) * right.unsqueeze(-2)).flatten(-2).unsqueeze(2)
    expected = (terms / terms.sum(-1, keepdim=True)).unflatten(-1, (4, 5)).sum(-1)
    torch.testing.assert_close(left_shares(weights, left, right), expected)
    alone = left_shares(weights, torch.exp(normal(rng, 2, 5, 20)), None)
    torch.testing.assert_close(alone.sum(-1), torch.ones(2, 5, 3, dtype=torch.float64))


@pytest.mark.parametrize("as_pairs", [True, False])
def test_gaussian_children_agree_with_sampling(rng: torch.Generator, as_pairs: bool) -> None:
    left, right = children_of(rng, 1, 4, spread=0.2), children_of(rng, 1, 4, spread=0.2)
    weights = weights_of(rng, 1, 3, 16 if as_pairs else 4)
    if as_pairs:
        found = atom_pair_sums(weights, left, right, rhos_of(weights, left, right))
    else:
        found = atom_sums(weights, left.times(right), rho_of(weights, left.times(right)))
    n = 100_000
    drawn = []
    for side in (left, right):
        assert side.covariance is not None
        root = torch.linalg.cholesky(side.covariance)
        drawn.append(side.atoms + normal(rng, 1, 2, n, 4) @ root.mT)
    products = (drawn[0].unsqueeze(-1) + drawn[1].unsqueeze(-2)).flatten(-2) if as_pairs else drawn[0] + drawn[1]
    top = products.amax(-1, keepdim=True)
    values = torch.log(torch.exp(products - top) @ weights.unsqueeze(1).mT) + top
    mean, covariance = atom_moments(values, torch.full((1, 2, n), 1.0 / n, dtype=torch.float64))
    assert float((found.mean - mean).abs().max()) < 0.03
    assert found.covariance is not None
    assert float((found.covariance - covariance).abs().max()) < 0.15 * float(covariance.max())


@pytest.mark.parametrize("as_pairs", [True, False])
@pytest.mark.parametrize("one_sided", [True, False])
def test_displaced_children_agree_with_sampling_where_an_expansion_fails(
    rng: torch.Generator, as_pairs: bool, one_sided: bool
) -> None:
    """Children that move against each other by several nats."""
    left, right = children_of(rng, 1, 4, spread=1.5), children_of(rng, 1, 4, spread=0.0 if one_sided else 1.5)
    weights = weights_of(rng, 1, 3, 16 if as_pairs else 4)
    if as_pairs:
        sides, rhos = [left, right], rhos_of(weights, left, right)
        still = atom_pair_sums(weights, left.still(), right.still(), rhos)
        expanded = atom_pair_sums(weights, left, right, rhos)
    else:
        sides, rho = [left.times(right)], rho_of(weights, left.times(right))
        still, expanded = atom_sums(weights, sides[0].still(), rho), atom_sums(weights, sides[0], rho)
    found = displaced_sums(weights, still, sides, [side.atoms.squeeze(2) for side in sides])
    n = 50_000
    drawn = []
    for side in (left, right):
        moved = side.atoms.expand(-1, -1, n, -1)
        if side.covariance is not None:
            moved = moved + normal(rng, 1, 2, n, 4) @ torch.linalg.cholesky(side.covariance).mT
        drawn.append(moved)
    products = (drawn[0].unsqueeze(-1) + drawn[1].unsqueeze(-2)).flatten(-2) if as_pairs else drawn[0] + drawn[1]
    values = torch.logsumexp(torch.log(weights).view(1, 1, 1, 3, -1) + products.unsqueeze(3), dim=-1)
    mean, covariance = atom_moments(values, torch.full((1, 2, n), 1.0 / n, dtype=torch.float64))
    assert found.covariance is not None
    assert expanded.covariance is not None
    assert float((found.mean - mean).abs().max()) < 0.7
    assert float((found.mean - mean).abs().mean()) < 0.5 * float((expanded.mean - mean).abs().mean())
    assert float((found.covariance - covariance).norm()) < 0.5 * float((expanded.covariance - covariance).norm())
    assert bool((torch.linalg.eigvalsh(found.covariance) > -1e-9).all())
    assert float(expanded.curvature.min()) > 0.0


def test_displaced_children_are_exact_where_sums_are_linear(rng: torch.Generator) -> None:
    """With a single child the logarithm of a sum is linear in that of the child."""
    children = Children(normal(rng, 1, 2, 1, 1), torch.ones(1, 2, 1, dtype=torch.float64), None, None)
    weights = torch.ones(1, 2, 1, dtype=torch.float64)
    still = atom_sums(weights, children, rho_of(weights, children))
    moving = children._replace(covariance=torch.full((1, 2, 1, 1), 4.0, dtype=torch.float64))
    found = displaced_sums(weights, still, [moving], [children.atoms.squeeze(2)])
    torch.testing.assert_close(found.mean, still.mean)
    torch.testing.assert_close(found.covariance, torch.full((1, 2, 2, 2), 4.0, dtype=torch.float64))


def test_displacements_have_the_covariance(rng: torch.Generator) -> None:
    z = normal(rng, N_DISPLACED, 3)
    variances = torch.rand(1, 2, 3, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(displacements(variances, z), z * variances.sqrt().unsqueeze(2))
    matrices = torch.diag_embed(variances)
    found = displacements(matrices, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(found.mT @ found, matrices)


def test_residuals_of_values_agree_with_sampling(rng: torch.Generator) -> None:
    variance = torch.full((1, 2, 4), 0.04, dtype=torch.float64)
    children = children_of(rng, 1, 4)._replace(residual=variance)
    weights = weights_of(rng, 1, 3, 4)
    found = atom_sums(weights, children, rho_of(weights, children))
    n = 100_000
    factor = 1.0 + 0.2 * torch.sign(normal(rng, 1, 2, n, 4))
    values = torch.log((torch.exp(children.atoms) * factor) @ weights.unsqueeze(1).mT)
    mean, covariance = atom_moments(values, torch.full((1, 2, n), 1.0 / n, dtype=torch.float64))
    torch.testing.assert_close(found.mean, mean, atol=0.003, rtol=0)
    torch.testing.assert_close(found.covariance, covariance, atol=0.003, rtol=0)
    matrix = children._replace(residual=torch.diag_embed(variance))
    as_matrix = atom_sums(weights, matrix, rho_of(weights, children))
    torch.testing.assert_close(as_matrix.covariance, found.covariance)


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
    found = root_quadrature(roots, log_prior, P, masks)
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
        moved, residual = own_mask_points(shares, rest, coin, P, masks)
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
    torch.testing.assert_close(log_covariance(variance), torch.log1p(variance))
    assert not log_covariance(torch.zeros_like(relative)).any()
