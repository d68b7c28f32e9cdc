"""Two checkouts side by side: ``python -m benchmarks.compare --before PATH --after PATH`` prints the ratio of times.

Each checkout gets a process of its own that imports socratic from it, and the two take turns, call by call, so that
whatever else the machine does falls on both. CPU times are those of the process on one thread, GPU times those of the
clock. Ratios are refused where the two computed different things; the same checkout on both sides shows how far they
scatter.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOLERANCE = 1e-3
"""Relative difference of the mean results up to which both have computed the same, in float32."""
SECONDS = 0.05
"""A measurement is as many calls as take about that long."""


class Case:
    """A call to time, and what to compare its result by; None where results are random in their own way."""

    def __init__(self, call: Callable[[], Any], result: Callable[[Any], Any] | None = None) -> None:
        self.call, self.result = call, result


def cases(device_name: str) -> dict[str, Case]:
    """What is timed, by names that both checkouts have."""
    import torch

    import socratic

    device = torch.device(device_name)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    batch = 200 if device.type == "cpu" else 2048
    size: dict[str, Any] = {"n_classes": 10, "n_sums": 20, "n_leaves": 20, "depth": 5, "n_repetitions": 5}
    circuit = socratic.rat_spn(784, **size).to(device)
    x = torch.randn(batch, 784, device=device)
    half = x.masked_fill(torch.rand(batch, 784, device=device) < 0.5, torch.nan)
    small: dict[str, Any] = {"n_classes": 4, "n_sums": 8, "n_leaves": 8, "depth": 4, "n_repetitions": 3}
    graph = socratic.rat_spn(64, **small).to_graph().to(device)
    rows = torch.randn(batch, 64, device=device)
    tiny = socratic.rat_spn(16, 3, n_sums=3, n_leaves=3, depth=3, n_repetitions=2).to_graph().to(device)
    few = torch.randn(batch, 16, device=device)

    def passes(model: Any, values: Any, masks: Any) -> Any:
        return list(socratic.sample_log_likelihoods(model, values, dropout=0.2, masks=masks, n_passes=3))[-1]

    def step(model: Any, values: Any) -> Any:
        generator = torch.Generator(device).manual_seed(0)
        with torch.enable_grad():
            found = socratic.training_log_likelihood(model, values, dropout=0.2, generator=generator)
            model.zero_grad()
            found.sum().backward()
        return found

    def moments(model: Any, values: Any, masks: Any) -> Any:
        return socratic.tdi(model, values, dropout=0.2, masks=masks)

    def posterior(model: Any, values: Any, masks: Any) -> Any:
        return socratic.dropout_posterior(model, values, dropout=0.2, masks=masks, method="log-moments")

    def itself(found: Any) -> Any:
        return found

    def variance(found: Any) -> Any:
        return found.relative_variance

    def deviation(found: Any) -> Any:
        return found.std

    return {
        "forward": Case(lambda: circuit.log_likelihood(x), itself),
        "forward, half missing": Case(lambda: circuit.log_likelihood(half), itself),
        "forward, one row": Case(lambda: circuit.log_likelihood(x[:1]), itself),
        "exact TDI, edge masks": Case(lambda: moments(circuit, x, "edge"), variance),
        "exact TDI, unit masks": Case(lambda: moments(circuit, x, "unit"), variance),
        "log-moments, edge masks": Case(lambda: posterior(circuit, x, "edge"), deviation),
        "log-moments, unit masks": Case(lambda: posterior(circuit, x, "unit"), deviation),
        "3 Monte Carlo passes, edge masks": Case(lambda: passes(circuit, x, "edge"), itself),
        "3 Monte Carlo passes, unit masks": Case(lambda: passes(circuit, x, "unit"), itself),
        "training step": Case(lambda: step(circuit, x), itself),
        "sampling 200 rows": Case(lambda: socratic.sample(circuit, 200)),
        "expectation": Case(lambda: socratic.expectation(circuit, half[:50]), lambda found: found.mean),
        "most probable rows": Case(lambda: socratic.mpe(circuit, half[:50]), lambda found: found.log_bound),
        "graph: forward": Case(lambda: graph.log_likelihood(rows), itself),
        "graph: training step": Case(lambda: step(graph, rows), itself),
        "graph: 3 Monte Carlo passes": Case(lambda: passes(graph, rows, "edge"), itself),
        "graph: exact TDI": Case(lambda: moments(tiny, few, "edge"), variance),
        "graph: sampling 200 rows": Case(lambda: socratic.sample(graph, 200)),
    }


def work(device: str) -> None:
    """Print the names of all cases; then answer each line, a name and a number of calls, by a line of figures."""
    import torch

    known = cases(device)
    print(json.dumps(list(known)), flush=True)

    def drain() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    clock = time.process_time if device == "cpu" else time.perf_counter
    with torch.no_grad():
        for line in sys.stdin:
            name, n_calls = json.loads(line)
            case = known[name]
            drain()
            start = clock()
            for _ in range(n_calls):
                found = case.call()
            drain()
            seconds = (clock() - start) / n_calls
            values = None if case.result is None else case.result(found).double()
            mean = None if values is None else float(values[values.isfinite()].abs().mean())
            print(json.dumps([seconds, mean]), flush=True)


class Worker:
    """A process that imports socratic from one checkout."""

    def __init__(self, checkout: Path, device: str) -> None:
        self.checkout = checkout
        path = os.pathsep.join([str(checkout / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, __file__, "--work", "--device", device]
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=checkout
        )
        check = [sys.executable, "-c", "import socratic; print(socratic.__file__)"]
        found = subprocess.run(check, env=environment, text=True, capture_output=True, check=True, cwd=checkout).stdout
        if not Path(found.strip()).is_relative_to(checkout / "src"):
            raise SystemExit(f"socratic is imported from {found.strip()}, not from {checkout}")

        self.names: list[str] = self._read()

    def time(self, name: str, n_calls: int) -> tuple[float, float | None]:
        """Seconds of a call, and the mean of its results."""
        assert self.process.stdin is not None
        print(json.dumps([name, n_calls]), file=self.process.stdin, flush=True)
        seconds, mean = self._read()
        return seconds, mean

    def _read(self) -> Any:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of {self.checkout} has ended")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


class Times:
    """What was measured of one case: seconds of both sides, and the means of their results."""

    def __init__(self) -> None:
        self.seconds: tuple[list[float], list[float]] = ([], [])
        self.means: tuple[float | None, float | None] = (None, None)

    def row(self, name: str) -> str:
        """The case as a row of the table."""
        before, after = (statistics.median(part) for part in self.seconds)
        fastest = min(self.seconds[1]) / min(self.seconds[0])
        in_turn = statistics.median(b / a for a, b in zip(*self.seconds, strict=True))
        found = f"{after / before:.2f} | {in_turn:.2f} | {fastest:.2f}"
        first, second = self.means
        if first is not None and second is not None and not abs(second - first) <= TOLERANCE * abs(first):
            found = f"refused: the mean results are {first:.6g} and {second:.6g} | |"
        return f"| {name} | {before * 1e3:.2f} | {after * 1e3:.2f} | {found} |"


def compare(before: Path, after: Path, device: str, n_pairs: int, n_rounds: int, only: str) -> dict[str, Times]:
    """Times of all cases, over some pairs of fresh processes: where a process has its memory matters, too."""
    found: dict[str, Times] = {}
    for _ in range(n_pairs):
        workers = [Worker(checkout.resolve(), device) for checkout in (before, after)]
        for name in (name for name in workers[0].names if only in name):
            times = found.setdefault(name, Times())
            warm = [[worker.time(name, 1) for _ in range(2)][-1] for worker in workers]
            times.means = warm[0][1], warm[1][1]
            n_calls = max(1, min(50, round(SECONDS / max(warm[0][0], 1e-6))))
            for number in range(n_rounds):
                for side in (0, 1) if number % 2 == 0 else (1, 0):
                    times.seconds[side].append(workers[side].time(name, n_calls)[0])
        for worker in workers:
            worker.close()
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--before", type=Path, help="a checkout")
    parser.add_argument("--after", type=Path, help="the checkout to compare with it")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of processes")
    parser.add_argument("--rounds", type=int, default=9, help="measurements of each case in each process, in turns")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.device)
        return
    if arguments.before is None or arguments.after is None:
        parser.error("--before and --after are needed")
    print("| what | before, ms | after, ms | ratio of medians | median ratio in turn | ratio of the fastest |")
    print("| --- | --: | --: | --: | --: | --: |")
    sides = arguments.before, arguments.after
    found = compare(*sides, arguments.device, arguments.pairs, arguments.rounds, arguments.only)
    print("\n".join(times.row(name) for name, times in found.items()))


if __name__ == "__main__":
    main()
