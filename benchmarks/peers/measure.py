"""Measuring: processes of libraries that take turns, and what is kept of it."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.peers.points import Point, Task
from benchmarks.peers.queries import QUERIES
from benchmarks.peers.worker import LIMITS
from benchmarks.records import Measures

ROOT = Path(__file__).parents[2]
PIECES = (25, 100)
"""Rows that a library may be given at a time: large batches spend much of their time on fresh memory."""
MOST_ROWS = {"cpu": 2048, "cuda": 16384}
"""Of one piece: libraries hold several numbers for every leaf and row."""
ROUNDS = 5
ROUNDS_OF_PIECES = 3
SECONDS_A_TURN = 0.03
SECONDS_OF_ROUNDS = 4.0
TOLERANCE = 2e-5
"""Relative difference of log-likelihoods up to which both have computed the same, in float32."""
GRADIENT_TOLERANCE = 1e-3
"""Difference of gradients beside the largest one."""


class NoAnswerError(Exception):
    """The process of a library ended: at its limit, or of itself."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Library:
    """A process of one library, which ends when it takes longer than its limit to answer; then another one starts."""

    def __init__(self, name: str, device: str, python: str | None, limit: float) -> None:
        self.device = device
        self._command = [python or sys.executable, "-m", "benchmarks.peers.worker", name, device, str(limit)]
        self._clock = "cpu" if device == "cpu" else "wall"
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        return subprocess.Popen(self._command, env=environment, text=True, stdin=pipe, stdout=pipe, cwd=ROOT)

    def ask(self, method: str, *arguments: Any) -> Any:
        """What the process answers; NoAnswerError if it does not."""
        self._process = process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            print(json.dumps([method, *arguments]), file=process.stdin, flush=True)
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            late = -process.wait() in LIMITS.values()
            self.close()
            raise NoAnswerError("timed_out" if late else "failed")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            with suppress(BrokenPipeError):
                self._process.communicate()
        self._process = None

    def seconds(self, task: str, piece: int, n_calls: int = 1) -> tuple[float, float]:
        """Seconds of a call, and those of the clock: of its thread on a CPU, of the clock twice on a GPU."""
        found = self.ask("time", task, piece, n_calls)
        return found[self._clock], found["wall"]


class Turn:
    """The best times of one task in one process."""

    def __init__(self, library: Library, task: str, piece: int) -> None:
        self.library, self.task, self.piece = library, task, piece
        self.memory = library.ask("memory", task, piece)
        first, _ = library.seconds(task, piece)
        self.n_calls = max(1, min(100, round(SECONDS_A_TURN / max(first, 1e-6))))
        self.seconds = self.wall = math.inf

    def take(self) -> None:
        """Measure once more."""
        found = self.library.seconds(self.task, self.piece, self.n_calls)
        self.seconds, self.wall = min(self.seconds, found[0]), min(self.wall, found[1])

    def measures(self, prefix: str) -> Measures:
        """What is kept."""
        found = {"seconds": self.seconds, "wall": self.wall, "memory": self.memory, "piece": self.piece}
        return {f"{prefix}{name}": value for name, value in found.items()}


def in_turn(turns: list[Turn]) -> None:
    """Measure all of them again and again, in both orders, so that whatever else the machine does falls on each."""
    start = time.perf_counter()
    for number in range(ROUNDS):
        for turn in turns if number % 2 == 0 else turns[::-1]:
            turn.take()
        if number > 0 and time.perf_counter() - start > SECONDS_OF_ROUNDS:
            return


def best_piece(library: Library, task: str, batch: int) -> int:
    """The number of rows at a time with which a library is fastest; a GPU takes as many as it can hold."""
    most = min(batch, MOST_ROWS[library.device])
    pieces = [piece for piece in PIECES if piece < most] if library.device == "cpu" else []
    times = dict.fromkeys([*pieces, most], math.inf)
    for _ in range(ROUNDS_OF_PIECES if pieces else 1):  # in turn: a machine that is busy for a while misleads none
        for piece in times:
            times[piece] = min(times[piece], library.ask("seconds_a_row", task, piece))
    return min(times, key=lambda piece: times[piece])


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> Measures:
    """How far the outputs are apart, as multiples of what is allowed."""
    import torch

    if "known_error" in theirs:
        return {"difference": theirs["known_error"] / TOLERANCE}
    a, b = (torch.tensor(side["log_likelihood"], dtype=torch.float64) for side in (ours, theirs))
    values = ((a - b).abs() / a.abs().clamp_min(1.0)).max() / TOLERANCE
    a, b = (torch.tensor(side["gradient"], dtype=torch.float64) for side in (ours, theirs))
    return {"difference": float(torch.maximum(values, (a - b).abs().max() / a.abs().max() / GRADIENT_TOLERANCE))}


def measure_pair(theirs: Library, ours: Library, point: Point, tasks: tuple[Task, ...]) -> dict[Task, Measures]:
    """Times, memory and parameters of a library beside this one's, on the same circuit where both can have it.

    What a peer fails to do is said in its place, and this library is measured all the same.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _pair(theirs, ours, point, tasks, str(Path(folder) / "circuit.safetensors"))


def _pair(theirs: Library, ours: Library, point: Point, tasks: tuple[Task, ...], path: str) -> dict[Task, Measures]:
    known: Measures = {}
    lost: str | None = None
    answer: dict[str, Any] | None = None
    try:
        known["peer_parameters"] = theirs.ask("build", asdict(point), path)["parameters"]
        answer = theirs.ask("check")
    except NoAnswerError as reached:
        lost = reached.why
    known["parameters"] = ours.ask("build", asdict(point), path)["parameters"]
    if answer is not None:
        known |= difference(ours.ask("check"), answer)
    found: dict[Task, Measures] = {}
    for task in tasks:
        turns = {"": Turn(ours, task, best_piece(ours, task, point.batch))}
        try:
            if lost is None:
                turns["peer_"] = Turn(theirs, task, best_piece(theirs, task, point.batch))
                in_turn(list(turns.values()))
        except NoAnswerError as reached:
            lost = reached.why
        if lost is not None:
            turns.pop("peer_", None)
            in_turn(list(turns.values()))
        measures = known | ({} if lost is None else {lost: 1.0})
        for prefix, turn in turns.items():
            measures |= turn.measures(prefix)
        found[task] = measures
    return found


def measure_queries(ours: Library, point: Point) -> dict[str, Measures]:
    """The queries that only this library has, in turn with the forward."""
    known: Measures = {"parameters": ours.ask("build", asdict(point), None)["parameters"]}
    errors = ours.ask("prepare")
    forward = Turn(ours, "forward", point.batch)
    turns = {name: Turn(ours, name, point.batch) for name in QUERIES}
    in_turn([forward, *turns.values()])
    return {
        name: known | turn.measures("") | {"forward": forward.seconds, "difference": errors[name]}
        for name, turn in turns.items()
    }
