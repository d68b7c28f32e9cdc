"""``socratic score`` on a folder of Parquet files with 16 columns, by several processes at once: rows a second, memory.

``python -m benchmarks.scale --rows 20000000 --kills 5`` (on Linux, whose accounts of memory it reads): with ``--kills``
the same is scored once more by runs that are killed at random moments and started again, and all bytes are compared.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from benchmarks.predict import HERE, N_TRAINING, Cost, make_table, run_programs, start_program

ROWS_PER_FILE = 50_000
N_NUMBERS = 10  # 16 columns in all


def write_dataset(folder: Path, n_rows: int) -> None:
    """Files of rows, of which only one is ever in memory."""
    from pyarrow import parquet

    folder.mkdir()
    for place, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        rows = make_table(min(ROWS_PER_FILE, n_rows - start), place + 1, N_NUMBERS)
        parquet.write_table(rows.drop(["outcome"]), folder / f"part{place:05d}.parquet")


@contextmanager
def watched_memory() -> Iterator[list[int]]:
    """Bytes of all processes below this one, twice a second; what they share counts once."""
    found: list[int] = []
    over = Event()

    def watch() -> None:
        while not over.wait(0.5):
            accounts = [_account(process) for process in _below(os.getpid())]
            own, files = zip(*accounts, strict=True) if accounts else ((0,), (0,))
            # Libraries are the same files for all of them, and for other programs, which must not take a part of it.
            found.append(sum(own) + max(files))

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def _below(process: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    try:
        tasks = list(Path(f"/proc/{process}/task").glob("*/children"))
        children = [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:  # it has ended meanwhile
        return []
    return [*children, *(further for child in children for further in _below(child))]


def _account(process: int) -> tuple[int, int]:
    """Bytes of a process's own, its part of those that are shared among them, and those of files."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    except OSError:
        return 0, 0
    sizes = {line.partition(":")[0]: 1024 * int(line.split()[1]) for line in lines}
    return sizes["Pss_Anon"], sizes["Rss"] - sizes["Anonymous"]


def run_killed(command: Sequence[object], n_kills: int, longest: float) -> int:
    """Run the program, end it and all it has started by SIGKILL at random moments, and at last let it end by itself.

    Parameters
    ----------
    command : sequence
    n_kills : int
    longest : float
        Seconds that it has before it is killed, at most.

    Returns
    -------
    int
        How often it was killed: it may have ended before.
    """
    rng = random.Random(0)
    for n_killed in range(n_kills):
        program = start_program(HERE, command)
        try:
            program.wait(rng.uniform(0.0, longest))
            return n_killed
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    run_programs(HERE, command)
    return n_kills


def check_same(one: Path, other: Path) -> int:
    """How many files two folders hold, at any depth; raises unless they have the same names and the same bytes."""
    names, others = (
        sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) for folder in (one, other)
    )
    if names != others:
        raise RuntimeError(f"files that only one of {one} and {other} has: {sorted(set(names) ^ set(others))}")
    _, different, unread = filecmp.cmpfiles(one, other, names, shallow=False)
    if different or unread:
        raise RuntimeError(f"files that differ between {one} and {other}: {[*different, *unread]}")
    return len(names)


def main() -> None:
    """Measure and print."""
    from pyarrow import csv, dataset

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-explain", action="store_true", help="leave out the reasons of rows that are refused")
    parser.add_argument("--kills", type=int, default=0, help="how often the second run is killed, if there is one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_dataset(folder / "data", options.rows)
        csv.write_csv(make_table(N_TRAINING, 0, N_NUMBERS), folder / "train.csv")
        fit = ["fit", folder / "train.csv", "--target", "outcome", "--drop", "id", "-o", folder / "model", "-q"]
        run_programs(HERE, fit)
        score = ["score", folder / "model", folder / "data", "-q", "--jobs", options.processes]
        score += ["--no-explain"] if options.no_explain else []
        with watched_memory() as memory:
            (cost,) = run_programs(HERE, [*score, "-o", folder / "out"])
        _report(options, cost, memory)
        n_answered = dataset.dataset(folder / "out").count_rows()
        if n_answered != options.rows:
            raise RuntimeError(f"{options.rows:,} rows were given and {n_answered:,} answered")
        if options.kills:
            start = time.perf_counter()
            n_killed = run_killed([*score, "-o", folder / "again"], options.kills, cost.wall / options.kills)
            wall = time.perf_counter() - start
            n_files = check_same(folder / "out", folder / "again")
            print(f"killed {n_killed} times: {wall:.1f} s wall in all, {n_files:,} files with the same bytes")


def _report(options: argparse.Namespace, cost: Cost, memory: list[int]) -> None:
    first, most = max(memory[: len(memory) // 2]) / 1e6, max(memory) / 1e6
    by_wall, by_processor = options.rows / cost.wall, options.rows / cost.process
    print(
        f"{options.rows:,} rows of 16 columns, {options.processes} processes: {cost.wall:.1f} s wall, "
        f"{cost.process:.1f} s of processors, {by_wall:,.0f} rows a second by wall, {by_processor:,.0f} by processor; "
        f"memory in all: {most:,.0f} MB at most, {first:,.0f} in the first half; "
        f"a billion rows: {1e9 / by_processor / 3600:,.0f} processor hours",
        flush=True,
    )


if __name__ == "__main__":
    main()
