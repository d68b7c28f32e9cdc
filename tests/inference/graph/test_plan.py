"""Plans: what is random, what is shared, and how much of it is looked at."""

from __future__ import annotations

import pytest
import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.families import Gaussian
from socratic.inference.graph.masks import masks_of
from socratic.inference.graph.plan import LeafStep, OverBudgetError, Plan, ProductStep, compile_plan
from socratic.inference.graph.sharing import Sharing, sharing_of


def mixture(variable: int) -> Sum:
    return Sum((Leaf(variable, Gaussian.of(0.0, 1.0)), Leaf(variable, Gaussian.of(1.0, 1.0))), (0.5, 0.5))


def sharing(graph: Graph, *, leaf_groups: list[int] | None = None, masks: str = "edge") -> Sharing:
    groups = None if leaf_groups is None else torch.tensor(leaf_groups)
    return sharing_of(graph, masks_of(graph, masks, root_dropout=False), groups)


def plan(graph: Graph, budget: int = 10**5) -> Plan:
    masks = masks_of(graph, "edge", root_dropout=False)
    return compile_plan(graph, masks, sharing_of(graph, masks, None), budget)


def test_shared_leaves_are_certain_and_make_no_dag() -> None:
    leaf, other = Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 1.0))
    inner = [Sum((leaf, other), (0.5, 0.5)), Sum((other, leaf), (0.1, 0.9))]
    graph = Graph(Sum(tuple(inner), (0.5, 0.5)))
    found = sharing(graph)
    assert found.stochastic.tolist() == [False, False, True, True, True]
    assert found.is_tree
    assert not sharing(graph, masks="unit").is_tree  # the sums have the same children, so the same masks
    assert not sharing(graph, leaf_groups=[-1, -1]).is_tree


def test_factors_of_a_shared_product_are_shared() -> None:
    """Each sum has one parent, and yet both roots depend on it."""
    part = Product((mixture(0), mixture(1)))
    graph = Graph((Sum((part,), (1.0,)), Sum((part, Product((mixture(0), mixture(1)))), (0.5, 0.5))))
    found = sharing(graph)
    assert not found.is_tree
    names = {id(node): bool(found.shared[number]) for number, node in enumerate(graph.nodes)}
    assert all(names[id(child)] for child in part.children)
    moments = socratic.tdi(graph, [[0.0, 0.0]], dropout=0.3)
    assert moments.relative_covariance[0, 0, 1] > 0


def test_root_sums_keep_their_children() -> None:
    root = mixture(0)
    graph = Graph((root, Sum((root,), (1.0,))))
    assert not sharing(graph).stochastic.any()
    masks = masks_of(graph, "edge", root_dropout=True)
    assert sharing_of(graph, masks, None).stochastic.sum() == 2


def test_a_component_is_looked_at_once() -> None:
    shared = mixture(0)
    graph = Graph([Sum((Product((shared, mixture(1))), Product((shared, mixture(1)))), (0.5, 0.5)) for _ in range(4)])
    found = plan(graph)
    assert found.pairs_only
    # The shared sum with itself, the eight others, four roots with themselves, products of two of these, and six pairs
    # of roots, which meet only in the shared sum, with each child of the first beside the second.
    assert found.n_entries < 50
    assert torch.equal(found.pairs, found.pairs.T)


@pytest.mark.parametrize("budget", [0, 5, 20])
def test_the_budget_is_kept(budget: int) -> None:
    graph = socratic.rat_spn(4, 2, n_sums=3, n_leaves=3, depth=2, n_repetitions=1).to_graph()
    with pytest.raises(OverBudgetError):
        plan(graph, budget)


def test_entries_come_after_what_they_need() -> None:
    graph = socratic.rat_spn(8, 2, n_sums=2, n_leaves=2, depth=3, n_repetitions=2).to_graph()
    found = plan(graph)
    stop = 1
    for step in found.steps:
        assert step.start >= stop
        stop = step.stop
        assert not isinstance(step, LeafStep)  # leaves are certain here
        needed = step.parts if isinstance(step, ProductStep) else step.entry
        assert int(needed.max()) < step.start
    assert stop == found.n_entries
