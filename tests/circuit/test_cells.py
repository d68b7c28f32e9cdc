"""Tables of cells, against walks down the trees, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.circuit.cells import first_cells, set_bits
from socratic.circuit.forest import Forest
from socratic.families import Categorical, Gaussian
from socratic.learning.structure import grow_forest
from tests.oracles import consistent_cells

FAMILIES = [Gaussian(), Gaussian(), Categorical(5), Gaussian()]


def grow(n_trees: int, most_cells: int, n_rows: int = 1500) -> Forest:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(n_rows, 2)).round(1), rng.integers(5, size=n_rows), rng.normal(size=n_rows)])
    return grow_forest(x, rng.integers(3, size=n_rows), FAMILIES, 3, n_trees=n_trees, most_cells=most_cells)


@pytest.mark.parametrize(("n_trees", "most_cells"), [(1, 2), (3, 64), (12, 65), (2, 200)])
def test_rows_find_the_cells_that_walks_find(n_trees: int, most_cells: int) -> None:
    forest = grow(n_trees, most_cells)
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=(60, 2)), rng.integers(5, size=60), rng.normal(size=60)])
    thresholds = forest.threshold[(forest.cell < 0) & (forest.feature == 0)]
    x[:20, 0] = np.resize(thresholds[thresholds != 0], 20)  # on a threshold is on the left
    x[20:30, 1] = np.nextafter(x[20:30, 1], np.inf)
    x[0, 3], x[1, 3] = 1e300, -1e300
    x[rng.random(x.shape) < 0.2] = np.nan
    x[-1] = np.nan
    expected = consistent_cells(forest, x)
    words = forest.cell_tables.consistent(forest.columns.ranked(x))
    assert words.shape == (60, -(-int(forest.cell.max() + 1) // 64), n_trees)
    row, tree = np.divmod(np.arange(60 * n_trees), n_trees)
    member, cell = set_bits(words[row, :, tree])
    found = np.zeros_like(expected)
    found[row[member], tree[member], cell] = True
    assert (found == expected).all()
    first, several = first_cells(words)
    assert (first == expected.argmax(2)).all()
    assert (several == (expected.sum(2) > 1)).all()
    assert expected[-1].sum() == (forest.count > 0).sum()  # where all is missing, all is possible


def test_the_highest_bit_of_a_word_is_a_cell_like_others() -> None:
    words = np.array([[[1 << 63, 0, 1]], [[1 << 63 | 1 << 62, 1 << 5, 1 << 31 | 1 << 63]]], dtype="<u8")
    words = np.concatenate([words, words[::-1]], 1)  # two words for each of three trees
    first, several = first_cells(words)
    assert first.tolist() == [[63, 64 + 5, 0], [62, 5, 31]]
    assert several.tolist() == [[True, False, True], [True, False, True]]


def test_a_tree_that_is_one_cell_holds_every_row() -> None:
    x = np.zeros((4, 4))
    forest = grow_forest(x, np.array([0, 0, 1, 1]), FAMILIES, 2, n_trees=2)
    assert (forest.cell_tables.consistent(np.array([[0.0, np.nan, 9.0, 1.0]])) == 1).all()
