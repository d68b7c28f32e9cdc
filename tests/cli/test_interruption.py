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

DRAFT = ".out.csv.*.partial"


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    """Wait until a file of such a name is there or the process is over."""
    while not list(folder.glob(pattern)) and process.poll() is None:
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
        wait_for(tmp_path, "state", process)
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
    out = tmp_path / "out.csv"
    command = ["predict", folder / "model", data, "-o", out, "--jobs", 1]
    for _ in range(2):
        process = launch(*command)
        wait_for(tmp_path, DRAFT, process)
        time.sleep(random.uniform(0.0, 0.3))
        process.kill()
        finished(process)
        assert not out.exists()
        assert len(list(tmp_path.glob(DRAFT))) == 1
    assert finished(launch(*command)).code == 0
    assert not list(tmp_path.glob(DRAFT))
    first = out.read_bytes()
    assert first.count(b"\n") == 60_001
    assert finished(launch(*command)).code == 0
    assert out.read_bytes() == first


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_an_interrupt_leaves_nothing(folder: Path, tmp_path: Path, command: str, sign: signal.Signals) -> None:
    place = tmp_path / "place"
    place.mkdir()
    data = write_csv(tmp_path / "data.csv", table(1000, 3) * 60)
    if command == "fit":
        options = ["--epochs", 10_000, "--jobs", 1, "--checkpoint", tmp_path / "state"]
        process = launch("fit", data, *FIT[:2], *options, "-o", place / "m")
        wait_for(tmp_path, "state", process)
    else:
        process = launch("predict", folder / "model", data, "-o", place / "out.csv")
        wait_for(place, DRAFT, process)
    os.kill(process.pid, sign)
    done = finished(process)
    assert assert_one_line(done, code=130) == "socratic: interrupted\n"
    assert not list(place.iterdir())
    assert (tmp_path / "state").exists() == (command == "fit"), "a training can be resumed"


def test_two_predictions_to_one_file(folder: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "data.csv", table(1000, 3) * 20)
    for name in ("alone.csv", "both.csv"):
        command = ["predict", folder / "model", data, "-o", tmp_path / name, "--jobs", 1]
        processes = [launch(*command) for _ in range(1 if name == "alone.csv" else 2)]
        assert [finished(process).code for process in processes] == [0] * len(processes)
    assert (tmp_path / "both.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.csv", "both.csv", "data.csv"]


def test_a_finished_model_is_not_lost(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "train.csv", table(240, 0))
    command = ["fit", data, *FIT, "--epochs", 30, "--checkpoint", tmp_path / "state"]
    place, spare = tmp_path / "place", tmp_path / "spare"
    place.mkdir()
    spare.mkdir()
    process = launch(*command, "-o", place / "model", environment={"TMPDIR": str(spare)})
    wait_for(tmp_path, "state", process)
    place.rmdir()
    line = assert_one_line(finished(process))
    (kept,) = spare.glob("model-*")
    assert (
        f"cannot write the model (cannot write {place / 'model'}: there is no folder {place}); it is in {kept}" in line
    )
    assert finished(launch(*command, "-o", tmp_path / "model")).code == 0
    assert kept.read_bytes() == (tmp_path / "model").read_bytes()


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
        command = [sys.executable, "-m", "socratic", "predict", folder / "model", data, "--jobs", 1]
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
