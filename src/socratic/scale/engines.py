"""Clusters that share out the files: every engine runs the very same scorer, a file at a time.

Each takes the cluster that is there: a client, session or connection of this process, or one that the engine's own
settings name (``DASK_SCHEDULER_ADDRESS``, ``RAY_ADDRESS``, ``spark-submit``). Otherwise it starts one on this machine,
and stops it at the end. A worker that is lost is replaced, and its file scored again: records make that harmless.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from socratic.errors import import_extra
from socratic.scale.files import FileScorer, Outcome
from socratic.scale.manifest import InputFile
from socratic.tables.batches import import_pyarrow

Engine = Callable[[FileScorer, Sequence[InputFile]], Iterator[Outcome]]


def run_local(scorer: FileScorer, files: Sequence[InputFile]) -> Iterator[Outcome]:
    """One file after the other, in this process."""
    return map(scorer, files)


def run_dask(scorer: FileScorer, files: Sequence[InputFile]) -> Iterator[Outcome]:
    """As tasks of Dask."""
    distributed = import_extra("distributed", "dask", "scoring with Dask")
    with _dask_client(distributed) as client:
        futures = client.map(scorer, files, pure=False)
        for _, outcome in distributed.as_completed(futures, with_results=True):
            yield outcome


@contextmanager
def _dask_client(distributed: Any) -> Iterator[Any]:
    import dask

    try:
        yield distributed.Client.current()
        return
    except ValueError:  # there is none
        address = dask.config.get("scheduler-address", None)
    if address is not None:
        with distributed.Client(address) as client:
            yield client
        return
    local = {"processes": True, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**local) as cluster, distributed.Client(cluster) as client:
        yield client


def run_ray(scorer: FileScorer, files: Sequence[InputFile]) -> Iterator[Outcome]:
    """As batches of Ray Data, one file each, for actors that hold the model."""
    ray = import_extra("ray", "ray", "scoring with Ray")
    data = import_extra("ray.data", "ray", "scoring with Ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    try:
        resources = ray.cluster_resources()
        on_gpu = scorer.scorer.device != "cpu" and resources.get("GPU", 0) >= 1
        n_workers = max(1, min(len(files), int(resources["GPU" if on_gpu else "CPU"])))
        places = data.from_items([{"place": place} for place in range(len(files))], override_num_blocks=len(files))
        scored = places.map_batches(
            _RayWorker,
            fn_constructor_args=(scorer, files),
            batch_size=None,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(min_size=1, max_size=n_workers),
            num_gpus=1 if on_gpu else 0,
        )
        for row in scored.iter_rows():
            yield pickle.loads(row[_OUTCOME])
    finally:
        if ours:
            ray.shutdown()


class _RayWorker:
    """What each actor of Ray holds."""

    def __init__(self, scorer: FileScorer, files: Sequence[InputFile]) -> None:
        scorer.scorer.load()
        self._scorer, self._files = scorer, files

    def __call__(self, batch: Any) -> Any:
        return _scored(self._scorer, self._files, batch.column("place"))


def run_spark(scorer: FileScorer, files: Sequence[InputFile]) -> Iterator[Outcome]:
    """As partitions of Spark, one file each; outcomes are there when all files are."""
    sql = import_extra("pyspark.sql", "spark", "scoring with Spark")

    def score(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from _scored(scorer, files, batch.column("id")).to_batches()

    with _spark_session(sql) as session:
        places = session.range(0, len(files), 1, len(files))
        for row in places.mapInArrow(score, f"{_OUTCOME} binary").collect():
            yield pickle.loads(row[_OUTCOME])


@contextmanager
def _spark_session(sql: Any) -> Iterator[Any]:
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    from pyspark import SparkConf

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has what workers need
    settings = SparkConf().setAppName("socratic score").setIfMissing("spark.master", "local[*,4]")  # four attempts
    session = sql.SparkSession.builder.config(conf=settings).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _scored(scorer: FileScorer, files: Sequence[InputFile], places: Any) -> Any:
    """The outcomes of some of the files, as a table of one column."""
    pa = import_pyarrow()
    outcomes = [pickle.dumps(scorer(files[place])) for place in places.to_pylist()]
    return pa.table({_OUTCOME: pa.array(outcomes, pa.binary())})


_OUTCOME = "outcome"
ENGINES: dict[str, Engine] = {"local": run_local, "dask": run_dask, "ray": run_ray, "spark": run_spark}
