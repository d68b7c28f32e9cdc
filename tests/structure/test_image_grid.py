from __future__ import annotations

import numpy as np
import pytest

from socratic.structure import RegionGraph, spatial_binary_trees


def leaf_blocks(graph: RegionGraph, height: int, width: int, n_channels: int = 1) -> list[np.ndarray]:
    pixels = []
    for region in graph.leaf_regions:
        image = np.zeros(n_channels * height * width, dtype=bool)
        image[list(graph.regions[region].scope)] = True
        pixels.append(image.reshape(n_channels, height, width))
    return pixels


def test_the_first_cut_halves_the_longer_side() -> None:
    tree = spatial_binary_trees(2, 4, depth=1)
    scopes = [tree.regions[index].scope for index in tree.leaf_regions]
    assert scopes == [(0, 1, 4, 5), (2, 3, 6, 7)]


@pytest.mark.parametrize("n_repetitions", [1, 4])
def test_leaf_regions_are_rectangles_with_all_channels(n_repetitions: int) -> None:
    tree = spatial_binary_trees(7, 5, 3, patch_size=2, n_repetitions=n_repetitions)
    blocks = leaf_blocks(tree, 7, 5, 3)
    assert np.sum(blocks, axis=0).tolist() == np.full((3, 7, 5), n_repetitions).tolist()
    for block in blocks:
        assert (block == block[:1]).all()
        rows, columns = np.flatnonzero(block[0].any(1)), np.flatnonzero(block[0].any(0))
        assert block[0].sum() == len(rows) * len(columns) <= 4


def test_repetitions_cut_elsewhere() -> None:
    tree = spatial_binary_trees(8, 8, depth=1, n_repetitions=3)
    sizes = [len(tree.regions[index].scope) for index in tree.leaf_regions]
    assert sizes[0] == 32
    assert len(set(sizes[::2])) == 3


def test_single_pixels_and_whole_images() -> None:
    assert len(spatial_binary_trees(28, 28).leaf_regions) == 784
    assert len(spatial_binary_trees(4, 4, patch_size=4).leaf_regions) == 1
    assert len(spatial_binary_trees(1, 1, 3, n_repetitions=2).leaf_regions) == 2
