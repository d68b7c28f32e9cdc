"""The posterior over dropout masks: close to enumeration, and what every circuit and setting is owed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import socratic
from socratic.inference import posterior_methods
from socratic.inference.dropout import Dropout
from socratic.inference.kinds import engine_of
from socratic.inference.leaf_uncertainty import LeafUncertainty
from socratic.inference.posterior_methods import dropout_posterior, log_moment_posterior
from socratic.memory import Budget
from socratic.structure.region_graph import Partition, Region, RegionGraph
from tests.inference.circuits import peaky_circuit
from tests.oracles import count_masks, enumerate_masks, topological

# (features, depth, repetitions, sums, leaves, classes, product)
SHAPES = {
    "two-leaves": (2, 1, 1, 2, 3, 2, "all-pairs"),
    "one-feature": (1, 1, 2, 2, 3, 2, "all-pairs"),
    "no-split": (3, 0, 2, 2, 4, 2, "all-pairs"),
    "balanced": (4, 2, 1, 2, 2, 2, "all-pairs"),
    "odd": (3, 2, 1, 2, 2, 3, "all-pairs"),
    "odd-deep": (5, 3, 1, 2, 2, 2, "all-pairs"),
    "repetitions": (4, 2, 3, 2, 2, 10, "all-pairs"),
    "one-class": (4, 2, 2, 2, 2, 1, "all-pairs"),
    "unequal-widths": (3, 2, 2, 2, 3, 3, "all-pairs"),
    "element-wise": (4, 2, 1, 3, 3, 3, "element-wise"),
    "element-wise-odd": (3, 2, 2, 3, 3, 2, "element-wise"),
    "element-wise-deep": (8, 3, 1, 2, 2, 2, "element-wise"),
    "deep": (9, 3, 2, 4, 3, 3, "all-pairs"),
    "single-children": (4, 2, 2, 1, 1, 2, "all-pairs"),
}

PRIOR = [0.5, 0.3, 0.2]


def build(shape: str, seed: int = 0, peak: float = 3.0, dtype: torch.dtype = torch.float64) -> socratic.Circuit:
    return peaky_circuit(SHAPES[shape], seed, peak).to(dtype)


def rows_for(circuit: socratic.Circuit, n: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, circuit.n_features, generator=generator, dtype=torch.float64).to(circuit.dtype)


def dead_of(posterior: socratic.Posterior) -> torch.Tensor:
    assert posterior.dead is not None
    return posterior.dead


def is_distribution(posterior: socratic.Posterior) -> None:
    assert posterior.method == "log-moments"
    assert bool((posterior.mean >= 0).all())
    assert bool((posterior.mean <= 1).all())
    torch.testing.assert_close(posterior.mean.sum(1), torch.ones_like(posterior.entropy))
    for field in (posterior.std, posterior.entropy, posterior.mutual_information, dead_of(posterior)):
        assert torch.isfinite(field).all()
        assert bool((field >= 0).all())
    assert bool((posterior.mutual_information <= posterior.entropy + 1e-6).all())


@pytest.mark.parametrize("masks", ["unit", "edge"])
@torch.no_grad()
def test_close_to_enumeration_on_random_peaky_circuits(masks: str) -> None:
    """200 circuits of up to 12 masks, a hundred for each kind."""
    shapes = ["two-leaves", "one-feature", "balanced", "odd", "element-wise", "element-wise-odd", "element-wise-deep"]
    errors: list[float] = []
    spreads: list[float] = []
    seed = 0
    while len(errors) < 100:
        shape, seed = shapes[seed % len(shapes)], seed + 1
        circuit = build(shape, seed)
        roots = circuit.to_graph()
        if count_masks(roots, masks, False) > 12:
            continue
        x = rows_for(circuit, 1, seed)
        prior = [1.0 / circuit.n_classes] * circuit.n_classes
        mean, std, _ = enumerate_masks(roots, x[0].tolist(), 0.2, masks, False).posterior(prior)
        found = dropout_posterior(circuit, x, dropout=0.2, masks=masks, method="log-moments")
        is_distribution(found)
        errors.append(0.5 * np.abs(found.mean[0].numpy() - mean).sum())
        spreads.append(np.abs(found.std[0].numpy() - std).max())
    assert np.mean(errors) < 0.02
    assert np.max(errors) < 0.2
    assert np.mean(spreads) < 0.03


@pytest.mark.parametrize("masks", ["unit", "edge"])
@pytest.mark.parametrize("root_dropout", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@torch.no_grad()
def test_every_shape_gives_a_distribution_close_to_sampling(shape: str, root_dropout: bool, masks: str) -> None:
    circuit = build(shape, peak=2.0)
    x = rows_for(circuit, 5)
    x[1, 0] = math.nan
    x[2] = math.nan
    settings = {"dropout": 0.2, "masks": masks, "root_dropout": root_dropout}
    found = dropout_posterior(circuit, x, method="log-moments", **settings)
    is_distribution(found)
    # One child each, and masks of their own: sums of one region die one by one, which is not followed. And two sums of
    # two products each: what both sides of a product do together is all there is, and their effects are only added.
    tolerance = {"single-children": 0.2, "element-wise-deep": 0.08}.get(shape, 0.05)
    sampled = dropout_posterior(circuit, x, method="monte-carlo", n_passes=300, **settings)
    assert float((found.mean - sampled.mean).abs().sum(1).mean() / 2) < tolerance
    if masks == "unit":
        assert float((dead_of(found) - dead_of(sampled)).abs().max()) < 0.08


@pytest.mark.parametrize("masks", ["unit", "edge"])
@pytest.mark.parametrize("shape", ["deep", "element-wise-deep", "element-wise-odd", "odd-deep", "no-split"])
@torch.no_grad()
def test_sharp_rows_take_balanced_passes(shape: str, masks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows above the limit get the answer of balanced passes, the others that of log-moments."""
    circuit = build(shape, peak=4.0)
    x = rows_for(circuit, 12)
    settings = {"masks": masks, "root_dropout": True, "class_prior": [1.0 / circuit.n_classes] * circuit.n_classes}
    smooth = dropout_posterior(circuit, x, method="log-moments", **settings)
    passes = {"method": "monte-carlo", "balanced": True, "n_passes": posterior_methods.N_SHARP_PASSES}
    sampled = dropout_posterior(circuit, x, **passes, **settings)
    dropout, certain = Dropout(0.2, masks, root=True), LeafUncertainty(None)
    log_prior = torch.log(torch.tensor(settings["class_prior"], dtype=torch.float64))
    _, curvature = log_moment_posterior(engine_of(circuit), x, dropout, certain, log_prior, chunk_size=5)
    assert curvature.shape == (12,)
    middle = float(curvature.sort().values[5:7].mean())  # between two rows: rounding moves none across
    for limit in (-1.0, middle, math.inf):
        monkeypatch.setattr(posterior_methods, "SHARP_CURVATURE", limit)
        found = dropout_posterior(circuit, x, **settings)
        sharp = (curvature > limit).unsqueeze(1)
        torch.testing.assert_close(found.mean, torch.where(sharp, sampled.mean, smooth.mean))
        torch.testing.assert_close(found.std, torch.where(sharp, sampled.std, smooth.std))
        assert found.method == (posterior_methods.SHARP_METHOD if sharp.any() else "log-moments")


