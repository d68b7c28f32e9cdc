"""Training on a folder of Parquet files with 20 columns, in one process and one epoch: rows a second, and memory.

``python -m benchmarks.streaming --rows 10000000``
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.predict import make_table

ROWS_PER_FILE, ROWS_PER_GROUP = 250_000, 50_000
N_NUMBERS = 15  # 20 columns in all, beside the classes
N_DISTINCT = 8
"""Files that differ; the others are copies of them, which are as much to read."""


def write_dataset(folder: Path, n_rows: int) -> None:
    """Files of rows, of which only one is ever in memory."""
    from pyarrow import parquet

    for place, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        path, size = folder / f"part{place:05d}.parquet", min(ROWS_PER_FILE, n_rows - start)
        if place >= N_DISTINCT and size == ROWS_PER_FILE:
            shutil.copy(folder / f"part{place % N_DISTINCT:05d}.parquet", path)
            continue
        rows = make_table(size, place, N_NUMBERS).drop(["id"])
        parquet.write_table(rows, path, row_group_size=ROWS_PER_GROUP)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--sums", type=int, default=2, help="sums of a region of the circuit")
    parser.add_argument("--batch-size", type=int, default=5000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        # What writing needs is no part of what training needs.
        writer = multiprocessing.get_context("spawn").Process(target=write_dataset, args=(Path(name), options.rows))
        writer.start()
        writer.join()
        n_bytes = sum(path.stat().st_size for path in Path(name).iterdir())
        from socratic import CircuitClassifier
        from socratic.scale import fit_files

        size = {"n_sums": options.sums, "n_repetitions": 2, "depth": 2, "batch_size": options.batch_size}
        model = CircuitClassifier(**size, n_epochs=1, random_state=0, n_jobs=1, device="cpu")
        start, start_process = time.perf_counter(), time.process_time()
        fit_files(model, name, target="outcome")
        wall, process = time.perf_counter() - start, time.process_time() - start_process
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    n_visits = float(model.weight_posterior_.visits[-1].sum())
    print(
        f"{options.rows:,} rows of 20 columns, {n_bytes / 1e6:,.0f} MB in files, {n_visits:,.0f} of them trained on: "
        f"{wall:.0f} s wall, {process:.0f} s of processors, {options.rows / process:,.0f} rows a second by processor, "
        f"{memory / 1e6:,.0f} MB at most; loss {model.history_.epochs[-1].validation_loss:.4f} on held-out rows"
    )


if __name__ == "__main__":
    main()
