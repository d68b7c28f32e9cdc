"""Drift: whether new rows are still like those that a model was calibrated on; since when, and in which columns.

Scores of rows are ranked among the calibration rows and all rows before them, which makes p-values that are independent
and uniform as long as all of these rows are exchangeable; bets against that are won when they are not any more. Several
sequences of scores are watched at once: how unusual rows are, by each model that says so, and how surprising each
column is. What is won on one of them says nothing of the odds of another, so the permitted share of false alarms is
divided among them.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from socratic.errors import check_count, check_number, check_place
from socratic.notebook import table_of_facts
from socratic.uncertainty.answers import Judgement
from socratic.uncertainty.drift_evidence import Evidence
from socratic.uncertainty.drift_ranks import Ranks

N_BINS = 20
"""Of the histogram of p-values."""
_AT_A_TIME = 2048
"""Rows that are bet on at a time, which bounds the memory."""


class ColumnDrift(NamedTuple):
    """A column whose surprises have changed."""

    name: str
    alarm_row: int
    """The row that proved it, counted from 0."""
    since: int
    """The row that the change most probably began with."""
    more_surprising: bool
    """Whether it is more surprising than before; otherwise it is less so, or more often missing."""


@dataclass(frozen=True, eq=False)
class DriftReport:
    """What is known of the rows so far, which are counted from 0.

    Attributes
    ----------
    n_rows, n_refused : int
        All rows, and those refused as unfamiliar.
    p_values : np.ndarray (20,)
        How many of the last rows (the window of the monitor) have a p-value in each twentieth from 0 to 1; about as
        many in each while rows are familiar.
    recently_refused : float
        The share of these last rows that was refused.
    log_wealth, limit : float
        Logarithm of what is won by betting that rows have become more or less unusual, the highest so far, and from
        where on that is an alarm.
    alarm_row : int or None
        The row at which there first was an alarm, by the rows as a whole or by a column.
    since : int or None
        The row that the change most probably began with.
    columns : tuple of ColumnDrift
        Those that have changed, the first alarm first.
    """

    n_rows: int
    n_refused: int
    p_values: np.ndarray
    recently_refused: float
    log_wealth: float
    limit: float
    alarm_row: int | None
    since: int | None
    columns: tuple[ColumnDrift, ...]

    @property
    def alarm(self) -> bool:
        """Whether rows have ceased to be like those that the model was calibrated on."""
        return self.alarm_row is not None

    @property
    def refused_share(self) -> float:
        """Of all rows."""
        return self.n_refused / max(self.n_rows, 1)

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "alarm": "no" if self.alarm_row is None else f"yes, by row {self.alarm_row:,}",
            "changed since row": None if self.since is None else f"{self.since:,}",
            "changed columns": ", ".join(column.name for column in self.columns) or None,
            "rows": f"{self.n_rows:,}",
            "refused": f"{self.refused_share:.1%}, {self.recently_refused:.1%} of the last {self.p_values.sum():,}",
            "evidence": f"{self.log_wealth:.2f}, an alarm from {self.limit:.2f}",
        }
        return table_of_facts(facts, "Whether rows are like those that the model was calibrated on; counted from 0.")

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        plain = {**asdict(self), "p_values": self.p_values.tolist()}
        columns = [column._asdict() for column in self.columns]
        return {"alarm": self.alarm, "refused_share": self.refused_share, **plain, "columns": columns}


class _Watched(NamedTuple):
    """One sequence of scores: their ranks, and the evidence against these being uniform."""

    ranks: Ranks
    evidence: Evidence

    def add(self, scores: np.ndarray, uniform: np.ndarray) -> None:
        """Scores (N,) of the rows that follow, and a random number for each."""
        self.evidence.add(self.ranks.p_values(scores, uniform))


class Drift:
    """An alarm for a sequence of rows, raised with a probability of at most ``rate`` while all of them are familiar.

    Parameters
    ----------
    references : sequence of np.ndarray (n,)
        How unusual calibration rows are: those of each fold, by its model.
    columns : mapping of np.ndarray (m,)
        How surprising each column is in calibration rows, by the model that scores new rows; empty if it has seen them.
        Then a change is noticed only if it comes after the first rows.
    rate : float
        The permitted probability of a false alarm, however many rows come.
    window : int
        Last rows that the histogram is of.
    seed : int
        Decides how ties are broken.
    """

    def __init__(
        self,
        references: Sequence[np.ndarray],
        columns: Mapping[str, np.ndarray],
        *,
        rate: float,
        window: int,
        seed: int,
    ) -> None:
        self.rate = check_number("rate", rate, minimum=1e-12, maximum=0.5)
        self.window = check_count("window", window)
        self.seed = check_count("seed", seed, minimum=0)
        self.n_rows = self.n_refused = 0
        self.names = tuple(columns)
        self._recent: deque[tuple[float, bool]] = deque(maxlen=self.window)
        halves = 2.0 if columns else 1.0  # rows as a whole have one half of the rate, columns the other
        self.limit = math.log(halves * len(references) / self.rate)
        column_limit = math.log(2.0 * max(1, len(columns)) / self.rate)
        self._rows = [_Watched(Ranks(each), Evidence(self.limit)) for each in references]
        self._columns = [_Watched(Ranks(each), Evidence(column_limit)) for each in columns.values()]
        digest = hashlib.blake2b(repr(self.names).encode(), digest_size=16)
        for each in (*references, *columns.values()):
            digest.update(np.ascontiguousarray(each).tobytes())
        self.fingerprint = digest.hexdigest()
        """Names what new rows are compared with."""

    def add(self, judgement: Judgement, surprises: np.ndarray | None, rejection_rate: float) -> None:
        """Take in the rows that follow.

        Parameters
        ----------
        judgement : Judgement
            Of N rows, by the models whose calibration rows there are.
        surprises : np.ndarray (N, V), optional
            Of their columns, NaN where a cell is missing; only if columns are watched.
        rejection_rate : float
            P-values up to this are those of refused rows.
        """
        unusual = np.where(np.isnan(judgement.scores), np.inf, judgement.scores)
        values = unusual if surprises is None else np.vstack([unusual, surprises.T])
        watched = [*self._rows, *self._columns]
        if len(values) != len(watched):
            raise ValueError(f"there must be scores for {len(watched)} sequences; got {len(values)}")
        for start in range(0, values.shape[1], _AT_A_TIME):
            some = values[:, start : start + _AT_A_TIME]
            uniform = self._uniform(some.shape[1])
            for each, scores, u in zip(watched, some, uniform.T, strict=True):
                each.add(scores, u)
            self.n_rows += some.shape[1]
        refused = judgement.p_value <= rejection_rate
        self.n_refused += int(refused.sum())
        last = slice(-self.window, None)
        self._recent.extend(zip(judgement.p_value[last].tolist(), refused[last].tolist(), strict=True))

    def report(self) -> DriftReport:
        """What is known by now."""
        recent = np.array([p_value for p_value, _ in self._recent])
        counts = np.histogram(recent, N_BINS, (0.0, 1.0))[0]
        found = [each.evidence for each in (*self._rows, *self._columns)]
        alarms = [(each.alarm, each.since) for each in found if each.alarm is not None]
        first, since = min(alarms, key=lambda alarm: alarm[0], default=(None, None))
        changed = (
            ColumnDrift(name, each.evidence.alarm, each.evidence.since, bool(each.evidence.rising))
            for name, each in zip(self.names, self._columns, strict=True)
            if each.evidence.alarm is not None and each.evidence.since is not None
        )
        return DriftReport(
            n_rows=self.n_rows,
            n_refused=self.n_refused,
            p_values=counts,
            recently_refused=float(np.mean([refused for _, refused in self._recent])) if self._recent else 0.0,
            log_wealth=max(each.evidence.peak for each in self._rows),
            limit=self.limit,
            alarm_row=first,
            since=since,
            columns=tuple(sorted(changed, key=lambda column: column.alarm_row)),
        )

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain data to go on from."""
        arrays: dict[str, np.ndarray] = {}
        values = []
        for number, (ranks, evidence) in enumerate((*self._rows, *self._columns)):
            bets, known = evidence.to_state()
            arrays |= {f"{number}.places": ranks.places, f"{number}.counts": ranks.counts, f"{number}.bets": bets}
            values.append(known)
        counts = {"n_rows": self.n_rows, "n_refused": self.n_refused, "recent": [list(each) for each in self._recent]}
        return arrays, {**counts, "fingerprint": self.fingerprint, "sequences": values}

    def restore(self, arrays: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> None:
        """Go on from what :meth:`to_state` gave; raises if that had other rows to compare with."""
        if config["fingerprint"] != self.fingerprint:
            raise ValueError("it was saved by a monitor of another model; start a new one")
        watched = []
        for number, (before, known) in enumerate(zip((*self._rows, *self._columns), config["sequences"], strict=True)):
            places, counts, bets = (arrays[f"{number}.{key}"] for key in ("places", "counts", "bets"))
            evidence = Evidence.from_state(before.evidence.limit, bets, known)
            watched.append(_Watched(Ranks.restored(places, counts), evidence))
        self._rows, self._columns = watched[: len(self._rows)], watched[len(self._rows) :]
        if {each.evidence.n_rows for each in watched} != {config["n_rows"]}:
            raise ValueError("its sequences must all be of as many rows as it has watched")
        self.n_rows = config["n_rows"]
        self.n_refused = check_place("n_refused", config["n_refused"], self.n_rows + 1)
        self._recent.extend((float(p_value), bool(refused)) for p_value, refused in config["recent"])

    def _uniform(self, n_rows: int) -> np.ndarray:
        """Random numbers (n, sequences) of the rows that follow, the same however rows come in batches."""
        source = np.random.PCG64(self.seed)
        width = len(self._rows) + len(self._columns)
        source.advance(self.n_rows * width)
        return np.random.Generator(source).random((n_rows, width))


def draws(scores: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Those of the scores (n, ...) of weighted rows that are a sample of what the weights stand for.

    A row is kept with a probability in proportion to its weight; all are, if the weights are equal.
    """
    return scores[rng.random(len(scores)) * weights.max(initial=0.0) < weights]
