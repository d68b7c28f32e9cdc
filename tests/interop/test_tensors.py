"""Blocks as tensors, against the same blocks as nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import socratic
from socratic.families import Gaussian
from socratic.interop.blocks import Block, Joined, Leaves, Products, Sums, gaussian_leaves
from socratic.interop.nodes import as_nodes
from socratic.interop.tensors import NotLayeredError, as_circuit
from tests.interop.evaluation import log_values
from tests.oracles import enumerate_masks


def gaussians(variable: int, width: int = 2) -> Leaves:
    mean, log_deviation = torch.randn(2, width, dtype=torch.float64)
    return gaussian_leaves(variable, mean, log_deviation)


def sums(child: Block, width: int = 2) -> Sums:
    return Sums(child, torch.log_softmax(torch.randn(width, child.width, dtype=torch.float64), dim=-1))


def pairs(*children: Block) -> Products:
    return Products(children, all_pairs=True)


def by_index(*children: Block) -> Products:
    return Products(children, all_pairs=False)


def roots_of(block: Sums) -> tuple[socratic.Sum, ...]:
    roots = as_nodes(block)
    return tuple(root for root in roots if isinstance(root, socratic.Sum))


@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize(
    "build",
    [
        lambda: sums(gaussians(0)),
        lambda: sums(pairs(gaussians(0), sums(pairs(gaussians(1), gaussians(2)), 3))),
        lambda: sums(pairs(sums(gaussians(0), 3), sums(pairs(gaussians(2), gaussians(1))))),
        lambda: sums(pairs(sums(gaussians(1)), sums(sums(gaussians(0)), 3))),
        lambda: sums(by_index(sums(gaussians(1)), sums(by_index(sums(gaussians(2)), sums(gaussians(0)))))),
        lambda: sums(Joined((sums(pairs(gaussians(0), gaussians(1))), by_index(gaussians(0), gaussians(1))))),
    ],
    ids=["a mixture", "a leaf on the left", "uneven numbers of sums", "sums of sums", "one-sided sums", "repetitions"],
)
def test_tensors_have_the_moments_of_the_nodes(build: Callable[[], Sums], masks: str) -> None:
    block = build()
    circuit = as_circuit(block)
    row = [0.4, -0.3, 0.8][: circuit.n_features]
    exact = enumerate_masks(roots_of(block), row, 0.3, masks, root_dropout=False)
    moments = socratic.tdi(circuit, [row], dropout=0.3, masks=masks)
    torch.testing.assert_close(moments.log_mean[0].exp().detach(), torch.tensor(exact.mean))
    torch.testing.assert_close(moments.relative_covariance[0].detach(), torch.tensor(exact.relative_covariance))
    # And back: the node view of the tensors is the same circuit.
    again = enumerate_masks(circuit.to_graph(), row, 0.3, masks, root_dropout=False)
    torch.testing.assert_close(torch.tensor(again.relative_covariance), torch.tensor(exact.relative_covariance))


def test_an_edge_of_weight_zero_is_no_edge() -> None:
    weights = torch.tensor([[0.0, 1.0], [0.25, 0.75]], dtype=torch.float64)
    block = sums(by_index(Sums(gaussians(0), weights.log()), sums(gaussians(1))))
    x = torch.randn(4, 2, dtype=torch.float64)
    circuit = as_circuit(block)
    torch.testing.assert_close(circuit.log_likelihood(x).detach(), log_values(as_nodes(block), x))
    posterior = socratic.dropout_posterior(circuit, x, dropout=0.1)
    assert bool(torch.isfinite(posterior.mean).all())
    lone = [node for node in as_nodes(block)[0].children[0].children if isinstance(node, socratic.Sum)]  # type: ignore[union-attr]
    assert [len(node.children) for node in lone] == [1, 2]
    socratic.training_log_likelihood(circuit, x, generator=torch.Generator()).sum().backward()
    assert all(bool(torch.isfinite(parameter.grad).all()) for parameter in circuit.parameters())


def test_roots_that_weigh_repetitions_become_one_with_the_sums_below() -> None:
    """One root over the products of all repetitions; a root over all classes of all repetitions stays apart."""
    repetitions = [sums(pairs(gaussians(0), gaussians(1))) for _ in range(2)]
    shares = torch.tensor([[0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    mixing = torch.cat([torch.diag(column) for column in shares.t()], dim=1).log()
    merged = as_circuit(Sums(Joined(tuple(repetitions)), mixing))
    assert not merged.inner_layers()
    expected = [
        repetition.log_weights + share.log().unsqueeze(1)
        for repetition, share in zip(repetitions, shares.t(), strict=True)
    ]
    torch.testing.assert_close(torch.log(merged.weights().roots[0]).detach(), torch.stack(expected))
    apart = as_circuit(sums(Joined(tuple(repetitions))))
    assert [layer.n_nodes for layer in apart.inner_layers()] == [2]


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: pairs(sums(gaussians(0)), sums(gaussians(1))), "the root is no sum"),
        (lambda: sums(gaussians(1)), "not numbered from 0"),
        (lambda: sums(pairs(gaussians(0), gaussians(1), gaussians(2))), "more than two factors"),
        (lambda: sums(pairs(gaussians(0), pairs(gaussians(1), gaussians(2)))), "more than two factors"),
        (lambda: sums(by_index(sums(gaussians(0)), sums(gaussians(1), 1))), "different widths"),
        (lambda: sums(pairs(gaussians(0), gaussians(1, 3))), "different numbers of leaves"),
        (lambda: sums(pairs(sums(gaussians(0)), sums(gaussians(1), 3))), "different numbers of sums"),
        (lambda: sums(sums(Joined((gaussians(0), gaussians(0))))), "inner sums mix several blocks"),
        (
            lambda: sums(pairs(gaussians(0), sums(by_index(sums(gaussians(1)), sums(gaussians(2)))))),
            "products of all pairs and by index are mixed",
        ),
        (
            lambda: sums(Joined((gaussians(0), Leaves(0, Gaussian(0.5, None), dict(gaussians(0).parameters))))),
            "leaves of different families",
        ),
    ],
)
def test_what_fits_no_tensors(build: Callable[[], Block], problem: str) -> None:
    with pytest.raises(NotLayeredError, match=problem):
        as_circuit(build())


def test_shared_sums_fit_no_tensors() -> None:
    shared = sums(gaussians(0))
    block = sums(Joined((pairs(shared, gaussians(1)), pairs(shared, gaussians(1)))))
    with pytest.raises(NotLayeredError, match="sums in several places mix the same nodes"):
        as_circuit(block)
    leaves = gaussians(0)
    block = sums(Joined((pairs(sums(leaves), gaussians(1)), pairs(sums(leaves), gaussians(1)))))
    with pytest.raises(NotLayeredError, match="sums in several places mix the same nodes"):
        as_circuit(block)


def test_an_imported_circuit_is_an_ordinary_one(tmp_path: object) -> None:
    """It is saved and loaded, sampled from and trained on."""
    circuit = as_circuit(sums(pairs(sums(gaussians(1)), sums(sums(gaussians(0)), 3))))
    circuit.save(f"{tmp_path}/model.safetensors")
    loaded = socratic.load(f"{tmp_path}/model.safetensors")
    x = torch.randn(4, 2, dtype=torch.float64)
    assert torch.equal(loaded.log_likelihood(x), circuit.log_likelihood(x))
    assert loaded.n_sums == circuit.n_sums == (2, 3)


@pytest.mark.parametrize("masks", ["edge", "unit"])
def test_log_moments_pass_one_sided_sums(masks: str) -> None:
    """As in cirkit's CP layers: sums over leaves, products by index, sums."""

    def region(*variables: int) -> Sums:
        first, *rest = variables
        return sums(by_index(sums(gaussians(first, 6), 6), region(*rest)) if rest else gaussians(first, 6), 6)

    circuit = as_circuit(sums(by_index(region(0, 1, 2), region(3, 4, 5)), 3))
    x = torch.randn(5, 6, dtype=torch.float64)
    found = socratic.dropout_posterior(circuit, x, dropout=0.2, masks=masks)
    sampled = socratic.monte_carlo_dropout(circuit, x, dropout=0.2, masks=masks, n_passes=1500)
    torch.testing.assert_close(found.mean, sampled.mean, atol=0.02, rtol=0.0)
    torch.testing.assert_close(found.std, sampled.std, atol=0.02, rtol=0.0)
