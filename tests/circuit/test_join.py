from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

import socratic
from socratic import Circuit, Graph, Leaf, Sum, join_circuits
from socratic.families import Bernoulli, Binomial, Categorical, Gaussian
from socratic.structure.region_graph import ROOT, RegionGraph, RegionGraphBuilder
from tests.oracles import Enumeration, count_masks, enumerate_masks

SHARES = (0.2, 0.5, 0.3)


def irregular(n_features: int, seed: int) -> RegionGraph:
    """Two trees whose sides differ in shape, with single children among them."""
    rng = random.Random(seed)
    builder = RegionGraphBuilder(n_features)

    def grow(region: int, variables: list[int], leaf: float) -> None:
        if len(variables) == 1 or rng.random() < leaf:
            return None
        if rng.random() < leaf:
            (child,) = builder.split(region, tuple(variables))
            return grow(child, variables, 0.25)
        rng.shuffle(variables)
        cut = rng.randint(1, len(variables) - 1)
        halves = variables[:cut], variables[cut:]
        for child, half in zip(builder.split(region, *map(tuple, halves)), halves, strict=True):
            grow(child, half, 0.25)
        return None

    for _ in range(2):
        grow(ROOT, list(range(n_features)), 0.0)
    return builder.build()


def one_sided(seed: int) -> RegionGraph:
    """A split beside a single child, which of them comes first depends on the seed: joined, they change sides."""
    builder = RegionGraphBuilder(4)
    halves = [(0, 1), (2, 3)]
    single, split = (0, 1) if seed % 2 else (1, 0)
    children = builder.split(ROOT, *halves)
    builder.split(children[single], halves[single])
    builder.split(children[split], *((variable,) for variable in halves[split]))
    return builder.build()


MIXED = ["gaussian", "bernoulli", Categorical(2), Binomial(1), "student-t", "bernoulli", "gaussian"]
CIRCUITS: dict[str, Callable[[int], Circuit]] = {
    "random": lambda seed: socratic.rat_spn(13, 3, n_sums=3, n_leaves=4, depth=3, n_repetitions=2, seed=seed),
    "image": lambda seed: socratic.spatial_spn(4, 3, 2, n_channels=2, n_sums=2, n_leaves=3, n_repetitions=2, seed=seed),
    "no inner sums": lambda seed: socratic.rat_spn(6, 2, n_leaves=3, depth=seed % 2, n_repetitions=2, seed=seed),
    "depths": lambda seed: socratic.rat_spn(
        7, 3, n_sums=3 if seed else 8, n_leaves=5, depth=2 * (seed % 3), n_repetitions=2, seed=seed
    ),
    "irregular": lambda seed: Circuit(irregular(9, seed), n_classes=2, n_sums=3, n_leaves=4, seed=seed),
    "element-wise": lambda seed: Circuit(
        irregular(9, seed), n_classes=2, n_sums=3, n_leaves=3, seed=seed, product="element-wise"
    ),
    "one-sided": lambda seed: Circuit(one_sided(seed), n_classes=2, n_sums=3, n_leaves=2, seed=seed),
    "families": lambda seed: socratic.rat_spn(7, 2, n_sums=2, n_leaves=3, depth=2, leaf=MIXED, seed=seed),
    "sums by layer": lambda seed: Circuit(
        socratic.random_binary_trees(8, 3, 2, seed), n_classes=2, n_sums=[2, 4], n_leaves=3, seed=seed
    ),
}


def rows(n_features: int) -> Tensor:
    """Zeros and ones, which all families can have, some of them missing."""
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.integers(0, 2, size=(20, n_features)), dtype=torch.float64)
    x[torch.tensor(rng.random(x.shape) < 0.3)] = torch.nan
    x[0] = torch.nan
    return x


def mixed(circuits: Sequence[Circuit | Graph], x: Tensor, shares: Sequence[float]) -> Tensor:
    """log p(x | class) of the mixture, from the circuits themselves."""
    parts = [math.log(share) + circuit.log_likelihood(x) for circuit, share in zip(circuits, shares, strict=True)]
    return torch.logsumexp(torch.stack(parts), dim=0)


@pytest.mark.parametrize("first", range(0, 9, 3))
@pytest.mark.parametrize("name", CIRCUITS)
def test_likelihoods_are_mixed(name: str, first: int) -> None:
    circuits = [CIRCUITS[name](first + seed).double() for seed in range(3)]
    x = rows(circuits[0].n_features)
    joined = join_circuits(circuits, SHARES)
    assert isinstance(joined, Circuit)
    torch.testing.assert_close(joined.log_likelihood(x), mixed(circuits, x, SHARES), rtol=0, atol=1e-12)
    assert joined.n_parameters == sum(circuit.n_parameters for circuit in circuits)


