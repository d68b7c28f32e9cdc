"""A process of one library: reads requests as lines of JSON and answers each by a line.

It stands alone, so that libraries whose requirements conflict can each have an interpreter of their own.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import socratic
from benchmarks.peers.models import BUILDERS, DISTRIBUTIONS, Model, own
from benchmarks.peers.points import Point
from benchmarks.peers.queries import QUERIES, Ready
from socratic.kernels.sums import sums_of_pairs, takes_pair_sums

CHECKED_ROWS = 8
JUDGED_ROWS = 200
LIMITS = {"cpu": signal.SIGPROF, "cuda": signal.SIGALRM}
"""What ends a process at its limit of seconds: its own on a CPU, however busy the machine is; those of the clock."""


class Worker:
    """Holds one circuit and one batch."""

    model: Model
    calls: dict[str, Callable[[int], Any]]

    def __init__(self, library: str, device: str) -> None:
        self.library, self.device = library, torch.device(device)
        self.clock = "cpu" if device == "cpu" else "wall"

    def version(self) -> str:
        """The installed release of the library."""
        return version(DISTRIBUTIONS[self.library])

    def build(self, point: dict[str, int], path: str | None) -> dict[str, Any]:
        """Build the library's circuit; this library's is read from ``path`` if there is one, others write theirs."""
        where, size = None if path is None else Path(path), Point(**point)
        if self.library == "socratic" and where is not None and where.exists():
            circuit = socratic.load(where)
            assert isinstance(circuit, socratic.Circuit)  # which is what the others write
            self.model = own(circuit)
        else:
            self.model = BUILDERS[self.library](size)
        if self.library != "socratic" and where is not None and self.model.circuit is not None:
            self.model.circuit.save(where)
        self.model.module.to(self.device)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(size.batch, size.n_features, generator=generator).to(self.device)
        y = (torch.arange(size.batch) % size.n_classes).to(self.device)
        self.x, self.y, self.n_rows = x, y, size.batch
        self.calls = {
            "forward": lambda piece: self.model.forward(x[: self.n_rows], piece),
            "training step": lambda piece: self.model.step(x[: self.n_rows], y[: self.n_rows], piece),
        }
        return {"parameters": self.model.n_parameters}

    def prepare(self) -> dict[str, float]:
        """Get ready for the queries that only this library has, and return their errors."""
        assert self.model.circuit is not None
        ready = Ready.of(self.model.circuit, self.x, self.y)
        self.calls |= {name: lambda _, name=name: ready.run(name) for name in QUERIES}  # type: ignore[misc]
        return ready.errors()

    def check(self) -> dict[str, Any]:
        """What outputs are compared by: log-likelihoods of some rows, and the gradients of the loss by the rows."""
        x, y = self.x[:CHECKED_ROWS], self.y[:CHECKED_ROWS]
        error = self.model.known_error(x)
        if error is not None:
            return {"known_error": error}
        values, gradient = self.model.forward(x, len(x)), self.model.gradient(x, y)
        return {"log_likelihood": values.tolist(), "gradient": gradient.tolist()}

    def time(self, task: str, piece: int, n_calls: int) -> dict[str, float]:
        """Seconds of a call, of the one thread that computes and by the clock.

        Those of the process would come in steps of 4 ms, because a timer of its seconds is set.
        """
        self._drain()
        start, wall = time.thread_time(), time.perf_counter()
        for _ in range(n_calls):
            self.calls[task](piece)
        self._drain()
        return {"cpu": (time.thread_time() - start) / n_calls, "wall": (time.perf_counter() - wall) / n_calls}

    def seconds_a_row(self, task: str, piece: int) -> float:
        """About how long a row takes in pieces of so many rows, judged by the first rows of a large batch."""
        self.n_rows = min(len(self.x), max(piece, JUDGED_ROWS))
        self.calls[task](piece)
        seconds = self.time(task, piece, 1)[self.clock]
        seconds, self.n_rows = seconds / self.n_rows, len(self.x)
        return seconds

    def memory(self, task: str, piece: int) -> float:
        """Peak memory in MB of a call, besides what was held before it."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self.calls[task](piece)
            return (torch.cuda.max_memory_allocated() - before) / 2**20
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        held = _resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
        self.calls[task](piece)
        return _resident("VmHWM") - held

    def ceilings(self) -> dict[str, float]:
        """Operations a second of a matrix product and bytes a second of a copy, the best of several.

        On a CPU torch's product may not take all instructions that there are: this library's kernel is tried as well.
        """
        size = 1024 if self.device.type == "cpu" else 8192
        a, b = (torch.randn(size, size, device=self.device) for _ in range(2))
        source = torch.randn(2**25 if self.device.type == "cpu" else 2**28, device=self.device)
        target = torch.empty_like(source)
        self.calls = {"product": lambda _: torch.mm(a, b), "copy": lambda _: target.copy_(source)}
        operations = {"product": 2.0 * size**3}
        weights, left, right = torch.rand(4, 24, 64 * 64), torch.rand(4, 64, 256), torch.rand(4, 64, 256)
        if self.device.type == "cpu" and takes_pair_sums(weights, left, right):
            self.calls["sums"] = lambda _: sums_of_pairs(weights, left, right)
            operations["sums"] = 2.0 * weights.numel() * left.shape[-1]
        best = {name: min(self.time(name, 0, 1)[self.clock] for _ in range(12)) for name in self.calls}
        flops = max(number / best[name] for name, number in operations.items())
        return {"flops": flops, "bytes": 2.0 * source.nbytes / best["copy"]}

    def _drain(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def _resident(field: str) -> float:
    """Memory of this process in MB, as the system counts it."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) / 2**10


def main() -> None:
    """Answer requests, a method's name and its arguments each, until there are no more."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("library", choices=list(BUILDERS))
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("limit", type=float, help="seconds for an answer")
    arguments = parser.parse_args()
    # Libraries print as they like: what they say goes to the other stream.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    worker = Worker(arguments.library, arguments.device)
    on_gpu = arguments.device == "cuda"
    timer = signal.ITIMER_REAL if on_gpu else signal.ITIMER_PROF
    for line in sys.stdin:
        method, *values = json.loads(line)
        signal.setitimer(timer, arguments.limit)
        answer = getattr(worker, method)(*values)
        signal.setitimer(timer, 0.0)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
