"""Clusters give what a single process gives, bit for bit, also when they lose a worker."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from socratic.scale import score_files, spark_udf
from tests.scale.conftest import contents, write_tables

parquet = pytest.importorskip("pyarrow.parquet")

N_FILES, N_ROWS = 6, 1_000


def test_other_engines_are_refused(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="engine must be one of 'local', 'dask', 'ray', 'spark'; got 'slurm'"):
        score_files(models / "model", tmp_path, tmp_path / "out", engine="slurm")


@contextmanager
def losing_a_worker(out: Path, mark: str) -> Iterator[list[int]]:
    """Kill a process below this one, whose command line holds ``mark``, when the first record is there."""
    psutil = pytest.importorskip("psutil")
    killed: list[int] = []
    over = Event()

    def command(process: Any) -> str:
        try:
            return " ".join(process.cmdline())
        except psutil.Error:  # it has ended meanwhile
            return ""

    def kill() -> None:
        while not killed and not over.wait(0.02):
            below = psutil.Process().children(recursive=True) if list(out.rglob("*.json")) else []
            marked = [process for process in below if mark in command(process)]
            for process in marked[-1:]:  # a worker, and not what started it
                process.kill()
                killed.append(process.pid)

    killer = Thread(target=kill, daemon=True)
    killer.start()
    yield killed
    over.set()
    killer.join()


def check(models: Path, tmp_path: Path, engine: str, mark: str) -> None:
    data = write_tables(tmp_path / "data", N_FILES, N_ROWS)
    score_files(models / "model", data, tmp_path / "whole")
    with losing_a_worker(tmp_path / "out", mark) as killed:
        summary = score_files(models / "model", data, tmp_path / "out", engine=engine)
    assert killed, "nothing was lost"
    assert (len(summary.records), summary.problems) == (N_FILES, [])
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert score_files(models / "model", data, tmp_path / "out", engine=engine).n_before == N_FILES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="pip install socratic-circuits[dask]")
    check(models, tmp_path, "dask", "spawn_main")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_client_of_dask_that_is_there(models: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="pip install socratic-circuits[dask]")
    data = write_tables(tmp_path / "data")
    score_files(models / "model", data, tmp_path / "whole")
    with distributed.Client(processes=False, threads_per_worker=4, dashboard_address=None) as client:
        score_files(models / "model", data, tmp_path / "out", engine="dask")
        assert client.status == "running"
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray(models: Path, tmp_path: Path) -> None:
    ray: Any = pytest.importorskip("ray", reason="pip install socratic-circuits[ray]")
    check(models, tmp_path, "ray", "MapWorker")
    assert not ray.is_initialized()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_spark(models: Path, tmp_path: Path, spark: Any) -> None:
    check(models, tmp_path, "spark", "pyspark.daemon")
    assert spark.SparkSession.getActiveSession() is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_column_of_spark(models: Path, tmp_path: Path, spark: Any) -> None:
    data = write_tables(tmp_path / "data", 1, N_ROWS)
    score_files(models / "model", data, tmp_path / "out")
    expected = parquet.read_table(tmp_path / "out" / "part0.parquet")
    session = spark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.read.parquet(str(data)).withColumn("answer", spark_udf(models / "model"))
        found = frame.select("row", "age", "colour", "outcome", "answer.*").toArrow()
    finally:
        session.stop()
    assert found.schema.names == expected.schema.names
    assert found.to_pydict() == expected.to_pydict()


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The SQL of Spark, whose workers run on this machine."""
    sql = pytest.importorskip("pyspark.sql", reason="pip install socratic-circuits[spark]")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    return sql