@pytest.mark.parametrize("name", CIRCUITS)
def test_graphs_are_mixed(name: str) -> None:
    circuits = [CIRCUITS[name](seed).double() for seed in range(3)]
    x = rows(circuits[0].n_features)
    members = [circuits[0].to_graph(), circuits[1], circuits[2].to_graph()]
    joined = join_circuits(members, SHARES)
    assert isinstance(joined, Graph)
    assert len({id(root.children) for root in joined.roots if isinstance(root, Sum)}) == 1  # they share unit masks
    torch.testing.assert_close(joined.log_likelihood(x), mixed(circuits, x, SHARES), rtol=0, atol=1e-12)


@pytest.mark.parametrize("change", [{"n_sums": 3}, {"n_leaves": 3}, {"product": "element-wise"}, {"leaf": "bernoulli"}])
def test_circuits_of_other_shapes_are_joined_as_a_graph(
    change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {"n_sums": 2, "n_leaves": 2, "depth": 2, "n_repetitions": 2}
    circuits = [
        socratic.rat_spn(5, 2, **usual).double(),
        socratic.rat_spn(5, 2, **{**usual, **change}, seed=1).double(),
    ]
    x = rows(5)
    joined = join_circuits(circuits)
    assert isinstance(joined, Graph)
    torch.testing.assert_close(joined.log_likelihood(x), mixed(circuits, x, [0.5, 0.5]), rtol=0, atol=1e-12)
    monkeypatch.setattr("socratic.circuit.join.MOST_EDGES", 20)
    with pytest.raises(ValueError, match=r"circuits of different shapes .* edges, more than 20; build them all in one"):
        join_circuits(circuits)


def test_a_root_need_not_be_a_sum() -> None:
    leaf = Leaf(0, Gaussian.of(1.0, 2.0))
    mixture = Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(3.0, 1.0))), (0.3, 0.70001))
    graphs = [Graph(leaf, dtype=torch.float64), Graph(mixture, dtype=torch.float64)]
    x = torch.tensor([[0.5], [-2.0], [torch.nan]], dtype=torch.float64)
    joined = join_circuits(graphs, (0.25, 0.75))
    torch.testing.assert_close(joined(x), mixed(graphs, x, (0.25, 0.75)), rtol=0, atol=1e-12)
    assert joined(x)[2, 0].abs() < 1e-12


def test_children_of_weight_zero_stay_without_weight() -> None:
    circuits = [CIRCUITS["random"](seed).double() for seed in range(2)]
    with torch.no_grad():
        circuits[0].root_branches()[0].logits[:, 1, :3] = -torch.inf
    x = rows(13)
    torch.testing.assert_close(join_circuits(circuits)(x), mixed(circuits, x, (0.5, 0.5)), rtol=0, atol=1e-12)


