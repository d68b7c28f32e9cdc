from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.circuit.join import join_circuits
from socratic.circuit.nodes import Node, children_of
from socratic.families import Bernoulli, Gaussian
from tests.families.members import VARIANTS, draw, random_members
from tests.inference.circuits import peaky_circuit
from tests.inference.queries.worlds import EVIDENCE, KINDS, NAN, PRIOR, make_world
from tests.oracles import evaluate

CLASSES: list[dict[str, Any]] = [{"class_prior": PRIOR.tolist()}, {"class_index": 1}]
EXACT = {"rtol": 0.0, "atol": 1e-9, "equal_nan": True}


def by_marginals(circuit: socratic.Circuit | Graph, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """log p(x without j) - log p(x), one marginal query for each column."""
    whole = socratic.marginal_log_likelihood(circuit, x, **options)
    found = torch.empty_like(x)
    for column in range(x.shape[1]):
        rest = x.clone()
        rest[:, column] = NAN
        found[:, column] = socratic.marginal_log_likelihood(circuit, rest, **options) - whole
    return found.detach().masked_fill(x.isnan(), NAN)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", CLASSES, ids=["mixed", "given"])
def test_columns_equal_marginalisation(kind: str, options: dict[str, Any]) -> None:
    world = make_world(kind, seed=3)
    x = torch.as_tensor(np.concatenate([world.states, EVIDENCE]))
    expected = by_marginals(world.circuit, x, **options)
    assert kind == "graph" or expected[: len(world.states)].isfinite().all()
    torch.testing.assert_close(socratic.column_surprise(world.circuit, x, **options), expected, **EXACT)


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3], ids=["near", "far", "very far"])
def test_columns_of_peaky_circuits_far_from_all_data(product: str, spread: float) -> None:
    circuit = peaky_circuit((7, 2, 3, 4, 4, 3, product), seed=1, peak=4.0)
    x = spread * torch.randn(20, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[::3, 2] = NAN
    for model in (circuit, circuit.to_graph()):
        found = socratic.column_surprise(model, x, class_prior=[0.2, 0.3, 0.5])
        expected = by_marginals(model, x, class_prior=[0.2, 0.3, 0.5])
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("family", VARIANTS, ids=repr)
def test_columns_of_every_family(family: socratic.families.Family) -> None:
    circuit = socratic.rat_spn(3, 2, n_sums=2, n_leaves=3, depth=1, n_repetitions=2, leaf=family, seed=4).double()
    columns = [draw(member, 8, seed) for seed, member in enumerate(random_members(family, 3))]
    x = torch.as_tensor(np.stack(columns, axis=1), dtype=torch.float64)
    x[0, 1] = x[1] = NAN
    for model in (circuit, circuit.to_graph()):
        found = socratic.column_surprise(model, x)
        torch.testing.assert_close(found, by_marginals(model, x), rtol=1e-12, atol=1e-9, equal_nan=True)


def test_a_weight_of_zero_does_not_lose_what_lies_far_below() -> None:
    circuit = peaky_circuit((4, 2, 1, 3, 3, 2, "all-pairs"), seed=2)
    with torch.no_grad():
        for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
            layer.logits[..., ::2] = -torch.inf
    x = 40.0 * torch.randn(10, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(socratic.column_surprise(circuit, x), by_marginals(circuit, x), rtol=1e-13, atol=1e-9)


def test_float32_keeps_its_digits_at_784_variables() -> None:
    circuit = socratic.rat_spn(784, 3, n_sums=6, n_leaves=6, depth=4, n_repetitions=3, seed=0)
    x = torch.randn(4, 784, generator=torch.Generator().manual_seed(0))
    x[1] *= 20.0
    x[2, 100] = 300.0
    x[3, ::2] = NAN
    found = socratic.column_surprise(circuit, x)
    exact = socratic.column_surprise(circuit.double(), x)
    assert exact[1].min() > -5.0
    assert exact[2].argmax() == 100
    error = (found - exact).abs() / exact.abs().clamp_min(1.0)
    assert error[~x.isnan()].max() < 2e-3


def test_impossible_values_and_impossible_rests() -> None:
    graph = Graph(
        Sum((Product((Leaf(0, Bernoulli.of(1.0)), Leaf(1, Bernoulli.of(0.5)))),
             Product((Leaf(0, Bernoulli.of(0.0)), Leaf(1, Bernoulli.of(0.0))))), (0.4, 0.6)),
        n_features=3, dtype=torch.float64,
    )  # fmt: skip
    found = socratic.column_surprise(graph, torch.tensor([[0.0, 1.0, 7.0], [1.0, 1.0, NAN], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(found[0], [np.inf, np.inf, NAN])  # both are possible without the other
    np.testing.assert_allclose(found[1], [0.0, -np.log(0.5), NAN], atol=1e-12)
    np.testing.assert_allclose(found[2], [-np.log(0.6 / 0.8), 0.0, NAN], atol=1e-12)
    alone = Graph(Product((Leaf(0, Bernoulli.of(1.0)), Leaf(1, Bernoulli.of(1.0)))))
    assert socratic.column_surprise(alone, [[0.0, 0.0], [0.0, 1.0]])[0].isnan().all()


def meets(node: Node, row: np.ndarray, scope: frozenset[int]) -> float:
    """The value of a node if only those of its trees count that meet a node with just these columns."""
    if columns_of(node) == scope:
        return value_of(node, row)
    if isinstance(node, Sum):
        return sum(weight * meets(child, row, scope) for weight, child in zip(node.weights, node.children, strict=True))
    for child in children_of(node):
        if scope <= columns_of(child):
            others = [value_of(other, row) for other in children_of(node) if other is not child]
            return float(np.prod(others)) * meets(child, row, scope)
    return 0.0


def value_of(node: Node, row: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float(np.exp(evaluate([node], row)[0]))


def columns_of(node: Node) -> frozenset[int]:
    if isinstance(node, Leaf):
        return frozenset([int(node.variable)])
    return frozenset().union(*map(columns_of, children_of(node)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", CLASSES, ids=["mixed", "given"])
def test_regions_equal_the_trees_that_meet_them(kind: str, options: dict[str, Any]) -> None:
    circuit = make_world(kind, seed=5).circuit
    roots = (circuit if isinstance(circuit, Graph) else circuit.to_graph()).roots
    prior = PRIOR if "class_prior" in options else np.array([0.0, 1.0])
    rows = EVIDENCE[[2, 4]]
    likelihood = socratic.region_log_likelihood(circuit, rows, **options)
    surprise = socratic.region_surprise(circuit, rows, **options)
    assert likelihood.scopes == surprise.scopes
    assert likelihood.scopes[0] == (0, 1, 2, 3)
    assert len(set(likelihood.scopes)) == len(likelihood.scopes) > 5

    def value(row: np.ndarray, scope: tuple[int, ...]) -> float:
        return sum(p * meets(root, row, frozenset(scope)) for p, root in zip(prior, roots, strict=True))

    for number, scope in enumerate(likelihood.scopes):
        if kind == "two shapes" and len(scope) == 1:
            continue  # its trees have nodes for single columns where the circuit has a leaf region of two
        inside = np.isin(np.arange(4), scope)
        for row, found, reason in zip(rows, likelihood.values[:, number], surprise.values[:, number], strict=True):
            if (total := value(np.full(4, NAN), scope)) == 0.0:
                assert found.isnan()  # the class never meets it
                continue
            alone, rest = value(np.where(inside, row, NAN), scope), value(np.where(inside, NAN, row), scope)
            with np.errstate(divide="ignore", invalid="ignore"):
                np.testing.assert_allclose(found, np.log(alone / total), atol=1e-9)
                expected = NAN if np.isnan(row[inside]).all() else np.log(rest) - np.log(value(row, scope))
            np.testing.assert_allclose(reason, expected, atol=1e-9)


@pytest.mark.parametrize("product", ["all-pairs", "element-wise"])
def test_regions_of_one_repetition_are_marginals(product: str) -> None:
    circuit = peaky_circuit((9, 3, 1, 3, 3, 2, product), seed=3)
    x = 3.0 * torch.randn(12, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[::2, 4] = NAN
    classes = torch.arange(12) % 2
    for model in (circuit, circuit.to_graph()):
        for options in ({"class_prior": [0.1, 0.9]}, {"class_index": classes}):
            likelihood = socratic.region_log_likelihood(model, x, **options, chunk_size=5)
            surprise = socratic.region_surprise(model, x, **options, chunk_size=5)
            whole = socratic.marginal_log_likelihood(model, x, **options)
            for number, scope in enumerate(likelihood.scopes):
                inside = torch.isin(torch.arange(9), torch.tensor(scope))
                alone, rest = x.masked_fill(~inside, NAN), x.masked_fill(inside, NAN)
                expected = socratic.marginal_log_likelihood(model, alone, **options)
                torch.testing.assert_close(likelihood.values[:, number], expected.detach(), rtol=0.0, atol=1e-9)
                reason = (socratic.marginal_log_likelihood(model, rest, **options) - whole).detach()
                reason = reason.masked_fill(alone.isnan().all(1), NAN)
                torch.testing.assert_close(surprise.values[:, number], reason, **EXACT)


def test_regions_that_joined_circuits_share_are_marginals_of_the_whole() -> None:
    circuits = [socratic.spatial_spn(2, 4, n_classes=2, n_sums=2, n_leaves=2, seed=seed).double() for seed in range(3)]
    joined = join_circuits(circuits)
    x = torch.randn(4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[0, 3] = NAN
    torch.testing.assert_close(socratic.column_surprise(joined, x), by_marginals(joined, x), **EXACT)
    found = socratic.region_log_likelihood(joined, x)
    assert len(found.scopes) == 15
    for number, scope in enumerate(found.scopes):
        alone = x.masked_fill(~torch.isin(torch.arange(8), torch.tensor(scope)), NAN)
        expected = socratic.marginal_log_likelihood(joined, alone).detach()
        torch.testing.assert_close(found.values[:, number], expected, rtol=0.0, atol=1e-9)


def test_single_columns_are_regions_too() -> None:
    circuit = peaky_circuit((6, 3, 1, 3, 3, 2, "all-pairs"))
    x = torch.randn(5, 6, dtype=torch.float64)
    regions = socratic.region_surprise(circuit, x)
    single = {scope[0]: number for number, scope in enumerate(regions.scopes) if len(scope) == 1}
    columns = socratic.column_surprise(circuit, x)
    for column, number in single.items():
        torch.testing.assert_close(regions.values[:, number], columns[:, column])


def test_a_region_that_is_passed_on_whole_counts_once() -> None:
    regions = tuple(map(socratic.Region, [(0, 1, 2), (0, 1, 2), (0, 1), (2,), (0, 1), (0,), (1,)]))
    splits = [(0, (1,)), (1, (2, 3)), (2, (4,)), (4, (5, 6))]
    structure = socratic.RegionGraph(3, regions, tuple(socratic.Partition(*split) for split in splits))
    circuit = socratic.Circuit(structure, n_classes=2, n_sums=2, n_leaves=2).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    found = socratic.region_log_likelihood(circuit, x)
    assert found.scopes == ((0, 1, 2), (0, 1), (2,), (0,), (1,))
    pair = x.clone()
    pair[:, 2] = NAN
    torch.testing.assert_close(found.values[:, 0], socratic.marginal_log_likelihood(circuit, x).detach())
    torch.testing.assert_close(found.values[:, 1], socratic.marginal_log_likelihood(circuit, pair).detach())


def test_large_regions_alone_can_be_asked_for() -> None:
    circuit = peaky_circuit((8, 3, 2, 2, 2, 2, "all-pairs"))
    x = torch.randn(3, 8, dtype=torch.float64)
    for model in (circuit, circuit.to_graph()):
        everything = socratic.region_log_likelihood(model, x)
        large = socratic.region_log_likelihood(model, x, min_columns=3)
        kept = [number for number, scope in enumerate(everything.scopes) if len(scope) >= 3]
        assert set(large.scopes) == {everything.scopes[number] for number in kept}
        torch.testing.assert_close(large.values, everything.values[:, kept])
    with pytest.raises(ValueError, match="min_columns must be at most 8, the number of columns; got 9"):
        socratic.region_surprise(circuit, x, min_columns=9)


def test_rows_are_taken_in_chunks_and_may_be_none() -> None:
    circuit = Graph(Sum((Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(3.0, 1.0))), (0.5, 0.5)))
    x = torch.randn(7, 1)
    torch.testing.assert_close(socratic.column_surprise(circuit, x, chunk_size=2), socratic.column_surprise(circuit, x))
    for model in (circuit, peaky_circuit((4, 1, 1, 2, 2, 2, "all-pairs"))):
        nothing = np.empty((0, model.n_features))
        assert socratic.column_surprise(model, nothing).shape == (0, model.n_features)
        assert len(socratic.region_log_likelihood(model, nothing).values) == 0
        assert len(socratic.region_surprise(model, nothing).values) == 0
