"""``socratic score`` on a folder of Parquet files with 16 columns, by several processes at once: rows a second, memory.

``python -m benchmarks.scale --rows 20000000``
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.predict import HERE, N_TRAINING, make_table, run_programs

ROWS_PER_FILE = 50_000
N_NUMBERS = 10  # 16 columns in all


def write_dataset(folder: Path, n_rows: int) -> None:
    """Files of rows, of which only one is ever in memory."""
    from pyarrow import parquet

    folder.mkdir()
    for place, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        rows = make_table(min(ROWS_PER_FILE, n_rows - start), place + 1, N_NUMBERS)
        parquet.write_table(rows.drop(["outcome"]), folder / f"part{place:05d}.parquet")


def main() -> None:
    """Measure and print."""
    from pyarrow import csv, dataset

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-explain", action="store_true", help="leave out the reasons of rows that are refused")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_dataset(folder / "data", options.rows)
        csv.write_csv(make_table(N_TRAINING, 0, N_NUMBERS), folder / "train.csv")
        fit = ["fit", folder / "train.csv", "--target", "outcome", "--drop", "id", "-o", folder / "model", "-q"]
        run_programs(HERE, fit)
        score = ["score", folder / "model", folder / "data", "-o", folder / "out", "-q"]
        score += ["--no-explain"] if options.no_explain else []
        parts = [[*score, "--shard", f"{part + 1}/{options.processes}"] for part in range(options.processes)]
        costs = run_programs(HERE, *parts)
        n_answered = dataset.dataset(folder / "out").count_rows()
    if n_answered != options.rows:
        raise RuntimeError(f"{options.rows:,} rows were given and {n_answered:,} answered")
    wall, process = max(cost.wall for cost in costs), sum(cost.process for cost in costs)
    memory = sum(cost.memory for cost in costs) / 1e6
    print(
        f"{options.rows:,} rows of 16 columns, {options.processes} processes: {wall:.1f} s wall, {process:.1f} s of "
        f"processors, {options.rows / wall:,.0f} rows a second by wall and {options.rows / process:,.0f} by processor, "
        f"{memory:,.0f} MB at most in all; a billion rows: {1e9 * process / options.rows / 3600:,.0f} processor hours"
    )


if __name__ == "__main__":
    main()
