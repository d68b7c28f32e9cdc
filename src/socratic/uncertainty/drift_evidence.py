"""Evidence against p-values being uniform and independent: the wealth of a gambler who bets against it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import betaln

from socratic.errors import check_count, check_number, check_place

_SHAPES = ((0.2, 1.0), (0.5, 1.0), (1.0, 3.0), (3.0, 1.0), (1.0, 0.5), (1.0, 0.2), (2.0, 2.0), (0.5, 0.5))
"""Beta densities that p-values may have after a change: rows are far more unusual than before, or more, or less, or
more often in the middle, or at both ends."""
_SHARES = (0.05, 0.3, 0.9)
"""Of the rows that have changed; the p-values of the others stay uniform. Below 1, so that no row takes everything."""
_FALLING = np.array([first < second for first, second in _SHAPES for _ in _SHARES])
_NUMBERS = ("n_rows", "log_wealth", "peak", "alarm", "since", "rising")
"""What is stored beside the bets."""
_NEXT_TO_0, _NEXT_TO_1 = 1e-300, 1.0 - 2.0**-53
N_BETS = len(_SHAPES) * len(_SHARES)


class Evidence:
    """A test martingale that waits for a change at an unknown row.

    It starts with a wealth of 1. Before the row t, counted from 0, a share of it sleeps, 1 / log2(t + 2); what wakes at
    a row is divided evenly among the bets, and stays with them. A bet multiplies what it holds by a density of the
    p-value. So the wealth is a mixture over all rows since when p-values may have another density, and over the
    densities. While p-values are uniform and independent, its mean stays 1, and the probability that it ever reaches c
    is at most 1 / c (Ville's inequality), for ever.

    Attributes
    ----------
    n_rows : int
    log_wealth : float
        After the last of them.
    peak : float
        The highest log-wealth so far.
    alarm : int or None
        The row at which the log-wealth first was at least ``limit``.
    since : int or None
        The row that the change before the alarm most probably began with.
    rising : bool or None
        Whether rows have become more unusual by then: the bet that won most was on small p-values.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.n_rows, self.log_wealth, self.peak = 0, 0.0, 0.0
        self.alarm: int | None = None
        self.since: int | None = None
        self.rising: bool | None = None
        # What each bet holds; and, of what woke at one row alone, the most that it holds, and that row.
        self._log_bets = np.full(N_BETS, -np.inf)
        self._log_best = np.full(N_BETS, -np.inf)
        self._start = np.zeros(N_BETS, dtype=np.int64)

    def add(self, p_values: np.ndarray) -> None:
        """Bet on the p-values (N,) of the rows that follow."""
        if not len(p_values):
            return
        rows = self.n_rows + np.arange(len(p_values))
        gained = np.cumsum(log_densities(p_values), 0)  # (N, bets)
        before = np.vstack([np.zeros(N_BETS), gained[:-1]])
        # What wakes at a row, brought to the units of the first row.
        woken = _log_waking(rows)[:, None] - math.log(N_BETS) - before
        held = np.logaddexp.accumulate(np.vstack([self._log_bets, woken]), 0)[1:] + gained
        log_wealth = np.logaddexp(_log_asleep(rows + 1), _log_sum(held))
        over = np.flatnonzero(log_wealth >= self.limit)
        if self.alarm is None and len(over):
            row = int(over[0])
            best, start = self._best(rows[: row + 1], woken[: row + 1])
            bet = int(np.argmax(best + gained[row]))
            self.alarm, self.since, self.rising = int(rows[row]), int(start[bet]), bool(_FALLING[bet])
        best, self._start = self._best(rows, woken)
        self._log_bets, self._log_best = held[-1], best + gained[-1]
        self.n_rows += len(p_values)
        self.log_wealth, self.peak = float(log_wealth[-1]), max(self.peak, float(log_wealth.max()))

    def to_state(self) -> tuple[np.ndarray, dict[str, object]]:
        """An array and plain data to restore it from."""
        bets = np.stack([self._log_bets, self._log_best, self._start])
        return bets, {name: getattr(self, name) for name in _NUMBERS}

    @classmethod
    def from_state(cls, limit: float, bets: np.ndarray, values: Mapping[str, object]) -> Evidence:
        """Restore it from :meth:`to_state`."""
        if bets.shape != (3, N_BETS) or bool(np.isnan(bets).any()):
            raise ValueError(f"its bets must be numbers of the shape {(3, N_BETS)}; got the shape {bets.shape}")
        found = cls(limit)
        for name in _NUMBERS:
            setattr(found, name, values[name])
        found._check()
        found._log_bets, found._log_best, found._start = bets[0], bets[1], bets[2].astype(np.int64)
        return found

    def _check(self) -> None:
        """Raise unless the numbers of a file can be those of a sequence of rows."""
        check_count("n_rows", self.n_rows, minimum=0)
        for name in ("log_wealth", "peak"):
            check_number(name, getattr(self, name))
        if (self.alarm, self.since, self.rising) != (None, None, None):
            check_place("since", self.since, check_place("alarm", self.alarm, self.n_rows) + 1)
            self.rising = bool(self.rising)

    def _best(self, rows: np.ndarray, woken: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of what woke at one row alone, up to the last of the rows, the most that each bet holds, and that row."""
        latest = woken.argmax(0)
        value = woken[latest, np.arange(N_BETS)]
        newer = value > self._log_best
        return np.where(newer, value, self._log_best), np.where(newer, rows[latest], self._start)


def log_densities(p_values: np.ndarray) -> np.ndarray:
    """Logarithms of the densities (N, bets) that are bet on."""
    p = np.clip(p_values, _NEXT_TO_0, _NEXT_TO_1)
    low, high = np.log(p), np.log1p(-p)
    found = []
    for first, second in _SHAPES:
        density = np.exp((first - 1.0) * low + (second - 1.0) * high - betaln(first, second))
        found += [np.log1p(share * (density - 1.0)) for share in _SHARES]
    return np.stack(found, 1)


def _log_asleep(rows: np.ndarray) -> np.ndarray:
    """The share that still sleeps before each row."""
    return -np.log(np.log2(rows + 2.0))


def _log_waking(rows: np.ndarray) -> np.ndarray:
    """The share that wakes at each row: what sleeps before it, less what sleeps before the next."""
    step = np.log1p(1.0 / (rows + 2.0)) / math.log(2.0)
    return _log_asleep(rows) + _log_asleep(rows + 1) + np.log(step)


def _log_sum(values: np.ndarray) -> np.ndarray:
    """log of the sum of exponentials (N,) of values (N, bets)."""
    largest = values.max(1, keepdims=True)
    return largest[:, 0] + np.log(np.exp(values - largest).sum(1))
