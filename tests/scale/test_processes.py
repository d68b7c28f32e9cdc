"""Files shared out among processes: the same files, and what becomes of processes that are lost."""

from __future__ import annotations

import os
import signal
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from socratic.errors import ModelFileError
from socratic.scale import FileScorer, InputFile, ModelScorer, Place, score_files
from socratic.scale import processes as module
from socratic.scale.processes import run_processes
from tests.scale.conftest import contents, write_tables


@pytest.mark.parametrize("n_jobs", [2, 9])
def test_processes_give_what_one_gives(models: Path, tmp_path: Path, n_jobs: int) -> None:
    data = write_tables(tmp_path / "data", 5)
    (data / "bad.csv").write_text("age,colour\nold,red\n")
    alone = score_files(models / "model", data, tmp_path / "whole")
    summary = score_files(models / "model", data, tmp_path / "out", n_jobs=n_jobs)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert (summary.verdicts, len(summary.records)) == (alone.verdicts, 5)
    assert [problem.replace("out", "whole") for problem in summary.problems] == alone.problems
    assert score_files(models / "model", data, tmp_path / "out", n_jobs=n_jobs).n_before == 5


def _dying(scorer: FileScorer, file: Any) -> Any:
    if file.name == "part2.parquet":
        os.kill(os.getpid(), signal.SIGKILL)
    return _scored(scorer, file)


_scored = FileScorer.__call__


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes must have what this one has changed")
def test_a_process_that_is_killed_is_told_of(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_tables(tmp_path / "data")
    score_files(models / "model", data, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(FileScorer, "__call__", _dying)
        with pytest.raises(ChildProcessError, match="was killed, for want of memory perhaps; start again, with fewer"):
            score_files(models / "model", data, tmp_path / "out", n_jobs=2)
    score_files(models / "model", data, tmp_path / "out", n_jobs=2)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_run_that_is_stopped_leaves_no_process_and_no_draft(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data", 6)
    scorer = FileScorer(ModelScorer.of(models / "model"), Place.of(data), Place.of(tmp_path / "out"))
    files = [InputFile.of(name, facts) for name, facts in Place.of(data).files().items()]
    outcomes = run_processes(scorer, files, 2)
    assert next(outcomes).record is not None
    outcomes.close()  # type: ignore[attr-defined]
    assert not active_children()
    assert not [path for path in (tmp_path / "out").rglob("*") if path.name.startswith(".")]


def test_errors_that_are_not_of_a_file_stop_the_run(models: Path, tmp_path: Path) -> None:
    data = write_tables(tmp_path / "data")
    (tmp_path / "model").write_bytes((models / "model").read_bytes())
    scorer = ModelScorer.of(tmp_path / "model")
    ModelScorer.of(models / "other").load()  # which takes the place of the first one
    (tmp_path / "model").write_bytes((models / "other").read_bytes())
    with pytest.raises(ModelFileError, match="has changed since the scoring began"):
        score_files(scorer, data, tmp_path / "out", n_jobs=2)


def test_clusters_have_workers_of_their_own(models: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="n_jobs must be 1 with engine='dask', whose cluster has workers of its own; got 2"
    ):
        score_files(models / "model", tmp_path, tmp_path / "out", engine="dask", n_jobs=2)
    with pytest.raises(ValueError, match="n_jobs must be a whole number of at least 1; got 0"):
        score_files(models / "model", tmp_path, tmp_path / "out", n_jobs=0)


@pytest.mark.slow
def test_processes_begin_anew_where_they_cannot_be_copies(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_tables(tmp_path / "data")
    score_files(models / "model", data, tmp_path / "whole")
    monkeypatch.setattr(module, "_can_fork", lambda _: False)
    score_files(models / "model", data, tmp_path / "out", n_jobs=2)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
