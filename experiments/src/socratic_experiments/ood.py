"""Unknown data: how a model that knows one set answers on others, by every method and at other dropout rates."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from socratic_experiments.circuits import CircuitModel
from socratic_experiments.measures import describe, distribution, separation
from socratic_experiments.methods import Answer, Model
from socratic_experiments.records import Records
from socratic_experiments.workbench import Task, Workbench

RATES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
"""Rates of dropout inference that a sweep goes through."""


def run_ood(bench: Workbench, records: Records, models: Sequence[str] | None, seeds: Sequence[int]) -> None:
    """Table 1, figures 1 and 3 and appendix D of the TDI paper: known against unknown sets, by every method."""
    for task, model, training in bench.models(bench.plan(models, seeds)):
        records.append(training)
        names = {"experiment": "ood", **task.names(bench.settings.train)}
        methods = bench.ways(model)
        with bench.watch.stage(f"{task.model}, seed {task.seed}: unknown data", len(methods)):
            for label in methods:
                _ask(bench, records, model, {**names, "method": label}, detailed=True)
                bench.watch.step(label)


def run_sweep(bench: Workbench, records: Records, models: Sequence[str] | None, seeds: Sequence[int]) -> None:
    """The same for circuits at other dropout rates, on the same weights; with the first seed."""
    for task, model, training in bench.models(bench.plan(models, seeds[:1], circuits_only=True)):
        records.append(training)
        assert isinstance(model, CircuitModel)
        with bench.watch.stage(f"{task.model}, seed {task.seed}: dropout rates", len(RATES)):
            for rate in RATES:
                _sweep(bench, records, task, model.with_rate(rate))
                bench.watch.step(f"p = {rate:g}")


def _sweep(bench: Workbench, records: Records, task: Task, model: CircuitModel) -> None:
    for label in bench.ways(model):
        if label.startswith(("TDI", "log moments", "Monte Carlo")):
            names = {"experiment": "sweep", **task.names(bench.settings.train), "dropout": model.dropout}
            _ask(bench, records, model, {**names, "method": label}, detailed=False)


def _ask(bench: Workbench, records: Records, model: Model, names: dict[str, Any], *, detailed: bool) -> None:
    """One method, named in ``names``, on the known and all unknown sets."""
    sets = [(bench.test, "known"), *((images, "unknown") for images in bench.unknown)]
    wanted = [{**names, "set": images.name, "role": role} for images, role in sets]
    if all(record in records for record in wanted):
        return
    known: Answer | None = None
    for (images, role), record in zip(sets, wanted, strict=True):
        asked = model.normalised(images.images, bench.settings.normalise)
        method = bench.ways(asked)[names["method"]]
        start = time.perf_counter()
        answer = method(images.images)
        seconds = time.perf_counter() - start
        known = known or answer
        parts: list[Iterable[tuple[str, Any]]] = [describe(answer, images.labels if role == "known" else None).items()]
        if detailed:
            parts += [distribution(answer, bench.n_classes).items()]
            parts += [{"seconds_per_1000": 1000.0 * seconds / max(1, len(images))}.items()]
        if role == "unknown":
            parts += [separation(known.score, answer.score).items()]
        records.append({**record, **{name: value for part in parts for name, value in part}})
