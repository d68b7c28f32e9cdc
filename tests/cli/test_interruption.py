"""Runs that are killed, interrupted, or large."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import FIT, assert_one_line, finished, launch, table, write_csv

pytestmark = pytest.mark.slow


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file is there or the process is over."""
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)


def test_a_killed_fit_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "train.csv", table(600, 0))
    command = ["fit", data, "--target", "outcome", "--epochs", 30, "--jobs", 1, "--checkpoint", tmp_path / "state"]
    assert finished(launch(*command, "-o", tmp_path / "whole")).code == 0
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    resumed = 0
    for _ in range(3):
        process = launch(*command, "-o", tmp_path / "model")
        wait_for(tmp_path / "state", process)
        time.sleep(moments.uniform(0.0, 0.4))
        process.kill()
        finished(process)
        resumed += (tmp_path / "state").exists()
    done = finished(launch(*command, "-o", tmp_path / "model"))
    assert done.code == 0, done.err
    assert (tmp_path / "model").read_bytes() == (tmp_path / "whole").read_bytes(), f"seed {seed}"
    assert resumed, "killed too late to test anything"
    assert not (tmp_path / "state").exists()


def test_a_killed_prediction_leaves_no_half_table(folder: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "data.csv", table(1000, 3) * 60)
    out, partial = tmp_path / "out.csv", tmp_path / ".out.csv.partial"
    command = ["predict", folder / "model", data, "-o", out, "--jobs", 1]
    for _ in range(2):
        process = launch(*command)
        wait_for(partial, process)
        time.sleep(random.uniform(0.0, 0.3))
        process.kill()
        finished(process)
        assert not out.exists()
        assert partial.exists()
    assert finished(launch(*command)).code == 0
    assert not partial.exists()
    first = out.read_bytes()
    assert first.count(b"\n") == 60_001
    assert finished(launch(*command)).code == 0
    assert out.read_bytes() == first


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_an_interrupt_leaves_nothing(folder: Path, tmp_path: Path, command: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    data = write_csv(tmp_path / "data.csv", table(1000, 3) * 60)
    if command == "fit":
        arguments = ["fit", data, *FIT[:2], "--epochs", 10_000, "-o", place / "m", "--checkpoint", tmp_path / "state"]
        sign = tmp_path / "state"
    else:
        arguments = ["predict", folder / "model", data, "-o", place / "out.csv"]
        sign = place / ".out.csv.partial"
    process = launch(*arguments)
    wait_for(sign, process)
    os.kill(process.pid, signal.SIGINT)
    done = finished(process)
    assert assert_one_line(done, code=130) == "socratic: interrupted\n"
    assert not list(place.iterdir())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_table(folder: Path, tmp_path: Path, suffix: str) -> None:
    rows = table(1000, 3)
    peaks = []
    for n_thousands in (20, 120):
        data = write_csv(tmp_path / "data.csv", rows * n_thousands)
        if suffix == "parquet":
            pd = pytest.importorskip("pandas")
            pytest.importorskip("pyarrow")
            data = tmp_path / "data.parquet"
            pd.read_csv(tmp_path / "data.csv").to_parquet(data)
        command = [sys.executable, "-m", "socratic.cli", "predict", folder / "model", data, "--jobs", 1]
        command += ["-o", tmp_path / f"out.{suffix}"]
        code = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        measured = subprocess.run(
            [sys.executable, "-c", code, *map(str, command)], capture_output=True, text=True, check=True
        )
        peaks.append(int(measured.stdout) * (1 if sys.platform == "darwin" else 1024) / 1e6)
    assert peaks[1] - peaks[0] < 50, f"MB at 20,000 and 120,000 rows: {peaks}"
