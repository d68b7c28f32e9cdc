"""Layers against loops and sampling, in float64."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from socratic.inference.log_moments.displaced import N_DISPLACED, displaced_sums, displacements
from socratic.inference.log_moments.sums import Children, Shares, atom_pair_sums, atom_sums, left_shares
from tests.inference.log_moments.draws import atom_moments, normal, weights_of


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
