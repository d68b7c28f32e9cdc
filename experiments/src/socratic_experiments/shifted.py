"""Perturbed and corrupted data: known images that are changed more and more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from socratic.uncertainty import auroc
from socratic_experiments.measures import describe, flagged_share
from socratic_experiments.methods import Answer, Model
from socratic_experiments.records import Records
from socratic_experiments.shifts import CORRUPTIONS, corrupt, rotate
from socratic_experiments.workbench import Workbench

ANGLES = tuple(range(0, 91, 5))
SEVERITIES = tuple(range(6))


def run_rotation(bench: Workbench, records: Records, models: Sequence[str] | None, seeds: Sequence[int]) -> None:
    """Rotating digits, in degrees."""
    _run(bench, records, models, seeds, "rotation", [("rotation", angle) for angle in ANGLES])


def run_corruption(bench: Workbench, records: Records, models: Sequence[str] | None, seeds: Sequence[int]) -> None:
    """Fifteen corruptions at severities from 0, none, to 5."""
    levels = [(name, severity) for name in CORRUPTIONS for severity in SEVERITIES]
    _run(bench, records, models, seeds, "corruption", levels)


def shifted_images(images: np.ndarray, shift: str, level: int, constants: str) -> np.ndarray:
    """Images (N, H, W, C) turned by ``level`` degrees, or corrupted at severity ``level``."""
    if shift == "rotation":
        return rotate(images, level)
    return corrupt(images, shift, level, constants=constants)


def _run(
    bench: Workbench,
    records: Records,
    models: Sequence[str] | None,
    seeds: Sequence[int],
    experiment: str,
    levels: Sequence[tuple[str, int]],
) -> None:
    tasks = bench.plan(models, seeds)
    changed: dict[tuple[str, int], np.ndarray] = {}

    def images_of(stage: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int, np.ndarray]]:
        for shift, level in stage:
            # Kept for the models that follow; unchanged images look the same whatever the corruption.
            key = (shift, level) if level else ("none", 0)
            if key not in changed:
                changed[key] = shifted_images(bench.test.images, shift, level, bench.settings.constants)
            yield shift, level, changed[key]

    def answers_of(model: Model, images: np.ndarray) -> dict[str, Answer]:
        asked = model.normalised(images, bench.settings.normalise)
        return {label: method(images) for label, method in bench.ways(asked).items()}

    for task, model, training in bench.models(tasks):
        records.append(training)
        methods = bench.ways(model)
        names = {"experiment": experiment, **task.names(bench.settings.train)}
        wanted = [
            (shift, level)
            for shift, level in levels
            if any({**names, "method": m, "shift": shift, "level": level} not in records for m in methods)
        ]
        with bench.watch.stage(f"{task.model}, seed {task.seed}: {experiment}", len(wanted)):
            unchanged = answers_of(model, bench.test.images) if wanted else {}
            for shift, level, images in images_of(wanted):
                answers = answers_of(model, images) if level else unchanged
                for label, answer in answers.items():
                    first = unchanged[label].score
                    records.append(
                        {**names, "method": label, "shift": shift, "level": level}
                        | describe(answer, bench.test.labels)
                        | {"refused": flagged_share(first, answer.score), "auroc": auroc(first, answer.score)}
                    )
                bench.watch.step(f"{shift} {level}")
