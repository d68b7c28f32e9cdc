"""``socratic fit`` on a folder of Parquet files with 20 columns that need not fit in memory: rows a second, memory.

``python -m benchmarks.streaming --rows 10000000``
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.predict import HERE, make_table, run_programs

ROWS_PER_FILE, ROWS_PER_GROUP = 250_000, 50_000
N_NUMBERS = 15  # 20 columns in all, beside the classes


def write_dataset(folder: Path, n_rows: int) -> None:
    """Files of rows, of which only one is ever in memory."""
    from pyarrow import parquet

    for place, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        rows = make_table(min(ROWS_PER_FILE, n_rows - start), place, N_NUMBERS).drop(["id"])
        parquet.write_table(rows, folder / f"part{place:05d}.parquet", row_group_size=ROWS_PER_GROUP)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "data"
        folder.mkdir()
        write_dataset(folder, options.rows)
        n_bytes = sum(path.stat().st_size for path in folder.iterdir())
        model = Path(name) / "model"
        fit = ["fit", folder, "--target", "outcome", "--epochs", options.epochs, "--jobs", 1, "-o", model, "-q"]
        (cost,) = run_programs(HERE, fit)
    print(
        f"{options.rows:,} rows of 20 columns, {n_bytes / 1e6:,.0f} MB in files, {options.epochs} epochs: "
        f"{cost.wall:.1f} s wall, {cost.process:.1f} s of processors, {options.rows / cost.wall:,.0f} rows a second by "
        f"wall and {options.rows / cost.process:,.0f} by processor, {cost.memory / 1e6:,.0f} MB at most"
    )


if __name__ == "__main__":
    main()