def test_the_curvature_tells_sharp_circuits_apart() -> None:
    x = torch.randn(40, 64, generator=torch.Generator().manual_seed(0))
    curvatures = []
    for peak in (1.0, 3.0, 9.0):
        circuit = socratic.rat_spn(64, 3, n_sums=6, n_leaves=6, depth=4, n_repetitions=2)
        with torch.no_grad():
            for layer in circuit.inner_layers():
                layer.logits.mul_(peak)
        prior = torch.full((3,), -math.log(3))
        dropout, certain = Dropout(0.2, "unit"), LeafUncertainty(None)
        _, curvature = log_moment_posterior(engine_of(circuit), x, dropout, certain, prior, chunk_size=None)
        curvatures.append(float(curvature.mean()))
    assert curvatures[0] < curvatures[1] < curvatures[2]


@pytest.mark.parametrize("masks", ["unit", "edge"])
@pytest.mark.parametrize("root_dropout", [False, True])
@torch.no_grad()
def test_repetitions_of_different_shapes(masks: str, root_dropout: bool) -> None:
    """One repetition halves the variables once, one goes deeper on one side, and one does not split at all."""
    scopes = [(0, 1, 2), (0, 1), (2,), (0,), (1, 2), (1,), (2,), (0, 1, 2)]
    partitions = [(0, (1, 2)), (0, (3, 4)), (4, (5, 6)), (0, (7,))]
    for order in (partitions, partitions[::-1]):
        graph = RegionGraph(3, tuple(map(Region, scopes)), tuple(Partition(*partition) for partition in order))
        circuit = socratic.Circuit(graph, n_classes=2, n_sums=3, n_leaves=3).double()
        assert len(circuit.root_branches()) == 3
        x = rows_for(circuit, 4)
        settings = {"masks": masks, "root_dropout": root_dropout}
        found = dropout_posterior(circuit, x, method="log-moments", **settings)
        is_distribution(found)
        sampled = dropout_posterior(circuit, x, method="monte-carlo", n_passes=500, **settings)
        torch.testing.assert_close(found.mean, sampled.mean, atol=0.04, rtol=0)
        torch.testing.assert_close(found.std, sampled.std, atol=0.04, rtol=0)


