"""Rows that models were asked about, watched for drift beside the answers: in spare time and bounded memory."""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic.errors import ModelFileError, check_count
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
_SECONDS_UNSAVED = 10.0
"""After which what is known is written to its file again, if there is one."""
_log = logging.getLogger("socratic.serve")


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

    def __init__(self, rows: Sequence[int] = (), times: Sequence[float] = (), apart: int = 1) -> None:
        self._rows, self._times = list(rows), list(times)
        self._apart = check_count("apart", apart)
        if len(rows) != len(times) or any(later <= row for row, later in pairwise(rows)) or any(rows[:1]):
            raise ValueError("marks must be at rows that ascend from 0, each with a time")
        for when in times:
            _utc(when)  # which raises unless it is a time

    def to_state(self) -> dict[str, Any]:
        """What to make it from again."""
        return {"rows": self._rows, "times": self._times, "apart": self._apart}

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
        self._path: Path | None = None
        self._n_saved, self._tried = 0, -math.inf  # rows in the file, and when it was last tried to be written

    def keep(self, path: Path) -> None:
        """Go on from a file, if it is there, and write what is known to it from now on."""
        if path.exists():
            self._go_on(path)
        self._path = path
        self.save()

    def _go_on(self, path: Path) -> None:
        monitor = DriftMonitor.load(path, self._monitor.model)
        if monitor.settings != self._monitor.settings:
            raise ModelFileError(
                f"{path} was begun with a window of {monitor.settings['window']} rows; start the server with "
                f"--drift-window {monitor.settings['window']}, or name another folder"
            )
        notes = monitor.notes
        try:
            times = _Times(**notes["times"])
            _utc(notes["started"])
            passed_over, skipped = (check_count(key, notes[key], minimum=0) for key in ("n_passed_over", "n_skipped"))
            if bool(monitor.report.n_rows) != bool(notes["times"]["rows"]):
                raise ValueError("its rows have no times")
        except (LookupError, OSError, OverflowError, TypeError, ValueError) as error:
            raise ModelFileError(f"the monitor in {path} is of no server ({error}); name another folder") from error
        self._monitor, self._report, self._times = monitor, monitor.report, times
        self._started, self._n_passed_over, self._n_skipped = notes["started"], passed_over, skipped
        self._n_taken = self._report.n_rows + passed_over

    @property
    def unsaved(self) -> bool:
        """Whether there is a file that lacks rows which were compared."""
        return self._path is not None and self._n_saved < self._report.n_rows

    def save_in_time(self) -> None:
        """Write the file if it lacks rows and is old enough."""
        if self.unsaved and time.monotonic() - self._tried > _SECONDS_UNSAVED:
            self.save()

    def save(self) -> None:
        """Write the file, if there is one; rows that wait are passed over by whoever goes on from it."""
        if self._path is None:
            return
        self._tried = time.monotonic()
        self._monitor.notes = {
            "started": self._started,
            "times": self._times.to_state(),
            "n_passed_over": self._n_passed_over + self.n_waiting,
            "n_skipped": self._n_skipped,
        }
        self._monitor.save(self._path)
        self._n_saved = self._report.n_rows

    @property
    def n_waiting(self) -> int:
        """Rows that are still to be compared."""
        n_passed_over, n_compared = self._n_passed_over, self._report.n_rows  # which another thread may change
        return self._n_taken - n_compared - n_passed_over

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
        # Another thread may compare rows meanwhile: each number is read once, so that the parts add up to the whole.
        n_passed_over, report, n_rows = self._n_passed_over, self._report, self._n_taken
        settings, model = self._monitor.settings, self._monitor.model
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
            n_rows=n_rows,
            n_compared=report.n_rows,
            n_waiting=n_rows - report.n_rows - n_passed_over,
            n_passed_over=n_passed_over,
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
    folder : Path, optional
        Where each has a file to go on from.
    """

    def __init__(self, models: Sequence[ServedModel], window: int, folder: Path | None = None) -> None:
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
        if folder is not None:
            for name, watch in self._watches.items():
                watch.keep(folder / f"{name}.monitor")

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
        """Whether rows of a model wait to be compared, or saved; or as many as are compared at a time."""
        if enough:
            return any(watch.n_waiting >= _AT_A_TIME for watch in self._watches.values())
        return any(watch.n_waiting or watch.unsaved for watch in self._watches.values())

    def do_some(self) -> None:
        """Compare some rows, of the model with most that wait, and save what is due."""
        busiest = max(self._watches.values(), key=lambda watch: watch.n_waiting)
        if busiest.n_waiting:
            busiest.work()
        for watch in self._watches.values():
            watch.save_in_time()

    def save(self) -> None:
        """Write the files of all, at the end."""
        for name, watch in self._watches.items():
            try:
                watch.save()
            except OSError:  # noqa: PERF203 - the others are still to be written
                _log.exception("what is known of the drift of %s could not be saved", name)


def _utc(when: float) -> str:
    return datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="seconds")
