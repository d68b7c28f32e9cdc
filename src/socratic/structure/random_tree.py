"""Random binary trees with repetitions: the structure of RAT-SPNs (Peharz et al., UAI 2019)."""

from __future__ import annotations

import numpy as np

from socratic.errors import check_count
from socratic.structure.region_graph import ROOT, RegionGraph, RegionGraphBuilder


def random_binary_trees(n_features: int, depth: int, n_repetitions: int = 1, seed: int = 0) -> RegionGraph:
    """Split the variables at random into halves, ``depth`` times, in ``n_repetitions`` independent ways.

    Halves of an odd number of variables differ by one; a region of a single variable is not split
    further, so any number of features works at any depth. At ``depth`` 0 nothing is split.

    Parameters
    ----------
    n_features : int
        Number of variables.
    depth : int
        Number of splits from the root to a leaf region; a leaf region then has about
        ``n_features / 2**depth`` variables.
    n_repetitions : int
        Number of trees.
    seed : int
        The same seed gives the same structure.
    """
    n_features = check_count("n_features", n_features)
    depth = check_count("depth", depth, minimum=0)
    n_repetitions = check_count("n_repetitions", n_repetitions)
    rng = np.random.default_rng(check_count("seed", seed, minimum=0))
    builder = RegionGraphBuilder(n_features)

    def grow(region: int, variables: np.ndarray, levels: int) -> None:
        if levels == 0 or len(variables) == 1:
            return
        shuffled = rng.permutation(variables)
        halves = shuffled[: len(shuffled) // 2], shuffled[len(shuffled) // 2 :]
        children = builder.split(region, *(tuple(map(int, half)) for half in halves))
        for child, half in zip(children, halves, strict=True):
            grow(child, half, levels - 1)

    for _ in range(n_repetitions):
        if depth == 0 or n_features == 1:
            builder.split(ROOT, tuple(range(n_features)))
        else:
            grow(ROOT, np.arange(n_features), depth)
    return builder.build()
