"""Which edges share a mask: as many masks as the enumeration counts, and the same edges together."""

from __future__ import annotations

import itertools

import pytest
import torch

from socratic import Graph, Leaf, Sum
from socratic.families import Gaussian
from socratic.inference.graph.masks import masks_of
from tests.inference.graph.random_graphs import SHAPES, random_roots
from tests.oracles import edges_to_mask


@pytest.mark.parametrize(("kind", "root_dropout"), list(itertools.product(("edge", "unit"), (False, True))))
def test_masks_are_those_of_the_enumeration(kind: str, root_dropout: bool) -> None:
    for shape, seed in itertools.product(SHAPES, range(25)):
        graph = Graph(random_roots(shape, seed))
        expected = edges_to_mask(graph, kind, root_dropout)
        masks = masks_of(graph, kind, root_dropout)
        pairs = set()
        edge = 0
        for number, node in enumerate(graph.nodes):
            if not isinstance(node, Sum):
                continue
            place = graph.sum_numbers.tolist().index(number)
            assert (masks.group_of_sum[place] >= 0) == ((id(node), 0) in expected)
            for position in range(len(node.children)):
                pairs.add((expected.get((id(node), position), -1), int(masks.of_edge[edge])))
                edge += 1
        assert len({left for left, _ in pairs}) == len({right for _, right in pairs}) == len(pairs)
        assert all((left == -1) == (right == -1) for left, right in pairs)


def test_masks_follow_the_child_and_not_its_place() -> None:
    a, b = Leaf(0, Gaussian.of(0.0, 1.0)), Leaf(0, Gaussian.of(1.0, 1.0))
    graph = Graph((Sum((a, b, a), (0.3, 0.3, 0.4)), Sum((b, a, a), (0.3, 0.3, 0.4))))
    first, second = masks_of(graph, "unit", root_dropout=True).of_edge.view(2, 3).tolist()
    assert first == [second[1], second[0], second[2]]
    assert len(set(first)) == 3
    separate = masks_of(graph, "edge", root_dropout=True)
    assert separate.of_edge.tolist() == list(range(6))
    none = masks_of(graph, "unit", root_dropout=False)
    assert not none.masked.any()
    assert torch.equal(none.group_of_sum, torch.tensor([-1, -1]))
