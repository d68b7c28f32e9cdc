"""``torchrun -m socratic fit``: two processes on this machine, over gloo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import socratic
from tests.cli.conftest import HEADER, finished, launch, table, write_csv

pytestmark = pytest.mark.slow


def torchrun(*arguments: object) -> subprocess.Popen[str]:
    """Two processes, which find each other at a port that is free."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "socratic"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [*start, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(number) for number in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def options(folder: Path, n_epochs: int) -> list[object]:
    """Arguments of a training on rows of different weights."""
    rows = [[*row, str(1 + number % 3)] for number, row in enumerate(table(601, 0))]
    data = write_csv(folder / "train.csv", rows, [*HEADER, "weight"])
    return ["fit", data, "--target", "outcome", "--weight", "weight", "--structure", "random", "--epochs", n_epochs]


def probabilities(model: Path, folder: Path) -> np.ndarray:
    rows = pd.read_csv(write_csv(folder / "test.csv", table(100, 1)))
    return socratic.load(model).predict_proba(rows.drop(columns="outcome"))


@pytest.mark.parametrize(
    ("in_files", "shard"), [(False, []), (True, []), (False, ["--shard"])], ids=["table", "folder", "sharded"]
)
def test_two_processes_write_the_model_of_one(tmp_path: Path, in_files: bool, shard: list[str]) -> None:
    command = options(tmp_path, 3)
    if in_files:
        rows = pd.read_csv(tmp_path / "train.csv")
        command[1] = folder = tmp_path / "train"
        folder.mkdir()
        rows[:400].to_parquet(folder / "a.parquet", index=False)
        rows[400:].to_parquet(folder / "b.parquet", index=False)
    assert finished(launch(*command, "--jobs", 1, "-o", tmp_path / "one")).code == 0
    together = finished(torchrun(*command, *shard, "-o", tmp_path / "two"))
    assert together.code == 0, together.err
    assert together.out.count("written") == 1
    found, expected = (probabilities(tmp_path / name, tmp_path) for name in ("two", "one"))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_worker_is_killed_and_one_process_resumes(tmp_path: Path) -> None:
    command = [*options(tmp_path, 20), "--checkpoint", tmp_path / "state"]
    assert finished(launch(*command, "--jobs", 1, "-o", tmp_path / "whole")).code == 0
    together = torchrun(*command, "-o", tmp_path / "model")
    while not (tmp_path / "state").exists() and together.poll() is None:
        time.sleep(0.01)
    os.kill(workers_of(together)[-1], signal.SIGKILL)
    lost = finished(together)
    assert lost.code != 0
    # Whichever it hears of first: the lost connection, or torchrun, which ends the others.
    gone = "socratic: another of the processes that train together is gone"
    assert gone in lost.err or "socratic: interrupted" in lost.err, lost.err
    assert not (tmp_path / "model").exists()
    done = finished(launch(*command, "--jobs", 1, "-o", tmp_path / "model"))
    assert done.code == 0, done.err
    assert "resuming from it" in done.err
    found, expected = (probabilities(tmp_path / name, tmp_path) for name in ("model", "whole"))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_mistake_ends_all_processes(tmp_path: Path) -> None:
    outcome = finished(torchrun(*options(tmp_path, 3), "--drop", "incom", "-o", tmp_path / "model"))
    assert outcome.code != 0
    assert "has no column 'incom'; did you mean 'income'?" in outcome.err
    assert not (tmp_path / "model").exists()
