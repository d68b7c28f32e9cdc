"""``socratic predict`` on a large table of mixed columns, now and before: wall and process time of whole programs.

``python -m benchmarks.predict --before PATH``, where PATH is another checkout.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parents[1]
N_TRAINING = 5_000


class Cost(NamedTuple):
    """Seconds of a program, and the most memory that it had, in bytes."""

    wall: float
    process: float
    memory: float


def make_table(n_rows: int, seed: int, n_numbers: int = 6) -> Any:
    """An id, numbers, counts, text and booleans, a twentieth of the numbers missing, and two classes."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n_rows)
    columns: dict[str, Any] = {"id": np.arange(n_rows)}
    for place in range(n_numbers):
        numbers = np.round(rng.normal(place * label, 1.0 + place / 4), 4)
        columns[f"number{place}"] = pa.array(numbers, mask=rng.random(n_rows) < 0.05)
    columns["count"] = rng.poisson(2 + label)
    for name, n_values in (("colour", 5), ("town", 40), ("code", 12)):
        values = np.array([f"{name} {value}" for value in range(n_values)])
        columns[name] = values[(rng.integers(n_values, size=n_rows) + label) % n_values]
    columns["member"] = rng.random(n_rows) < 0.3 + 0.4 * label
    columns["outcome"] = np.array(["no", "yes"])[label]
    return pa.table(columns)


def start_program(checkout: Path, command: Sequence[object]) -> subprocess.Popen[bytes]:
    """Start the program of a checkout, with what it starts in a group of processes of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "socratic", *map(str, command)],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def run_programs(checkout: Path, *commands: Sequence[object]) -> list[Cost]:
    """Run the program of a checkout, as often as there are commands, at once."""
    start = time.perf_counter()
    processes = [start_program(checkout, command) for command in commands]
    costs = []
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise RuntimeError(f"{process.args!r} failed")
        memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        costs.append(Cost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, memory))
    return costs


def main() -> None:
    """Measure and print."""
    from pyarrow import csv, parquet

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    checkouts = {"before": options.before.resolve()} if options.before else {}
    checkouts["now"] = HERE
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        csv.write_csv(make_table(N_TRAINING, 0), folder / "train.csv")
        data = make_table(options.rows, 1).drop(["outcome"])
        csv.write_csv(data, folder / "data.csv")
        parquet.write_table(data, folder / "data.parquet")
        fit = ["fit", folder / "train.csv", "--target", "outcome", "--drop", "id", "-o", folder / "model", "-q"]
        run_programs(next(iter(checkouts.values())), fit)
        for suffix in ("csv", "parquet"):
            costs: dict[str, list[Cost]] = {which: [] for which in checkouts}
            for _ in range(options.repeats):
                for which, checkout in checkouts.items():
                    files = [folder / "model", folder / f"data.{suffix}", "-o", folder / f"{which}.{suffix}"]
                    costs[which] += run_programs(checkout, ["predict", *files, "--jobs", options.jobs])
            _report(suffix, options.rows, costs)


def _report(suffix: str, n_rows: int, costs: dict[str, list[Cost]]) -> None:
    middle = {which: Cost(*map(statistics.median, zip(*found, strict=True))) for which, found in costs.items()}
    for which, found in costs.items():
        each = ", ".join(f"{cost.wall:.1f}" for cost in found)
        print(
            f"{suffix}, {which}: {n_rows:,} rows, median wall {middle[which].wall:.1f} s ({each}), "
            f"process {middle[which].process:.1f} s"
        )
    if "before" in middle:
        ratios = (middle["before"].wall / middle["now"].wall, middle["before"].process / middle["now"].process)
        print(f"{suffix}: {ratios[0]:.2f} times as fast by wall, {ratios[1]:.2f} by process time", flush=True)


if __name__ == "__main__":
    main()
