"""Which cells of trees rows can be in, by one look at a table for each column.

A cell is a bit. The value of a column rules out cells: in every tree, those on the wrong side of the thresholds that it
is compared with. Between two neighbouring thresholds they are always the same ones, so each column has a table with an
entry for every gap. The cells that are left to a row are those in the entries of all its columns. A missing value rules
out nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_TREES_AT_A_TIME = 10
"""Tables grow with the thresholds of trees times the trees: those of all together would fit in no cache."""
WORD_BITS = 64
_WORD = np.dtype("<u8")


class _Table(NamedTuple):
    """What the values of one column leave of the cells of some trees."""

    column: int
    entry: np.ndarray  # (R + 2,) of int: by the gap of a value among the thresholds of all trees, and last if missing
    left: np.ndarray  # (entries, W, T) of bits


class CellTables:
    """The tables of T trees; the parameters are those of :class:`~socratic.circuit.forest.Forest`.

    Attributes
    ----------
    n_words : int
        Words of 64 bits that hold the cells of a tree, W.
    """

    def __init__(
        self, feature: np.ndarray, threshold: np.ndarray, left: np.ndarray, right: np.ndarray, cell: np.ndarray
    ) -> None:
        self._n_trees = len(cell)
        self.n_words = int(cell.max()) // WORD_BITS + 1
        none = np.empty(0, dtype=np.int64)
        by_level = list(levels(left, right, cell))
        tree, node = (np.concatenate([none, *(level[place] for level in by_level)]) for place in range(2))
        asked, bound = feature[tree, node], threshold[tree, node]
        self._bounds = {column: np.unique(bound[asked == column]) for column in np.unique(asked).tolist()}
        bits = np.zeros((*cell.shape, self.n_words), dtype=_WORD)  # the cells below each node
        of_tree, of_cell = np.nonzero(cell >= 0)
        word, place = np.divmod(cell[of_tree, of_cell], WORD_BITS)
        bits[of_tree, of_cell, word] = np.left_shift(1, place.astype(_WORD), dtype=_WORD)
        for level in reversed(by_level):
            bits[level] = bits[level[0], left[level]] | bits[level[0], right[level]]
        on_left, on_right = (bits[tree, side[tree, node]] for side in (left, right))
        self._groups: list[tuple[slice, np.ndarray, list[_Table]]] = []
        for start in range(0, self._n_trees, _TREES_AT_A_TIME):
            trees = slice(start, min(start + _TREES_AT_A_TIME, self._n_trees))
            every = np.ascontiguousarray(bits[trees, 0].T)  # (W, T)
            tables = []
            for column, bounds in self._bounds.items():
                here = np.flatnonzero((asked == column) & (tree >= trees.start) & (tree < trees.stop))
                if len(here):
                    own, place = np.unique(bound[here], return_inverse=True)
                    table = _left_by_gap(place, tree[here] - start, on_left[here], on_right[here], every)
                    gap = np.append(0, np.searchsorted(own, bounds, side="right"))
                    tables.append(_Table(column, np.append(gap, len(own) + 1), table))
            self._groups.append((trees, every, tables))

    def consistent(self, values: np.ndarray) -> np.ndarray:
        """The cells that rows (N, V), NaN where missing, may be in: bits (N, W, T), the first cells the lowest ones."""
        found = np.empty((len(values), self.n_words, self._n_trees), dtype=_WORD)
        gaps = {column: _gap(bounds, values[:, column]) for column, bounds in self._bounds.items()}
        for trees, every, tables in self._groups:
            cells = np.broadcast_to(every, (len(values), *every.shape)).copy()
            for table in tables:
                cells &= table.left.take(table.entry.take(gaps[table.column]), 0)
            found[:, :, trees] = cells
        return found


def first_cells(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of the cells of each tree that rows may be in, and whether there are others: (N, T), from bits."""
    found = np.full(words[:, 0].shape, -1, dtype=np.int64)
    several = np.zeros(found.shape, dtype=bool)
    for number in range(words.shape[1]):
        word = words[:, number]
        others = word & (word - 1)  # without the lowest bit
        several |= (others != 0) | ((word != 0) & (found >= 0))
        # As a float, a bit is its exponent. The 64th is a negative one.
        exponent = (word ^ others).view(np.int64).astype(np.float64).view(np.int64) >> 52 & 0x7FF
        here = (exponent > 0) & (found < 0)
        np.copyto(found, exponent + (number * WORD_BITS - 1023), where=here)
    return found, several


def set_bits(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which bits are 1 in words (P, W): places and numbers of bits, the former ascending."""
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    place, number = np.divmod(np.flatnonzero(bits.view(bool)), WORD_BITS * words.shape[1])
    return place, number


def _gap(bounds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How many of the bounds, ascending, are less than each value; one more than there are where it is missing."""
    found = np.searchsorted(bounds, values)
    found[np.isnan(values)] = len(bounds) + 1
    return found


def _left_by_gap(
    bound: np.ndarray, tree: np.ndarray, on_left: np.ndarray, on_right: np.ndarray, every: np.ndarray
) -> np.ndarray:
    """What values leave of the cells of trees: bits (R + 2, W, T) by their gap among R bounds, and all if missing.

    Parameters
    ----------
    bound, tree : ndarray (n,) of int
        Of each node that compares them: with which of the bounds, in which tree.
    on_left, on_right : ndarray (n, W)
        The cells below it.
    every : ndarray (W, T)
        All cells.
    """
    found = np.repeat(every[None], bound.max() + 3, axis=0)
    above, below = found[:-1].copy(), found[:-1].copy()
    for cells, gap, lost in ((above, bound + 1, on_left), (below, bound, on_right)):
        np.bitwise_and.at(cells.transpose(0, 2, 1), (gap, tree), ~lost)
    # A value above a bound is above all that are less, and one that is not is not above any that is more.
    found[:-1] = np.bitwise_and.accumulate(above) & np.bitwise_and.accumulate(below[::-1])[::-1]
    return found


def levels(left: np.ndarray, right: np.ndarray, cell: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The trees and numbers of the inner nodes of all trees (T, M), one level after the other, from the roots down.

    Raises ``ValueError`` where nodes lead to others that were met before: such trees may have no end.
    """
    n_met = 0
    tree = np.arange(len(cell))
    node = np.zeros(len(cell), dtype=np.int64)
    while True:
        inner = cell[tree, node] < 0
        tree, node = tree[inner], node[inner]
        if not len(tree):
            return
        n_met += len(tree)
        if n_met > cell.size:
            raise ValueError("left and right of a forest must lead to nodes of their own")
        yield tree, node
        tree, node = np.concatenate([tree, tree]), np.concatenate([left[tree, node], right[tree, node]])