@torch.no_grad()
def test_repetitions_die_one_by_one() -> None:
    """With single children whole repetitions are lost: the others answer, and the dead share is known."""
    circuit = build("single-children")
    roots = circuit.to_graph()
    x = rows_for(circuit, 1)
    mean, std, dead = enumerate_masks(roots, x[0].tolist(), 0.3, "unit", False).posterior([0.5, 0.5])
    found = dropout_posterior(circuit, x, dropout=0.3, masks="unit")
    np.testing.assert_allclose(found.mean[0].numpy(), mean, atol=0.01)
    np.testing.assert_allclose(found.std[0].numpy(), std, atol=0.01)
    assert dead_of(found).item() == pytest.approx(dead, abs=1e-9)


@torch.no_grad()
def test_enumeration_with_uncertain_leaves() -> None:
    """Leaves that are 1 +- size times their density, as fair coins fall."""
    circuit = build("two-leaves", peak=1.0)
    roots = circuit.to_graph()
    leaves = {id(node) for node in topological(roots) if isinstance(node, socratic.Leaf)}
    coins = {key: [(number, 0.4)] for number, key in enumerate(sorted(leaves))}
    x = rows_for(circuit, 1)
    mean, std, _ = enumerate_masks(roots, x[0].tolist(), 0.0, "unit", False, leaf_coins=coins).posterior([0.5, 0.5])
    for prior in ({"leaf_variance": 0.16}, {"leaf_covariance": 0.16 * torch.eye(3)}):
        found = dropout_posterior(circuit, x, dropout=0.0, **prior)
        is_distribution(found)
        np.testing.assert_allclose(found.mean[0].detach().numpy(), mean, atol=0.01)
        np.testing.assert_allclose(found.std[0].detach().numpy(), std, atol=0.02)
    common = dropout_posterior(circuit, x, dropout=0.0, leaf_covariance=torch.full((3, 3), 0.16))
    assert float(common.std.max()) < 1e-6  # what all leaves of a region share cancels


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
def test_uncertain_leaves_meet_dropout(product: str) -> None:
    circuit = socratic.rat_spn(5, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2, product=product).double()
    x = rows_for(circuit, 4)
    certain = dropout_posterior(circuit, x, masks="unit")
    uncertain = dropout_posterior(circuit, x, masks="unit", leaf_variance=torch.rand(4, 8, 3, dtype=torch.float64))
    is_distribution(uncertain)
    assert bool((uncertain.std > certain.std).all())


