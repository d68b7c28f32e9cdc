"""Runs that are killed at random, and runs side by side, leave what a single one leaves."""

from __future__ import annotations

import random
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from socratic.scale import Place, score_files
from tests.scale.conftest import contents, write_tables
from tests.scale.test_places import staged

pytestmark = pytest.mark.slow

N_FILES, N_ROWS, N_KILLS = 12, 2_000, 5


@pytest.fixture(scope="module")
def server() -> Any:
    """Processes that start at once, from one that has imported the library."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["socratic.scale", "pandas"])
    return context


@pytest.mark.parametrize("kind", ["local", "staged"])
def test_killed_five_times_at_random(models: Path, tmp_path: Path, server: Any, kind: str) -> None:
    data = write_tables(tmp_path / "data", N_FILES, N_ROWS)
    start = time.monotonic()
    score_files(models / "model", data, tmp_path / "whole")
    took = time.monotonic() - start
    out: Any = tmp_path / "out" if kind == "local" else staged(tmp_path) / "out"
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    interrupted = 0
    for _ in range(N_KILLS):
        process = server.Process(target=score_files, args=(models / "model", data, out))
        process.start()
        while not Place.of(out).files() and process.is_alive():
            time.sleep(0.01)
        time.sleep(moments.uniform(0, took / N_KILLS))
        process.kill()
        process.join()
        interrupted += process.exitcode != 0
    assert interrupted, "killed too late to test anything"
    summary = score_files(models / "model", data, out)
    assert (len(summary.records), summary.problems) == (N_FILES, []), f"seed {seed}"
    found = contents(tmp_path / "out")
    # A copy to another file system has a new name each time; what was killed on its way stays, hidden.
    whole = {name: content for name, content in found.items() if not name.endswith(".partial")}
    assert whole == contents(tmp_path / "whole"), f"seed {seed}"
    assert kind == "staged" or len(found) == len(whole)
    rows = pd.concat(pd.read_parquet(path) for path in (tmp_path / "out").rglob("*.parquet"))
    given = pd.concat(pd.read_parquet(path) for path in data.rglob("*.parquet"))
    assert sorted(rows["row"]) == sorted(given["row"])


def test_shards_at_once(models: Path, tmp_path: Path, server: Any) -> None:
    data = write_tables(tmp_path / "data", N_FILES, 200)
    score_files(models / "model", data, tmp_path / "whole")
    parts = [(1, 2), (2, 2), (2, 2)]  # one of them twice, by mistake
    processes = [
        server.Process(target=score_files, args=(models / "model", data, tmp_path / "out"), kwargs={"shard": part})
        for part in parts
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
