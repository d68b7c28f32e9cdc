"""Rows that models were asked about, watched for drift beside the answers: in spare time and bounded memory."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic.estimators import DriftMonitor, DriftReport
from socratic.serve.drift import ChangedColumn, Drift
from socratic.serve.model import Options, ServedModel, Take, leave
from socratic.serve.problems import RequestError
from socratic.uncertainty.answers import Judgement
from socratic.uncertainty.drift import N_BINS

_AT_A_TIME = 128
"""Rows that are compared at a time. Many take little more time than one, but requests wait meanwhile."""
_MOST_WAITING = 4096
"""Rows that wait to be compared, at most; those beyond are passed over, which bounds the memory."""
_MOST_MARKS = 1000


class _Answered(NamedTuple):
    """Rows that wait to be compared."""

    x: Tensor | None  # only if columns are watched
    judgement: Judgement
    when: float

    def __len__(self) -> int:
        return len(self.judgement.p_value)

    def split(self, n_rows: int) -> tuple[_Answered, _Answered]:
        """The first rows, and the others."""
        first, rest = (
            _Answered(
                None if self.x is None else self.x[part],
                Judgement(self.judgement.scores[:, part], self.judgement.p_value[part]),
                self.when,
            )
            for part in (slice(n_rows), slice(n_rows, None))
        )
        return first, rest


class _Times:
    """Roughly when rows came: marks at every so many rows, more of them apart as rows grow more."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._times: list[float] = []
        self._apart = 1

    def add(self, row: int, when: float) -> None:
        """A row that came later than those before."""
        if self._rows and row - self._rows[-1] < self._apart:
            return
        self._rows.append(row)
        self._times.append(when)
        if len(self._rows) > _MOST_MARKS:
            self._rows, self._times, self._apart = self._rows[::2], self._times[::2], 2 * self._apart

    def at(self, row: int) -> str:
        """When a row came, in UTC."""
        return _utc(self._times[bisect_right(self._rows, row) - 1])


class Watch:
    """Compares the rows that one model was asked about with its calibration rows.

    The thread that answers calls :meth:`take`, :meth:`skip` and :meth:`work`; :meth:`state` may be asked by any other.

    Parameters
    ----------
    name : str
    estimator : estimator
        A fitted one; raises ``ValueError`` if it has no calibration rows.
    window : int
        Last rows that shares and p-values are of.
    """

    def __init__(self, name: str, estimator: Any, window: int) -> None:
        self._name = name
        self._monitor = DriftMonitor(estimator, window=window)
        self._report = self._monitor.report
        self._waiting: deque[_Answered] = deque()
        self._n_taken = self._n_passed_over = self._n_skipped = 0
        self._times = _Times()
        self._started = time.time()

    @property
    def n_waiting(self) -> int:
        """Rows that are still to be compared."""
        return self._n_taken - self._report.n_rows - self._n_passed_over

    def take(self, x: Tensor, judgement: Judgement | None) -> None:
        """Have rows compared later, which the model judged by its own settings."""
        assert judgement is not None
        answered = _Answered(x if self._monitor.columns else None, judgement, time.time())
        room = max(0, _MOST_WAITING - self.n_waiting)
        self._n_taken += len(answered)
        self._n_passed_over += max(0, len(answered) - room)
        if room:
            self._waiting.append(answered.split(room)[0])

    def skip(self, x: Tensor, judgement: Judgement | None) -> None:  # noqa: ARG002 - taken like rows to compare
        """Count rows that are not to be compared."""
        self._n_skipped += len(x)

    def work(self) -> None:
        """Compare some of the rows that wait."""
        some: list[_Answered] = []
        left = _AT_A_TIME
        while left and self._waiting:
            first, rest = self._waiting.popleft().split(left)
            if len(rest):
                self._waiting.appendleft(rest)
            some.append(first)
            left -= len(first)
        row = self._report.n_rows
        for each in some:
            self._times.add(row, each.when)
            row += len(each)
        try:
            self._report = self._compare(some)
        except Exception:
            self._n_passed_over += row - self._report.n_rows
            raise

    def _compare(self, some: Sequence[_Answered]) -> DriftReport:
        judged = [each.judgement for each in some]
        judgement = Judgement(
            np.concatenate([each.scores for each in judged], 1), np.concatenate([each.p_value for each in judged])
        )
        x = [each.x for each in some if each.x is not None]
        return self._monitor.update_judged(judgement, self._monitor.model._surprises([torch.cat(x)]) if x else None)

    def state(self) -> Drift:
        """What is known by now."""
        report, settings, model = self._report, self._monitor.settings, self._monitor.model
        n_recent = int(report.p_values.sum())
        levels = np.arange(1, model.n_calibration_ + 2) / (model.n_calibration_ + 1)
        expected = np.histogram(levels, N_BINS, (0.0, 1.0))[0] * (n_recent / len(levels))
        columns = (
            ChangedColumn(each.name, self._times.at(each.since), each.since, each.alarm_row, each.more_surprising)
            for each in report.columns
        )
        return Drift(
            model=self._name,
            started=_utc(self._started),
            n_rows=self._n_taken,
            n_compared=report.n_rows,
            n_waiting=self.n_waiting,
            n_passed_over=self._n_passed_over,
            n_skipped=self._n_skipped,
            refused_share=report.refused_share,
            window=settings["window"],
            n_recent=n_recent,
            recently_refused=report.recently_refused,
            expected_refused=float(model.rejection_rate),
            p_values=tuple(report.p_values.tolist()),
            expected_p_values=tuple(expected.tolist()),
            alarm=report.alarm,
            alarm_time=None if report.alarm_row is None else self._times.at(report.alarm_row),
            alarm_row=report.alarm_row,
            since=None if report.since is None else self._times.at(report.since),
            since_row=report.since,
            log_wealth=report.log_wealth,
            limit=report.limit,
            rate=settings["rate"],
            columns_watched=settings["columns"],
            columns=tuple(columns),
        )


class Watches:
    """The watches of all models of a server, and why others have none.

    Parameters
    ----------
    models : sequence of ServedModel
    window : int
        Last rows that are shown of each; 0 watches none.
    """

    def __init__(self, models: Sequence[ServedModel], window: int) -> None:
        self._watches: dict[str, Watch] = {}
        self._problems: dict[str, str] = {}
        for model in models:
            if not window:
                self._problems[model.name] = "the server was started without (--drift-window 0)"
                continue
            try:
                self._watches[model.name] = Watch(model.name, model.estimator, window)
            except ValueError as error:
                self._problems[model.name] = str(error)

    def taker(self, model: ServedModel, options: Options) -> Take:
        """What is to be told of the rows that a model answers."""
        watch = self._watches.get(model.name)
        if watch is None:
            return leave
        return watch.take if options.watched and model.judges_alike(options) else watch.skip

    def state(self, name: str) -> Drift:
        """What is known of the rows of a model; raises :class:`RequestError` if they are not watched."""
        if name not in self._watches:
            raise RequestError(f"the rows of model {name!r} are not watched for drift: {self._problems[name]}", 404)
        return self._watches[name].state()

    def are_left(self, *, enough: bool = False) -> bool:
        """Whether rows of a model wait to be compared; or as many as are compared at a time."""
        least = _AT_A_TIME if enough else 1
        return any(watch.n_waiting >= least for watch in self._watches.values())

    def do_some(self) -> None:
        """Compare some rows, of the model with most that wait."""
        max(self._watches.values(), key=lambda watch: watch.n_waiting).work()


def _utc(when: float) -> str:
    return datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="seconds")