@pytest.mark.parametrize("masks", ["unit", "edge"])
def test_without_dropout_the_plain_posterior_remains(masks: str) -> None:
    circuit = build("deep")
    x = rows_for(circuit, 20)
    prior = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    plain = torch.softmax(circuit.log_likelihood(x) + prior.log(), dim=1)
    exact = dropout_posterior(circuit, x, dropout=0.0, masks=masks, class_prior=prior, root_dropout=True)
    assert torch.equal(exact.mean, plain)
    assert not exact.std.any()
    assert not exact.mutual_information.any()
    for root_dropout in (False, True):
        tiny = dropout_posterior(circuit, x, dropout=1e-8, masks=masks, class_prior=prior, root_dropout=root_dropout)
        torch.testing.assert_close(tiny.mean, plain, atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", ["deep", "element-wise-odd", "one-feature"])
@pytest.mark.parametrize("masks", ["unit", "edge"])
def test_blocks_and_chunks_do_not_change_results(shape: str, masks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = build(shape)
    x = rows_for(circuit, 7)
    n_regions = circuit.leaves.n_folds
    settings = {"masks": masks, "leaf_variance": torch.rand(7, n_regions, 3, dtype=torch.float64), "root_dropout": True}
    whole = dropout_posterior(circuit, x, **settings)
    monkeypatch.setattr("socratic.memory._BLOCK_BYTES", Budget(3000, 3000))
    for chunk_size in (None, 1, 3):
        parts = dropout_posterior(circuit, x, chunk_size=chunk_size, **settings)
        torch.testing.assert_close(parts.mean, whole.mean)
        torch.testing.assert_close(parts.std, whole.std)


@pytest.mark.parametrize("masks", ["unit", "edge"])
def test_an_empty_batch_gives_an_empty_result(masks: str) -> None:
    found = dropout_posterior(build("deep"), torch.zeros(0, 9), masks=masks)
    assert found.mean.shape == (0, 3)
    assert found.entropy.shape == (0,)


@pytest.mark.parametrize("masks", ["unit", "edge"])
@torch.no_grad()
def test_float32_agrees_with_float64(masks: str) -> None:
    circuit = socratic.rat_spn(300, 4, n_sums=5, n_leaves=5, depth=4, n_repetitions=3)
    for layer in circuit.inner_layers():
        layer.logits.mul_(4.0)
    x = 2.0 * torch.randn(30, 300, generator=torch.Generator().manual_seed(0))
    settings = {"masks": masks, "root_dropout": True, "method": "log-moments"}
    single = dropout_posterior(circuit, x, **settings)
    double = dropout_posterior(circuit.double(), x, **settings)
    torch.testing.assert_close(single.mean.double(), double.mean, atol=2e-3, rtol=0)
    torch.testing.assert_close(single.std.double(), double.std, atol=2e-3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masks", ["unit", "edge"])
@pytest.mark.parametrize("dropout", [0.2, 1e-7])
@pytest.mark.parametrize("shape", ["deep", "single-children", "element-wise-odd", "one-feature"])
def test_gradients_are_finite(shape: str, dropout: float, masks: str, dtype: torch.dtype) -> None:
    circuit = build(shape, peak=8.0, dtype=dtype)
    x = 5.0 * rows_for(circuit, 6)
    found = dropout_posterior(circuit, x, dropout=dropout, masks=masks, root_dropout=True, method="log-moments")
    (found.mean[:, 0] + found.std.sum(1) + found.entropy + found.mutual_information).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in circuit.parameters())


def test_uncertainty_can_be_trained_on() -> None:
    circuit = socratic.rat_spn(6, 3, n_sums=3, n_leaves=3, depth=2, n_repetitions=2)
    x = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(circuit.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        optimiser.zero_grad()
        found = dropout_posterior(circuit, x, masks="unit", method="log-moments")
        loss = found.entropy.mean() + found.std.mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_the_result_is_deterministic_and_independent_of_other_rows() -> None:
    circuit = build("deep")
    x = rows_for(circuit, 6)
    first, again, alone = (dropout_posterior(circuit, part) for part in (x, x, x[2:3]))
    assert torch.equal(first.mean, again.mean)
    torch.testing.assert_close(alone.mean, first.mean[2:3])


@pytest.mark.parametrize("masks", ["unit", "edge"])
def test_impossible_rows_get_the_prior_and_dead_nodes_do_no_harm(masks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of density 0: some of a row, all of them, or all of one region."""
    circuit = build("deep")
    density = circuit.leaves.log_density(rows_for(circuit, 4)).detach()
    density[:, 0, 0] = -math.inf
    density[:, :, 1] = -math.inf
    density[2, :, 2] = -math.inf
    monkeypatch.setattr(circuit.leaves, "log_density", lambda rows: density)
    settings = {"masks": masks, "root_dropout": True, "class_prior": PRIOR, "method": "log-moments"}
    found = dropout_posterior(circuit, rows_for(circuit, 4), **settings)
    is_distribution(found)
    torch.testing.assert_close(found.mean[1], torch.tensor(PRIOR, dtype=torch.float64))
    assert dead_of(found)[1] == 1
    assert float(dead_of(found)[[0, 2, 3]].max()) < 0.1
    (found.mean[:, 0] + found.std.sum(1) + found.entropy).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in circuit.parameters() if p.grad is not None)


@pytest.mark.parametrize("scale", [10.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_rows_far_from_the_data_are_sampled_where_children_underflow(dtype: torch.dtype, scale: float) -> None:
    circuit = socratic.rat_spn(64, 3, n_sums=4, n_leaves=4, depth=3, n_repetitions=2).to(dtype)
    x = scale * torch.randn(10, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = dropout_posterior(circuit, x)
    sampled = dropout_posterior(circuit, x, method="monte-carlo", n_passes=1009, balanced=True)
    assert float((found.mean - sampled.mean).abs().sum(1).max() / 2) < 0.07
    assert float(dead_of(found).max()) < 1e-6
    assert float(dead_of(sampled).max()) == 0.0


@pytest.mark.parametrize("root_dropout", [False, True])
@pytest.mark.parametrize("logit", [-math.inf, -60.0])
@torch.no_grad()
def test_sums_that_die_alone_are_sampled(logit: float, root_dropout: bool) -> None:
    """Two products, and sums that have one of them each."""
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=2, depth=2, n_repetitions=1, product="element-wise").double()
    for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
        layer.logits.copy_(torch.tensor([[0.0, logit], [logit, 0.0]]).double().expand_as(layer.logits))
    x = torch.zeros(1, 4, dtype=torch.float64)
    exact = enumerate_masks(circuit.to_graph(), [0.0] * 4, 0.2, "unit", root_dropout)
    mean, std, _ = exact.posterior([0.5, 0.5])
    found = dropout_posterior(circuit, x, root_dropout=root_dropout)
    np.testing.assert_allclose(found.mean[0].numpy(), mean, atol=0.07)
    np.testing.assert_allclose(found.std[0].numpy(), std, atol=0.07)


def test_methods_are_those_of_the_other_queries() -> None:
    circuit = build("deep")
    x = rows_for(circuit, 5)
    settings = {"dropout": 0.3, "masks": "edge", "root_dropout": True, "class_prior": [0.2, 0.3, 0.5]}
    prior = settings["class_prior"]
    moments = socratic.tdi(circuit, x, dropout=0.3, masks="edge", root_dropout=True, leaf_variance=0.1)
    expansion = dropout_posterior(circuit, x, method="expansion", leaf_variance=0.1, **settings)
    assert torch.equal(expansion.mean, moments.posterior(prior).mean)
    assert expansion.method == "expansion"
    sampled = dropout_posterior(circuit, x, method="monte-carlo", n_passes=7, seed=3, **settings)
    assert torch.equal(sampled.mean, socratic.monte_carlo_dropout(circuit, x, n_passes=7, seed=3, **settings).mean)
    assert sampled.method == "monte-carlo"
    assert dropout_posterior(circuit, x, **settings).method == "log-moments"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\); got 1.0"),
        ({"masks": "node"}, "masks must be one of 'edge', 'unit'; got 'node'"),
        (
            {"method": "magic"},
            "method must be one of 'auto', 'log-moments', 'log-normal', 'expansion', 'monte-carlo'; got 'magic'",
        ),
        ({"n_passes": 0}, "n_passes must be a whole number of at least 1; got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"class_prior": [0.5, 0.6]}, "class_prior must sum to 1"),
        ({"leaf_variance": -1.0}, "leaf_variance must hold finite numbers of at least 0"),
        ({"leaf_variance": 0.1, "method": "monte-carlo"}, "method='monte-carlo' samples masks or weights only"),
        ({"chunk_size": 0}, "chunk_size must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], message: str) -> None:
    circuit = socratic.rat_spn(4, 2, n_sums=2, n_leaves=3, depth=2)
    with pytest.raises(ValueError, match=message):
        dropout_posterior(circuit, torch.zeros(2, 4), **settings)


def test_bad_rows_are_named() -> None:
    with pytest.raises(ValueError, match=r"x must have the shape \(rows, 9\)"):
        dropout_posterior(build("deep"), torch.zeros(2, 4))
