from __future__ import annotations

import json

import numpy as np
import pytest

from socratic.structure import Partition, Region, RegionGraph, random_binary_trees

ROOT = Region((0, 1, 2))


def graph(regions: list[tuple[int, ...]], partitions: list[tuple[int, tuple[int, ...]]]) -> RegionGraph:
    return RegionGraph(3, tuple(Region(scope) for scope in regions), tuple(Partition(p, c) for p, c in partitions))


def test_a_valid_graph_reports_leaf_regions_and_repetitions() -> None:
    tree = graph([(0, 1, 2), (0, 2), (1,), (0,), (2,)], [(0, (1, 2)), (1, (3, 4))])
    assert tree.leaf_regions == (2, 3, 4)
    assert tree.n_repetitions == 1


@pytest.mark.parametrize(
    ("regions", "partitions", "message"),
    [
        ([(0, 1)], [(0, (0,))], "region 0 must be the root, with the scope 0 to 2"),
        ([(0, 1, 2)], [], "at least one partition"),
        ([(0, 1, 2)], [(0, (0,))], "the root region must not be a child"),
        ([(0, 1, 2), (0, 1), (1, 2)], [(0, (1, 2))], r"split its scope \(0, 1, 2\) without overlap"),
        ([(0, 1, 2), (0, 1), (5,)], [(0, (1, 2))], "region 2 must have distinct variables between 0 and 2"),
        ([(0, 1, 2), (1, 0), (2,)], [(0, (1, 2))], "increasing order"),
        ([(0, 1, 2), (0, 1), (2,)], [(0, (1, 7))], "names region 7 of 3 regions"),
        ([(0, 1, 2), (0,), (1,), (2,)], [(0, (1, 2, 3))], "must have one or two children; got 3"),
        ([(0, 1, 2), (0, 1), (2,), (0,)], [(0, (1, 2))], "region 3 must belong to exactly one partition; got 0"),
        (
            [(0, 1, 2), (0, 1), (2,), (0,), (1,), (0,), (1,)],
            [(0, (1, 2)), (1, (3, 4)), (1, (5, 6))],
            "region 1 has 2 partitions; only the root may have several",
        ),
        (
            [(0, 1, 2), (0, 1), (2,), (0, 1), (0, 1)],
            [(0, (1, 2)), (3, (4,)), (4, (3,))],
            "region 3 must lie below the root; its parents form a circle",
        ),
    ],
)
def test_an_invalid_graph_is_refused(
    regions: list[tuple[int, ...]], partitions: list[tuple[int, tuple[int, ...]]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        graph(regions, partitions)


def test_any_whole_numbers_will_do() -> None:
    ours = graph([(0, 1, 2), (0, 2), (1,)], [(0, (1, 2))])
    regions = tuple(Region(np.array(region.scope)) for region in ours.regions)
    theirs = RegionGraph(np.int64(3), regions, (Partition(np.int64(0), [1, 2]),))
    assert theirs == ours
    json.dumps(theirs.to_dict())
    with pytest.raises(ValueError, match="scope must hold whole numbers; got "):
        Region(("a", "b"))


def test_graphs_survive_json() -> None:
    tree = random_binary_trees(11, depth=3, n_repetitions=2, seed=3)
    assert RegionGraph.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree
