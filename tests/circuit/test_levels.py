from __future__ import annotations

import torch

import socratic
from socratic import Graph, Leaf, Product, Sum
from socratic.families import Gaussian
from tests.inference.graph.random_graphs import SHAPES, random_roots


def test_children_come_first_and_blocks_are_dense() -> None:
    for shape in SHAPES:
        for seed in range(10):
            graph = Graph(random_roots(shape, seed))
            nodes, levels = graph.nodes, graph.levels
            numbers = {id(node): number for number, node in enumerate(nodes)}
            stop = graph.n_leaves
            assert all(isinstance(node, Leaf) for node in nodes[:stop])
            for block in levels.blocks:
                assert block.start == stop
                stop = block.stop
                children = levels.children_of(block)
                assert int(children.max()) < block.start
                for node, row in zip(nodes[block.start : block.stop], children.tolist(), strict=True):
                    assert isinstance(node, Sum if block.is_sum else Product)
                    assert [numbers[id(child)] for child in node.children] == row
            assert stop == graph.n_nodes


def test_edges_belong_to_their_sums() -> None:
    graph = socratic.rat_spn(6, 2, n_sums=2, n_leaves=3, depth=2, n_repetitions=2).to_graph()
    weights = graph.log_weights().exp().tolist()
    nodes = graph.nodes
    edges = zip(
        graph.sum_numbers[graph.sum_of_edge].tolist(),
        graph.edge_child.tolist(),
        weights,
        strict=True,
    )
    place: dict[int, int] = {}
    for number, child, weight in edges:
        node = nodes[number]
        assert isinstance(node, Sum)
        position = place.get(number, 0)
        place[number] = position + 1
        assert node.children[position] is nodes[child]
        assert abs(node.weights[position] - weight) < 1e-6
    assert all(len(getattr(nodes[number], "children", ())) == count for number, count in place.items())
    assert len(place) == graph.n_sums


def test_a_level_of_an_unrolled_circuit_is_few_blocks() -> None:
    graph = socratic.rat_spn(16, 3, n_sums=3, n_leaves=3, depth=3, n_repetitions=2).to_graph()
    assert len(graph.blocks) == 7  # products of leaves, then sums and products in turn, then the roots


def test_tiles_cover_a_block() -> None:
    leaves = [Leaf(0, Gaussian.of(float(mean), 1.0)) for mean in range(3)]
    graph = Graph([Sum(tuple(leaves), (0.2, 0.3, 0.5)) for _ in range(5)])
    (block,) = graph.blocks
    tiles = list(block.tiles(6))
    assert [tile.n_nodes for tile in tiles] == [2, 2, 1]
    joined = torch.cat([graph.levels.children_of(tile) for tile in tiles])
    assert torch.equal(joined, graph.levels.children_of(block))
    assert [tile.edges() for tile in tiles] == [slice(0, 6), slice(6, 12), slice(12, 15)]
    assert sum(1 for _ in block.tiles(1)) == 5
