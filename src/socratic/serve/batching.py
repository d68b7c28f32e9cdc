"""Small requests answered together: they wait for each other for a moment, and one thread computes."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

_IDLE_SECONDS = 0.1
"""Without a request, after which there is time for chores."""
_SHARE_OF_CHORES = 0.03
"""Of the time spent on answers, which chores may take while requests come."""
_MOST_SECONDS_SAVED = 0.2
"""For them."""
_log = logging.getLogger("socratic.serve")
Compute = Callable[[list[Any]], Sequence[Any]]
"""Answers what several requests ask, with one result for each."""


@dataclass(frozen=True, eq=False)
class _Job:
    key: Hashable
    asked: Any
    size: int
    compute: Compute
    result: asyncio.Future[Any]
    arrived: float

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for it."""
        return not self.result.done()


class Chores(Protocol):
    """Work that nobody waits for."""

    def are_left(self, *, enough: bool = False) -> bool:
        """Whether there is something to do; or enough of it to be worth while between answers."""

    def do_some(self) -> None:
        """Do some of it."""


class Batcher:
    """A thread that answers requests, those of one key together.

    Parameters
    ----------
    wait_ms : float
        How long the first request waits for others, at most.
    rows_together : int
        Rows that are answered together, at most, but for requests that have more.
    watch : callable, optional
        Told the rows of every group that is answered together, and the seconds that took.
    chores : Chores, optional
        Done by the same thread when nothing is asked, and otherwise in a small share of the time.
    """

    def __init__(
        self,
        wait_ms: float,
        rows_together: int,
        watch: Callable[[int, float], None] | None = None,
        chores: Chores | None = None,
    ) -> None:
        self._wait, self._most, self._watch, self._chores = wait_ms / 1000.0, rows_together, watch, chores
        self._saved = 0.0  # seconds that chores may take while requests come
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="socratic-answers", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what was asked so far, and end."""
        self._jobs.put(None)
        self._thread.join()

    async def answer(self, key: Hashable, asked: Any, size: int, compute: Compute) -> Any:
        """What ``compute`` says of ``asked``.

        Parameters
        ----------
        key : hashable
            Requests of the same key may be given to ``compute`` together.
        asked : object
        size : int
            Its rows.
        compute : callable
        """
        result = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(key, asked, size, compute, result, time.monotonic()))
        return await result

    def _work(self) -> None:
        while (first := self._next()) is not None:
            jobs, ended = self._collect(first)
            groups: dict[Hashable, list[_Job]] = {}
            for job in jobs:
                if job.wanted:
                    groups.setdefault(job.key, []).append(job)
            for group in groups.values():
                self._answer_group(group)
            if ended:
                return
            if self._chores is not None and self._saved > 0.0 and self._chores.are_left(enough=True):
                self._saved -= _seconds_of(self._chores)

    def _next(self) -> _Job | None:
        """The next job, or the end; chores are done until it comes."""
        while self._chores is not None and self._chores.are_left():
            try:
                return self._jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:  # noqa: PERF203 - it is what is waited for
                _seconds_of(self._chores)
        return self._jobs.get()

    def _collect(self, first: _Job) -> tuple[list[_Job], bool]:
        """The jobs that come until the first one has waited long enough, and whether the end came after them."""
        jobs, n_rows = [first], first.size
        while n_rows < self._most:
            left = first.arrived + self._wait - time.monotonic()
            try:
                job = self._jobs.get(timeout=left) if left > 0.0 else self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return jobs, True
            jobs.append(job)
            n_rows += job.size
        return jobs, False

    def _answer_group(self, group: list[_Job]) -> None:
        started = time.monotonic()
        try:
            results = group[0].compute([job.asked for job in group])
        except Exception as error:
            if len(group) == 1:
                _deliver(group[0], error=error)
                return
            _log.warning("%d requests are answered one by one, as they failed together", len(group))
            for job in group:  # one of them is no reason for the others to fail
                self._answer_group([job])
            return
        seconds = time.monotonic() - started
        self._saved = min(self._saved + _SHARE_OF_CHORES * seconds, _MOST_SECONDS_SAVED)
        if self._watch is not None:
            self._watch(sum(job.size for job in group), seconds)
        for job, result in zip(group, results, strict=True):
            _deliver(job, result)


def _seconds_of(chores: Chores) -> float:
    """Do some chores, and say how long that took; what goes wrong with them is no reason not to answer."""
    started = time.monotonic()
    try:
        chores.do_some()
    except Exception:
        _log.exception("what was to be done beside answers failed")
    return time.monotonic() - started


def _deliver(job: _Job, result: Any = None, error: Exception | None = None) -> None:
    """Hand a result to whoever waits for it, in the loop where they do."""

    def hand_over() -> None:
        if not job.wanted:
            return
        if error is None:
            job.result.set_result(result)
        else:
            job.result.set_exception(error)

    try:
        job.result.get_loop().call_soon_threadsafe(hand_over)
    except RuntimeError:  # the loop has ended, and with it whoever waited
        _log.warning("an answer came after the server had ended")
