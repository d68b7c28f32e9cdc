"""Small tables and a model trained on one of them."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests import programs

pytest.importorskip("typer")
pytest.importorskip("pyarrow")
pytest.importorskip("sklearn")

Outcome = programs.Outcome
Run = programs.Run
HEADER = ["age", "income", "colour", "member", "outcome"]
FIT = ["--target", "outcome", "--epochs", "2", "--jobs", "1"]


def table(n_rows: int, seed: int) -> list[list[str]]:
    """Two classes that differ in every column; some ages are missing."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_rows):
        yes = int(rng.integers(2))
        age = "" if rng.random() < 0.1 else f"{rng.normal(40 + 10 * yes, 5):.1f}"
        colour = rng.choice(["red", "green", "blue"], p=[0.6, 0.2, 0.2] if yes else [0.1, 0.3, 0.6])
        member = "true" if rng.random() < 0.2 + 0.6 * yes else "false"
        rows.append([age, f"{rng.normal(3 - 2 * yes, 1):.3f}", str(colour), member, "yes" if yes else "no"])
    return rows


def write_csv(path: Path, rows: list[list[str]], header: list[str] | None = None) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER if header is None else header, *rows])
    return path


def read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def launch(*arguments: object, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """The real program, in a process of its own."""
    command = [sys.executable, "-m", "socratic", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finished(process: subprocess.Popen[str]) -> Outcome:
    out, err = process.communicate(timeout=300)
    return Outcome(process.returncode, out, err)


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> None:
    """Let programs that are started notice interrupts: what runs in the background inherits that they are ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Small work is slower on several cores, above all on shared ones."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The program within this process: its exit code and what it printed."""
    from socratic.cli.app import main

    return programs.runner(main, capsys)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train.csv``, ``test.csv`` and ``model``, which no test changes."""
    from socratic.cli.app import main

    place = tmp_path_factory.mktemp("cli")
    write_csv(place / "train.csv", table(240, 0))
    write_csv(place / "test.csv", table(60, 1))
    with pytest.raises(SystemExit) as stop:
        main(["fit", str(place / "train.csv"), *FIT, "-o", str(place / "model"), "--quiet"])
    assert not stop.value.code
    return place


@pytest.fixture(scope="session")
def hazy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``train.csv`` whose classes overlap, ``test.csv``, and ``model``, which answers where at most 10 % are wrong."""
    from socratic.cli.app import main

    place = tmp_path_factory.mktemp("hazy")
    kept = [0, 3, 4]  # age and membership alone
    for name, n_rows, seed in (("train", 1500, 0), ("test", 200, 1)):
        rows = [[row[column] for column in kept] for row in table(n_rows, seed)]
        write_csv(place / f"{name}.csv", rows, [HEADER[column] for column in kept])
    options = [*FIT, "--structure", "random", "--risk", "0.1", "--quiet"]
    with pytest.raises(SystemExit) as stop:
        main(["fit", str(place / "train.csv"), *options, "-o", str(place / "model")])
    assert not stop.value.code
    return place


def assert_one_line(outcome: Outcome, code: int = 2) -> str:
    """Check that the program failed with one line, and return it."""
    assert outcome.code == code, outcome
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("socratic: ")
    return outcome.err