def combined(parts: Sequence[Enumeration], shares: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and relative covariance of a mixture of circuits with masks of their own."""
    mean = np.sum([share * part.mean for share, part in zip(shares, parts, strict=True)], axis=0)
    covariance = np.sum([share**2 * part.covariance for share, part in zip(shares, parts, strict=True)], axis=0)
    return mean, covariance / np.outer(mean, mean)


@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize("as_graphs", [False, True])
def test_moments_are_those_of_independent_circuits(masks: str, as_graphs: bool) -> None:
    """TDI of the joined circuit against every mask of every circuit, also where a value is missing."""
    sizes = {"n_sums": 2, "n_leaves": 2, "depth": 2, "n_repetitions": 1}
    layered = [socratic.rat_spn(3, 2, **sizes, seed=seed).double() for seed in range(3)]
    circuits = [circuit.to_graph() for circuit in layered] if as_graphs else layered
    joined = join_circuits(circuits, SHARES)
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[1, 0] = x[2, 1:] = torch.nan
    moments = socratic.tdi(joined, x, dropout=0.3, masks=masks)
    for row, log_mean, covariance in zip(x, moments.log_mean, moments.relative_covariance, strict=True):
        truth = [enumerate_masks(circuit.to_graph(), row.tolist(), 0.3, masks, False) for circuit in layered]
        mean, relative = combined(truth, SHARES)
        np.testing.assert_allclose(log_mean.detach(), np.log(mean), rtol=0, atol=1e-9)
        np.testing.assert_allclose(covariance.detach(), relative, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("masks", ["edge", "unit"])
@pytest.mark.parametrize("as_graphs", [False, True])
def test_moments_with_root_dropout_equal_enumeration(masks: str, as_graphs: bool) -> None:
    sizes = {"n_sums": 1, "n_leaves": 2, "depth": 2, "n_repetitions": 1}
    circuits = [socratic.rat_spn(3, 2, **sizes, seed=seed).double() for seed in range(2)]
    joined = join_circuits([circuit.to_graph() for circuit in circuits] if as_graphs else circuits)
    nodes = joined if isinstance(joined, Graph) else joined.to_graph()
    assert count_masks(nodes, masks, True) > count_masks(nodes, masks, False)
    x = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moments = socratic.tdi(joined, x, dropout=0.3, masks=masks, root_dropout=True)
    for row, log_mean, covariance in zip(x, moments.log_mean, moments.relative_covariance, strict=True):
        truth = enumerate_masks(nodes, row.tolist(), 0.3, masks, True)
        np.testing.assert_allclose(log_mean.detach(), np.log(truth.mean), rtol=0, atol=1e-9)
        np.testing.assert_allclose(covariance.detach(), truth.relative_covariance, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("as_graphs", [False, True])
def test_samples_come_from_all_circuits(as_graphs: bool) -> None:
    """Two circuits that are sure of different values."""
    circuits = [socratic.rat_spn(2, 1, n_sums=1, n_leaves=1, depth=1, n_repetitions=1).double() for _ in range(2)]
    with torch.no_grad():
        for circuit, mean in zip(circuits, (-10.0, 10.0), strict=True):
            circuit.leaves.leaf_groups()[0].values["mean"].fill_(mean)
    joined = join_circuits([circuit.to_graph() for circuit in circuits] if as_graphs else circuits, (0.2, 0.8))
    drawn = socratic.sample(joined, 4000, seed=0).x
    assert (drawn[:, 0].sign() == drawn[:, 1].sign()).all()  # one circuit makes the whole row
    assert float((drawn[:, 0] > 0).double().mean()) == pytest.approx(0.8, abs=0.03)
    assert (socratic.mpe(joined, torch.full((1, 2), torch.nan)).x > 5).all()


@pytest.mark.parametrize("as_graphs", [False, True])
def test_joined_circuits_are_saved(as_graphs: bool, tmp_path: Path) -> None:
    circuits = [CIRCUITS["families"](seed).double() for seed in range(3)]
    joined = join_circuits([circuit.to_graph() for circuit in circuits] if as_graphs else circuits, SHARES)
    joined.save(tmp_path / "joined")
    x = rows(7)
    assert torch.equal(socratic.load(tmp_path / "joined")(x), joined(x))


def test_circuits_are_copied_and_their_join_can_be_trained() -> None:
    circuits = [CIRCUITS["random"](seed).double() for seed in range(2)]
    x = rows(13)
    before = mixed(circuits, x, (0.5, 0.5)).detach()
    joined = join_circuits(circuits)
    optimiser = torch.optim.SGD(joined.parameters(), lr=0.1)
    loss = -joined(x).mean()
    loss.backward()
    assert all(parameter.grad is not None for parameter in joined.parameters())
    optimiser.step()
    assert -joined(x).mean() < loss
    assert torch.equal(mixed(circuits, x, (0.5, 0.5)), before)


def test_the_most_exact_type_is_kept() -> None:
    circuits = [CIRCUITS["random"](0), CIRCUITS["random"](1).double()]
    assert join_circuits(circuits).dtype == torch.float64
    assert join_circuits(circuits[:1]).dtype == torch.float32
    assert join_circuits([circuit.to_graph() for circuit in circuits]).dtype == torch.float64


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.6], r"weights must be one positive number for each of 2 circuits, adding up to 1; got \[0.5, 0.6\]"),
        ([1.0], r"for each of 2 circuits, adding up to 1; got \[1.0\]"),
        ([1.0, 0.0], r"one positive number"),
        ([1.5, -0.5], r"weights\[1\] must be a finite number of at least 0; got -0.5"),
        (["a", 1.0], r"weights\[0\] must be a finite number"),
    ],
)
def test_weights_that_are_no_shares_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        join_circuits([CIRCUITS["random"](0), CIRCUITS["random"](1)], weights)


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValueError, match="circuits must hold at least one circuit"):
        join_circuits([])
    with pytest.raises(ValueError, match=r"circuits must hold a Circuit or Graph each; circuits\[1\] is 'a'"):
        join_circuits([CIRCUITS["random"](0), cast("Circuit", "a")])
    with pytest.raises(ValueError, match=r"equal n_features; circuits\[0\] has 5 and circuits\[1\] 6"):
        join_circuits([socratic.rat_spn(5, 2), socratic.rat_spn(6, 2)])
    with pytest.raises(ValueError, match=r"equal n_classes; circuits\[0\] has 2 and circuits\[1\] 3"):
        join_circuits([socratic.rat_spn(5, 2), socratic.rat_spn(5, 3)])
    one, other = (Graph(Leaf(variable, Bernoulli().of(0.3)), 2) for variable in (0, 1))
    with pytest.raises(ValueError, match=r"not smooth: children\[0\] is over the variable 0, children\[1\] over"):
        join_circuits([one, other])
