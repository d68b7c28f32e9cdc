"""Unusualness of rows with missing cells, and with values never seen, on the scale of familiar rows as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from socratic.uncertainty.conformal import Conformal, on_grid

_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Of the cells of a row that are hidden at a level."""
_MOST_ROWS, _ALIKE = 200, 20
"""Familiar rows that a level is made of, at most; and that of which nothing is left, which are all alike."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Scores on one scale, whatever number of cells a row misses.

    Copies of familiar rows without some cells, chosen at random, are levels: of few or many missing cells. A score
    becomes that which as many familiar rows exceed, as they come, as copies exceed it at the level of its row: so rows
    that miss cells at random are refused as often as others. Between two levels, both say something, the nearer one
    more. Rows that miss no more than familiar ones do on average keep their scores.

    A row with a value that no training row holds counts as at least as unusual as so many familiar rows as have
    such values.

    Attributes
    ----------
    scores, below : np.ndarray (n,)
        Of familiar rows as they come, ascending, and the share that is below each.
    n_missing : np.ndarray (L,)
        Numbers of missing cells on average, ascending: those of the familiar rows, and of the levels.
    ends : np.ndarray (L,)
        Where the knots of each level end. A level without knots leaves scores as they are.
    knots, values : np.ndarray (M,)
        Scores at a level, ascending, and what they become; linear in between, and beyond them as in the upper half.
    """

    scores: np.ndarray
    below: np.ndarray
    n_missing: np.ndarray
    ends: np.ndarray
    knots: np.ndarray
    values: np.ndarray

    @classmethod
    def fit(
        cls, scores: np.ndarray, weights: np.ndarray, n_missing: float, hidden: Sequence[tuple[np.ndarray, ...]]
    ) -> Levels:
        """From familiar rows.

        Parameters
        ----------
        scores, weights : np.ndarray (n,)
            Of the rows as they come.
        n_missing : float
            How many cells they miss on average.
        hidden : sequence of tuples of np.ndarray (m,)
            For each level, from :func:`hide`: scores, weights and numbers of missing cells.
        """
        familiar = Conformal.fit(_finite(scores), weights)
        below = _below(familiar)
        numbers, knots, values = [n_missing], [np.empty(0)], [np.empty(0)]
        for some, weight, number in hidden:
            if number.mean() <= numbers[-1]:  # nothing was left to hide
                continue
            level = Conformal.fit(_finite(some), weight)
            first = np.unique(level.scores, return_index=True)[1]
            knots.append(level.scores[first])
            values.append(np.interp(_below(level)[first], below, familiar.scores))
            numbers.append(float(number.mean()))
        ends = np.cumsum(list(map(len, knots)))
        return cls(familiar.scores, below, np.array(numbers), ends, np.concatenate(knots), np.concatenate(values))

    def __call__(self, scores: np.ndarray, n_missing: np.ndarray, unseen: np.ndarray) -> np.ndarray:
        """Scores (..., N) on the scale of familiar rows.

        Parameters
        ----------
        scores : np.ndarray (..., N)
        n_missing : np.ndarray (N,)
            How many cells are missing.
        unseen : np.ndarray (..., N)
            The share of familiar rows with values as rare as those of the row that no training row holds; 1 if it has
            no such value.
        """
        found = np.zeros_like(np.asarray(scores, dtype=np.float64))
        given = np.where(np.isinf(scores), 0.0, on_grid(scores))
        for level, near in enumerate(np.eye(len(self.n_missing))):
            share = np.interp(n_missing, self.n_missing, near)
            found = np.where(share > 0.0, found + share * self._at(level, given), found)
        found = np.where(np.isinf(scores), scores, found)
        least = np.interp(1.0 - unseen, self.below, self.scores)
        return np.where(unseen < 1.0, np.maximum(found, least), found)

    def slope(self, level: int) -> float:
        """The rise of what scores become, beyond the knots of a level."""
        knots, values = self.level(level)
        middle = len(knots) // 2
        width = knots[-1] - knots[middle]
        return float((values[-1] - values[middle]) / width) if width > 0.0 else 1.0

    def level(self, level: int) -> tuple[np.ndarray, np.ndarray]:
        """The knots of a level, and what they become."""
        begin = int(self.ends[level - 1]) if level else 0
        return self.knots[begin : self.ends[level]], self.values[begin : self.ends[level]]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to rebuild it from."""
        return dict(vars(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Levels:
        """Rebuild it from :meth:`to_arrays`."""
        found = cls(**arrays)
        sizes = np.diff(found.ends, prepend=0)
        if (
            any(array.ndim != 1 or not np.isfinite(array).all() for array in vars(found).values())
            or not len(found.scores) == len(found.below) > 0
            or not len(found.n_missing) == len(found.ends) > 0
            or not len(found.knots) == len(found.values) == found.ends[-1]
            or (sizes < 0).any()
            or any((np.diff(part) < 0.0).any() for part in (found.scores, found.below))
            or any((np.diff(found.level(level)[0]) <= 0.0).any() for level in range(len(sizes)))
            or (np.diff(found.n_missing) <= 0).any()
        ):
            raise ValueError("the levels of missing cells do not fit together")
        return found

    def _at(self, level: int, scores: np.ndarray) -> np.ndarray:
        """What scores (..., N) become at a level."""
        knots, values = self.level(level)
        if not len(knots):
            return scores
        excess = scores - np.clip(scores, knots[0], knots[-1])
        return np.interp(scores, knots, values) + self.slope(level) * excess


def hide(missing: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Copies of familiar rows in which a share of the cells is hidden that are there, a share for each level.

    Parameters
    ----------
    missing : np.ndarray (n, V) of bool
        Which cells of the rows are missing.
    rng : Generator

    Returns
    -------
    np.ndarray (m,), np.ndarray (m, V) of bool, np.ndarray (m,)
        The places of the rows that are copied, which cells of each copy are missing, and the number of its level.
    """
    n_rows, n_cells = missing.shape
    numbers = {round(share * n_cells) for share in _SHARES} - {0}
    places, hidden = [np.empty(0, dtype=np.int64)], [np.empty((0, n_cells), dtype=bool)]
    for number in sorted(numbers):
        rows = rng.permutation(n_rows)[: _MOST_ROWS if number < n_cells else _ALIKE]
        own = missing[rows].sum(1)
        n_missing = own + np.rint(number / n_cells * (n_cells - own))
        order = np.argsort(np.where(missing[rows], -1.0, rng.random((len(rows), n_cells))), axis=1)
        places.append(rows)
        hidden.append(np.argsort(order, axis=1) < n_missing[:, None])
    levels = np.repeat(np.arange(len(places)), list(map(len, places)))
    return np.concatenate(places), np.concatenate(hidden), levels


def _finite(scores: np.ndarray) -> np.ndarray:
    """Scores (n,) between those that are finite; 0 if there are none."""
    known = scores[np.isfinite(scores)]
    return np.clip(scores, known.min(), known.max()) if len(known) else np.zeros_like(scores)


def _below(familiar: Conformal) -> np.ndarray:
    """The share of rows below each of the scores, as p-values count them: (n,)."""
    return (np.cumsum(familiar.weights) - familiar.weights) / (familiar.worth + 1.0)
