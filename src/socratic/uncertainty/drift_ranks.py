"""Ranks of scores among all before them: p-values that are independent of each other, in bounded memory."""

from __future__ import annotations

import numpy as np

_DROPPED_BITS = 42
"""Of a float64 number its sign, exponent and 10 bits of the mantissa are compared: scores that differ by less than a
thousandth count as tied. The grid is the same for all data, so that comparing on it costs precision and no validity."""
_BLOCK = 128
"""Rows that are compared with each other at a time."""
_SIGN = np.int64(2**63 - 1)


class Ranks:
    """How many of the scores so far lie where.

    If all scores are exchangeable, those it starts with and those that follow, then the p-values of those that follow
    are independent and uniform on (0, 1), however few it starts with.

    Parameters
    ----------
    scores : np.ndarray (n,)
        To start with; NaN counts as a score below all others.
    """

    def __init__(self, scores: np.ndarray) -> None:
        self.places, self.counts = np.unique(_places(scores), return_counts=True)

    @classmethod
    def restored(cls, places: np.ndarray, counts: np.ndarray) -> Ranks:
        """Those with these :attr:`places` and :attr:`counts`."""
        if places.ndim != 1 or places.shape != counts.shape or (places[1:] <= places[:-1]).any() or (counts <= 0).any():
            raise ValueError("its ranks must be ascending places, each with a count above 0")
        found = cls(np.empty(0))
        found.places, found.counts = places.astype(np.int64), counts.astype(np.int64)
        return found

    @property
    def n_scores(self) -> int:
        """Scores so far."""
        return int(self.counts.sum())

    def p_values(self, scores: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """P-values (N,) of scores, each among all before it, which they are counted among from then on.

        Each is (scores above it, plus u times those equal to it and itself) / (all scores and itself).

        Parameters
        ----------
        scores : np.ndarray (N,)
            In the order in which they came.
        uniform : np.ndarray (N,)
            The random u of each, from [0, 1): ties are broken by it.
        """
        places = _places(scores)
        blocks = range(0, len(places), _BLOCK)
        found = [self._block(places[start : start + _BLOCK], uniform[start : start + _BLOCK]) for start in blocks]
        return np.concatenate([np.empty(0), *found])

    def _block(self, places: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        n_before = np.append(0, np.cumsum(self.counts))
        first, last = (np.searchsorted(self.places, places, side=side) for side in ("left", "right"))
        earlier = np.tri(len(places), k=-1, dtype=bool)
        above = n_before[-1] - n_before[last] + ((places > places[:, None]) & earlier).sum(1)
        equal = n_before[last] - n_before[first] + ((places == places[:, None]) & earlier).sum(1)
        n_all = n_before[-1] + np.arange(1, len(places) + 1)
        self._add(places)
        return (above + uniform * (equal + 1)) / n_all

    def _add(self, places: np.ndarray) -> None:
        new, counts = np.unique(places, return_counts=True)
        at = np.searchsorted(self.places, new)
        known = at < len(self.places)
        known[known] = self.places[at[known]] == new[known]
        self.counts[at[known]] += counts[known]
        self.places = np.insert(self.places, at[~known], new[~known])
        self.counts = np.insert(self.counts, at[~known], counts[~known])


def _places(scores: np.ndarray) -> np.ndarray:
    """Where scores lie on the grid: whole numbers that grow with them."""
    lowest = np.where(np.isnan(scores), -np.inf, scores).astype(np.float64) + 0.0  # -0.0 becomes 0.0
    bits = lowest.view(np.int64)
    ordered = np.where(bits < 0, bits ^ _SIGN, bits)
    return np.where(np.isnan(scores), np.iinfo(np.int64).min, ordered >> _DROPPED_BITS)
