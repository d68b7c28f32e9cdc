"""Doubt from data: every score of a classifier and its detector, on far and near unknown sets, with networks beside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import entr

from socratic import CircuitGuard, CircuitImageDensity
from socratic_experiments.circuits import CircuitModel
from socratic_experiments.measures import describe, separation
from socratic_experiments.methods import Answer, Model
from socratic_experiments.networks import NetworkModel
from socratic_experiments.records import Records
from socratic_experiments.workbench import Task, Workbench

DETECTOR, GUARD = "all scores: the detector", "guarded by a circuit"
_NAMES = {
    "log_likelihood": "-log p(x)",
    "typicality": "p(x), too low or too high",
    "entropy": "entropy",
    "mutual_information": "mutual information of the weights",
    "log_std": "deviation of log p(x)",
    "profile": "profile",
    "class_profile": "profile, given the class",
}
"""What the scores of a classifier are called in tables."""

Answers = dict[str, Answer]
"""What a model says of images, by method."""


def run_doubt(bench: Workbench, records: Records, models: Sequence[str] | None, seeds: Sequence[int]) -> None:
    """Known against unknown sets by each score of a model, and by all of them together."""
    for task, model, training in bench.models(bench.plan(models, seeds)):
        records.append(training)
        if not _is_done(bench, records, task):
            with bench.watch.stage(f"{task.model}, seed {task.seed}: doubt", 1 + len(bench.unknown)):
                _ask(bench, records, task, _asker(bench, model, task.seed))


def _names(bench: Workbench, task: Task) -> dict[str, object]:
    return {"experiment": "doubt", **task.names(bench.settings.train)}


def _is_done(bench: Workbench, records: Records, task: Task) -> bool:
    """Whether the last record of a model, which all others come before, is there."""
    last = (bench.unknown or (bench.test,))[-1].name
    role = "unknown" if bench.unknown else "known"
    methods = (DETECTOR, GUARD, "entropy")
    return any({**_names(bench, task), "method": name, "set": last, "role": role} in records for name in methods)


def _ask(bench: Workbench, records: Records, task: Task, ask: Callable[[np.ndarray], Answers]) -> None:
    known: Answers = {}
    found = []
    for images, role in [(bench.test, "known"), *((images, "unknown") for images in bench.unknown)]:
        answers = ask(images.images)
        known = known or answers
        for method, answer in answers.items():
            record = {**_names(bench, task), "method": method, "set": images.name, "role": role}
            record |= describe(answer, images.labels if role == "known" else None)
            if role == "unknown":
                record |= separation(known[method].score, answer.score)
            found.append(record)
        bench.watch.step(images.name)
    for record in found:
        records.append(record)


def _asker(bench: Workbench, model: Model, seed: int) -> Callable[[np.ndarray], Answers]:
    if isinstance(model, CircuitModel):
        return lambda images: _of_circuit(model, images)
    guard = _guard(bench, model, seed) if len(model.members) > 1 else None
    return lambda images: _of_network(model, guard, images)


def _of_circuit(model: CircuitModel, images: np.ndarray) -> Answers:
    classifier = model.classifier
    told = classifier.answer(images)
    scores, detector = told.uncertainty.scores(), classifier.detector_
    single = {
        _NAMES[name]: Answer(replace(detector, kind=name, weights={name: 1.0}).score(scores), told.probabilities)
        for name in scores
    }
    together = Answer(detector.score(scores), told.probabilities, rejected=classifier.is_rejected(told))
    return {**single, DETECTOR: together}


def _of_network(model: NetworkModel, guard: CircuitGuard | None, images: np.ndarray) -> Answers:
    probabilities = _probabilities(model, images)
    answers = {"entropy": Answer(entr(probabilities).sum(1), probabilities)}
    if guard is not None:
        familiar = guard.score_samples(images)
        refused = guard.detector_.calibration.p_value(-familiar) <= guard.rejection_rate
        answers[GUARD] = Answer(-familiar, probabilities, rejected=refused)
    return answers


def _guard(bench: Workbench, model: NetworkModel, seed: int) -> CircuitGuard:
    """A guard of networks, from the images they were trained on and those they left out."""
    density = CircuitImageDensity(device=str(bench.device))
    guard = CircuitGuard(lambda images: _probabilities(model, images), density=density, random_state=seed)
    return guard.fit(bench.train.images, held_out=bench.held_out.images)


def _probabilities(model: NetworkModel, images: np.ndarray) -> np.ndarray:
    return model.posterior(images).mean.double().cpu().numpy()
