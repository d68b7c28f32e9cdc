from __future__ import annotations

import pytest

from socratic.circuit.layout import LEAVES, Layout, plan_layout
from socratic.structure import RegionGraph, random_binary_trees, spatial_binary_trees

GRAPHS = [
    random_binary_trees(16, 3, 2),
    random_binary_trees(13, 3, 2),
    random_binary_trees(5, 4, 3),
    random_binary_trees(4, 0, 2),
    spatial_binary_trees(7, 5, n_repetitions=3),
]


def children_of(layout: Layout, graph: RegionGraph) -> set[tuple[int, frozenset[int]]]:
    """Every (parent, children) that the layout's spans express."""
    members = [layout.leaf_regions, *(layer.regions for layer in layout.layers)]
    found = set()
    for plan in [*layout.layers, *layout.roots]:
        for fold, parent in enumerate(plan.regions):
            spans = [plan.left] if plan.right is None else [plan.left, plan.right]
            found.add((parent, frozenset(members[span.layer][span.start + fold] for span in spans)))
    return found


@pytest.mark.parametrize("graph", GRAPHS)
def test_spans_express_exactly_the_partitions(graph: RegionGraph) -> None:
    layout = plan_layout(graph)
    assert children_of(layout, graph) == {(p.parent, frozenset(p.children)) for p in graph.partitions}
    assert sorted(layout.leaf_regions) == list(graph.leaf_regions)


@pytest.mark.parametrize("graph", GRAPHS)
def test_children_come_first(graph: RegionGraph) -> None:
    for number, plan in enumerate(plan_layout(graph).layers, start=1):
        assert plan.left.layer < number
        assert plan.right is None or plan.right.layer < number


def test_a_balanced_tree_has_one_layer_per_depth() -> None:
    layout = plan_layout(random_binary_trees(784, 5, 5))
    assert [len(plan.regions) for plan in layout.layers] == [80, 40, 20, 10]
    assert [len(plan.regions) for plan in layout.roots] == [5]
    assert layout.layers[0].left.layer == LEAVES


def test_few_layers_suffice_for_uneven_images() -> None:
    assert len(plan_layout(spatial_binary_trees(28, 28)).layers) <= 20
