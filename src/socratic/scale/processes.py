"""Files shared out among processes of this machine."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection, get_context
from typing import Any

from socratic.scale.files import FileScorer, Outcome
from socratic.scale.manifest import InputFile


def run_processes(scorer: FileScorer, files: Sequence[InputFile], n_jobs: int) -> Iterator[Outcome]:
    """As many files at a time as there are processes, each given another one when it has done the last."""
    left = iter(files)
    outcomes: list[Outcome] = []
    busy: list[Any] = []
    with _workers(scorer, min(n_jobs, len(files))) as links:
        idle = links
        while True:
            for link, file in zip(idle, left, strict=False):
                link.send(file)
                busy.append(link)
            yield from outcomes
            if not busy:
                return
            idle = connection.wait(busy)
            busy = [link for link in busy if link not in idle]
            outcomes = [_received(link) for link in idle]


def _received(link: Any) -> Outcome:
    try:
        found = link.recv()
    except (EOFError, ConnectionResetError):
        raise ChildProcessError(
            "a process that scored files was killed, for want of memory perhaps; start again, with fewer files at a "
            "time (--jobs): what is done will not be done again"
        ) from None
    if isinstance(found, Outcome):
        return found
    raise found


@contextmanager
def _workers(scorer: FileScorer, number: int) -> Iterator[list[Any]]:
    """Ends of pipes to processes that take files and give outcomes."""
    fork = _can_fork(scorer)
    context: Any = get_context("fork" if fork else "spawn")
    links, processes = [], []
    gc.freeze()  # else the first collection in each process would write to all that they share
    try:
        for _ in range(number):
            ours, theirs = context.Pipe()
            links.append(ours)
            process = context.Process(target=_work, args=(scorer, theirs, links if fork else []), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
        yield links
    finally:
        gc.unfreeze()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


def _can_fork(scorer: FileScorer) -> bool:
    """Whether processes may begin as copies of this one, and share the libraries and the model with it.

    GPUs and the clients of object stores do not survive that, nor do the system's own libraries outside Linux.
    """
    model = scorer.scorer.load().model
    places = (scorer.dataset, scorer.output, scorer.scorer.model)
    on_processor = model.circuit_.device.type == "cpu"
    return sys.platform == "linux" and on_processor and all(place.local is not None for place in places)


def _work(scorer: FileScorer, link: Any, inherited: Sequence[Any]) -> None:
    """Score the files that come, until nobody is there any more."""
    for other in inherited:
        other.close()  # while copies hold the other end, nobody sees that the first process is gone
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leaves nothing half-written
    try:
        while True:
            file = link.recv()
            try:
                found: Any = scorer(file)
            except Exception as error:
                found = error
            link.send(found)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass
