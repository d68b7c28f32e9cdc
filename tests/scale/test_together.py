"""Two runs that score to one folder: together if they give the same answers, one alone otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from socratic.errors import DataFileError
from socratic.scale import ModelScorer, Place, score_files
from socratic.scale.manifest import Manifest, list_dataset
from tests.scale.conftest import contents, write_tables
from tests.scale.test_places import staged
from tests.scale.test_run import stopping_after

BUSY = "is being scored by another model or with other columns; wait until that run ends, or write to another folder"

WAITING = """
import sys, time
from socratic.scale import FileScorer, score_files

def waiting(left, outcomes):
    yield next(outcomes)
    print("begun", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    model, data, out, n_jobs = sys.argv[1:]
    score_files(model, data, out, n_jobs=int(n_jobs), rescore=True, watch=waiting)
"""


@contextmanager
def another_run(model: Path, data: Path, out: Path, n_jobs: int = 1) -> Iterator[subprocess.Popen[str]]:
    """A process that has scored the first file, and would go on."""
    script = out.parent / "waiting.py"
    script.write_text(WAITING)
    command = [sys.executable, str(script), *map(str, (model, data, out, n_jobs))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="this system has no such locks")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_another_model_waits_for_the_run_or_for_its_end(models: Path, tmp_path: Path, n_jobs: int) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    with another_run(models / "other", data, out, n_jobs) as process:
        before = contents(out)
        for rescore in (False, True):
            with pytest.raises(DataFileError, match=BUSY):
                score_files(models / "model", data, out, rescore=rescore)
        assert contents(out) == before or n_jobs > 1
        process.kill()
        process.wait()
        for _ in range(100):  # the processes of a killed one end when they have done their file
            try:
                summary = score_files(models / "model", data, out, rescore=True)
                break
            except DataFileError:
                assert n_jobs > 1
                time.sleep(0.1)
    assert (len(summary.records), summary.n_before) == (4, 0)
    score_files(models / "model", data, tmp_path / "fresh")
    assert contents(out) == contents(tmp_path / "fresh")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="this system has no such locks")
def test_the_same_model_joins_a_run(models: Path, tmp_path: Path) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    with another_run(models / "model", data, out):
        assert score_files(models / "model", data, out).n_before == 1
    score_files(models / "model", data, tmp_path / "fresh")
    assert contents(out) == contents(tmp_path / "fresh")


@pytest.mark.parametrize("rescore", [False, True])
def test_without_locks_a_run_ends_at_its_next_file(models: Path, tmp_path: Path, rescore: bool) -> None:
    data, out = write_tables(tmp_path / "data"), staged(tmp_path) / "out"

    def overtaken(_: object, outcomes: Iterator[object]) -> Iterator[object]:
        yield next(outcomes)
        score_files(models / "other", data, out, rescore=True)
        yield from outcomes

    with pytest.raises(DataFileError, match=r"another model, or one with other columns, has begun to score to .*out"):
        score_files(models / "model", data, out, rescore=rescore, watch=overtaken)
    assert score_files(models / "other", data, out).n_before == 4
    score_files(models / "other", data, tmp_path / "fresh")
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_without_locks_answers_that_slipped_in_are_seen_at_the_end(models: Path, tmp_path: Path) -> None:
    data, out = write_tables(tmp_path / "data"), staged(tmp_path) / "out"
    files = list_dataset(Place.of(data))[1]
    ours, theirs = (Manifest(out, ModelScorer.of(models / name)) for name in ("model", "other"))

    def score_and_be_overtaken() -> None:
        with ours.planned(files, rescore=False) as plan:
            assert len(plan.left) == 4
            theirs._mark.write(theirs.run.encode())
            score_files(models / "other", data, out, watch=stopping_after(1))
            ours._mark.write(ours.run.encode())

    with pytest.raises(DataFileError, match=r"part1.parquet in .*out was scored by another model"):
        score_and_be_overtaken()


def test_a_run_with_nothing_to_do_changes_nothing(models: Path, tmp_path: Path) -> None:
    data, out = write_tables(tmp_path / "data"), tmp_path / "out"
    score_files(models / "model", data, out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    score_files(models / "model", data, out)
    with pytest.raises(DataFileError, match="was scored by another model"):
        score_files(models / "other", data, out)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
