"""Reasons: which parts of a row make it unusual, compared with the same parts of familiar rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from socratic.errors import check_count, check_place
from socratic.notebook import MOST_ROWS, draw_bars, number, table_of_rows
from socratic.uncertainty.conformal import Conformal

_MOST_ROWS, _MOST_NUMBERS = 1000, 500_000
"""Familiar rows that are kept to compare with, at most, and numbers in them."""
_FEWEST_ROWS, _MOST_ENTRIES = 100, 30_000_000
"""Rows that are kept in any case, and numbers that the surprises of more than these are computed from, at most."""


class Reason(NamedTuple):
    """A part of a row that speaks against it."""

    name: str
    """The column, or the region of an image."""
    excess: float
    """By how much it is more surprising than in a typical familiar row, in nats."""
    p_value: float
    """Share of familiar rows in which it is at least as surprising."""


@dataclass(frozen=True, eq=False)
class Reasons:
    """How surprising each part of each row is, given all others.

    Attributes
    ----------
    names : tuple of str
        The Q parts: columns of a table, or regions of an image.
    surprise : np.ndarray (N, Q)
        -log p(part | the rest of the row), in nats and in the units of the data; NaN where it is missing.
    excess : np.ndarray (N, Q)
        By how much that is above the median of familiar rows: comparable between parts, whatever their units.
    p_value : np.ndarray (N, Q)
        Share of familiar rows in which the part is at least as surprising.
    """

    names: tuple[str, ...]
    surprise: np.ndarray
    excess: np.ndarray
    p_value: np.ndarray

    def top(self, k: int = 3) -> list[list[Reason]]:
        """For each row the ``k`` parts that speak most against it, by their excess, most first."""
        k = check_count("k", k)
        order = np.argsort(np.where(np.isnan(self.excess), np.inf, -self.excess), axis=1, kind="stable")[:, :k]
        return [
            [
                Reason(self.names[part], float(self.excess[row, part]), float(self.p_value[row, part]))
                for part in parts
                if not np.isnan(self.excess[row, part])
            ]
            for row, parts in enumerate(order)
        ]

    def plot(self, row: int = 0, *, k: int = 10, ax: Any = None) -> Any:
        """Bars of the ``k`` parts that speak most against a row, those of at most 5 % of familiar rows highlighted.

        Parameters
        ----------
        row : int
            Which row.
        k : int
            How many parts.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        row = check_place("row", row, len(self.excess))
        (parts,) = self._of_rows(slice(row, row + 1)).top(k)
        strong = [part.p_value <= 0.05 for part in parts]
        label = "more surprising than usual by, nats"
        return draw_bars(ax, [part.name for part in parts], [part.excess for part in parts], strong, label)

    def _of_rows(self, rows: slice) -> Reasons:
        return Reasons(self.names, self.surprise[rows], self.excess[rows], self.p_value[rows])

    def _repr_html_(self) -> str:
        first = self._of_rows(slice(MOST_ROWS)).top(3)
        texts = [
            [f"{part.name}: {number(part.excess)} (p = {number(part.p_value)})" for part in parts] for parts in first
        ]
        ranks = {rank: [row[place] if place < len(row) else "" for row in texts] for place, rank in enumerate(_RANKS)}
        note = (
            "Nats by which a part is more surprising than usual, and the share of familiar rows where it is as much so."
        )
        return table_of_rows(ranks, note, n_rows=len(self.excess))


_RANKS = ("strongest reason", "second", "third")


@dataclass(frozen=True, eq=False)
class FamiliarSurprises:
    """How surprising the parts of familiar rows are, to compare others with.

    Attributes
    ----------
    surprise : np.ndarray (n, Q) of float32
        NaN where a part is missing.
    weights : np.ndarray (n,)
        Of the rows.
    """

    surprise: np.ndarray
    weights: np.ndarray

    @staticmethod
    def places(n_rows: int, entries_per_row: int = 1) -> np.ndarray:
        """Which of the familiar rows are enough to compare with: evenly spread, fewer if surprises cost much.

        ``entries_per_row`` is how many numbers the surprises of a row are computed from.
        """
        most = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_ENTRIES // entries_per_row))
        return np.arange(0, n_rows, max(1, -(-n_rows // most)))

    @classmethod
    def fit(cls, surprise: np.ndarray, weights: np.ndarray) -> FamiliarSurprises:
        """From the surprises (n, Q) of familiar rows and their weights (n,); of many parts fewer rows are kept."""
        step = max(1, -(-surprise.size // _MOST_NUMBERS))
        return cls(surprise[::step].astype(np.float32), weights[::step])

    def compare(self, names: Sequence[str], surprise: np.ndarray, log_scale: np.ndarray | float = 0.0) -> Reasons:
        """What makes rows unusual, from the surprises (N, Q) of their parts.

        ``log_scale`` (Q,) is by how much surprises in the units of the data exceed these.
        """
        if not len(names) == surprise.shape[1] == self.surprise.shape[1]:
            raise ValueError(
                f"{len(names)} names, surprises of the shape {surprise.shape} and familiar ones of the shape "
                f"{self.surprise.shape} do not fit together"
            )
        typical = np.array([_median(familiar) for familiar in self._of_parts])
        p_value = np.ones_like(surprise)
        for part, familiar in enumerate(self._of_parts):
            p_value[:, part] = familiar.p_value(surprise[:, part])
        p_value[np.isnan(surprise)] = np.nan
        return Reasons(tuple(names), surprise + log_scale, surprise - typical, p_value)

    @cached_property
    def _of_parts(self) -> list[Conformal]:
        """The surprises of each part in order, found once."""
        known = ~np.isnan(self.surprise)
        return [
            Conformal.fit(surprise[here], self.weights[here])
            for surprise, here in zip(self.surprise.T, known.T, strict=True)
        ]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to rebuild it from."""
        return {"surprise": self.surprise, "weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> FamiliarSurprises:
        """Rebuild it from :meth:`to_arrays`."""
        surprise, weights = arrays["surprise"], arrays["weights"]
        if surprise.ndim != 2 or surprise.shape[:1] != weights.shape:
            raise ValueError(f"{len(weights)} weights do not fit surprises of the shape {surprise.shape}")
        if surprise.dtype != np.float32 or not (np.isfinite(weights) & (weights >= 0.0)).all():
            raise ValueError("weights of familiar rows must be finite and at least 0, and surprises of float32")
        return cls(surprise, weights)


def _median(familiar: Conformal) -> float:
    """The median of the finite scores; 0 if there are none."""
    finite = np.isfinite(familiar.scores)
    below = np.cumsum(familiar.weights[finite])
    return float(familiar.scores[finite][np.searchsorted(below, 0.5 * below[-1])]) if finite.any() else 0.0
