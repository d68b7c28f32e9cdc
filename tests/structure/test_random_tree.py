from __future__ import annotations

import pytest

from socratic.structure import random_binary_trees


def leaf_sizes(n_features: int, depth: int, n_repetitions: int = 1) -> list[int]:
    tree = random_binary_trees(n_features, depth, n_repetitions)
    return sorted(len(tree.regions[region].scope) for region in tree.leaf_regions)


def test_the_papers_structure_has_32_leaf_regions_of_24_or_25_variables() -> None:
    assert leaf_sizes(784, 5) == [24] * 16 + [25] * 16


@pytest.mark.parametrize(("n_features", "depth"), [(1, 3), (2, 5), (3, 2), (7, 3), (13, 10), (5, 0)])
def test_any_number_of_features_works_at_any_depth(n_features: int, depth: int) -> None:
    tree = random_binary_trees(n_features, depth, n_repetitions=3)
    assert tree.n_repetitions == 3
    covered = sorted(v for region in tree.leaf_regions for v in tree.regions[region].scope)
    assert covered == sorted(list(range(n_features)) * 3)


def test_depth_is_reached_but_single_variables_are_not_split() -> None:
    assert leaf_sizes(13, 10) == [1] * 13
    assert leaf_sizes(5, 2) == [1, 1, 1, 2]


def test_the_seed_alone_decides() -> None:
    assert random_binary_trees(20, 3, 2, seed=1) == random_binary_trees(20, 3, 2, seed=1)
    assert random_binary_trees(20, 3, 2, seed=1) != random_binary_trees(20, 3, 2, seed=2)


def test_repetitions_differ() -> None:
    tree = random_binary_trees(20, 1, 2)
    scopes = [tree.regions[index].scope for index in tree.leaf_regions]
    assert set(scopes[:2]) != set(scopes[2:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_features": 0, "depth": 1}, "n_features must be a whole number of at least 1; got 0"),
        ({"n_features": 4, "depth": -1}, "depth must be a whole number of at least 0; got -1"),
        ({"n_features": 4, "depth": 1.5}, "depth must be a whole number of at least 0; got 1.5"),
        ({"n_features": 4, "depth": 1, "n_repetitions": True}, "n_repetitions must be a whole number"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_binary_trees(**arguments)
