"""The experiments behind ``docs/results.md``: ``python -m benchmarks.experiments run`` and ``... keep``.

``run`` trains and asks every circuit in a process of its own; all of them share one GPU. A run that was interrupted
goes on where it was when the same command is given again. ``keep`` puts the records among those that the page is made
of, in place of older ones of the same models; ``make results`` then makes the page.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from socratic.files import replacing
from socratic_experiments.records import RECORDS, SETTINGS, read_records
from socratic_experiments.running import run_experiment

KEPT = Path(__file__).parent / "results" / "experiments"
SEEDS = (0, 1, 2)


class Experiment(NamedTuple):
    """An experiment on a training set: the circuits it asks, with their seeds, and its options."""

    kind: str
    train: str
    circuits: dict[str, tuple[int, ...]]
    options: dict[str, Any]


_PAPERS: dict[str, tuple[int, ...]] = {"paper's circuit": SEEDS, "paper's circuit with dropout": SEEDS}
_ONE: dict[str, tuple[int, ...]] = {"circuit": (0,), "circuit without dropout": (0,), "paper's circuit": (0,)}
_MNIST = {**_ONE, **_PAPERS, "circuit": SEEDS}
_SVHN = {**_MNIST, "circuit with noise": SEEDS}
_DOUBT: dict[str, tuple[int, ...]] = {"circuit": SEEDS, "three circuits": (0,), "LeNet-5 ensemble": (0,)}
_FROM_MNIST, _FROM_SVHN = ["notmnist", "cifar10"], ["cifar10", "scenes"]


def _closeness(train: str, unknown: list[str], rate: float) -> Experiment:
    """At the paper's rate of dropout for all circuits."""
    overrides = {model: {"dropout": rate} for model in ("circuit", "circuit without dropout")}
    return Experiment("closeness", train, {**_ONE, **_PAPERS}, {"unknown": unknown, "overrides": overrides})


EXPERIMENTS = (
    Experiment("ood", "mnist", _MNIST, {"unknown": _FROM_MNIST}),
    Experiment("ood", "mnist", _PAPERS, {"unknown": _FROM_MNIST, "normalise": "own"}),
    Experiment("rotation", "mnist", _MNIST, {}),
    Experiment("ood", "svhn", _SVHN, {"unknown": _FROM_SVHN}),
    Experiment("ood", "svhn", _PAPERS, {"unknown": _FROM_SVHN, "normalise": "own"}),
    Experiment("corruption", "svhn", _SVHN, {"n_images": 5000}),
    Experiment("corruption", "svhn", _PAPERS, {"n_images": 5000, "constants": "imagenet"}),
    *(
        Experiment("doubt", train, _DOUBT, {"unknown": unknown, "n_images": 5000})
        for train, unknown in {
            "mnist": [*_FROM_MNIST, "mnist:turned", "blank"],
            "svhn": [*_FROM_SVHN, "cifar10:blurred", "colours", "mnist"],
            "mnist:0-4": ["mnist:5-9"],
            "mnist:odd": ["mnist:even"],
            "svhn:0-4": ["svhn:5-9"],
        }.items()
    ),
    Experiment("sweep", "mnist", _ONE, {"unknown": _FROM_MNIST}),
    Experiment("sweep", "svhn", _ONE, {"unknown": _FROM_SVHN}),
    _closeness("mnist", _FROM_MNIST, 0.2),
    _closeness("svhn", _FROM_SVHN, 0.1),
)


class Job(NamedTuple):
    """One circuit, and all experiments with it."""

    train: str
    model: str
    seed: int
    experiments: tuple[Experiment, ...]

    def __str__(self) -> str:
        return f"{self.train}, {self.model}, seed {self.seed}"

    def run(self, shared: dict[str, Any]) -> None:
        """Train the circuit and ask it."""
        for kind, _, _, options in self.experiments:
            asked = {"train": self.train, "models": [self.model], "seeds": [self.seed], **options}
            run_experiment(kind, {**asked, **shared, "device": "auto", "report": False})


def jobs(experiments: Sequence[Experiment]) -> list[Job]:
    """A job for each circuit and seed."""
    circuits = [
        (experiment.train, model, seed)
        for experiment in experiments
        for model, seeds in experiment.circuits.items()
        for seed in seeds
    ]
    return [
        Job(train, model, seed, tuple(e for e in experiments if e.train == train and seed in e.circuits.get(model, ())))
        for train, model, seed in dict.fromkeys(circuits)
    ]


def run(wanted: Sequence[Job], options: dict[str, Any]) -> int:
    """Run all jobs at once, with these options for all; return how many failed."""
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")  # a GPU cannot be used after a fork
    workers = [context.Process(target=job.run, args=(options,), name=str(job)) for job in wanted]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        state = "done" if worker.exitcode == 0 else "FAILED"
        print(f"{worker.name}: {state} after {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return sum(worker.exitcode != 0 for worker in workers)


def keep(output: Path, kept: Path) -> list[Path]:
    """Put the records under ``output`` among those in ``kept``, in place of older ones of the same models.

    Other experiments in ``kept`` lose their records of the training of these models: each training has one.
    """
    new = {path.parent.name: read_records(path.parent) for path in sorted(output.glob(f"*/{RECORDS}"))}
    trained = {_training(record) for records in new.values() for record in records} - {None}
    written = []
    for folder in sorted({*(kept / name for name in new), *(path.parent for path in kept.glob(f"*/{RECORDS}"))}):
        records = new.get(folder.name, [])
        models = {record["model"] for record in records}
        older = read_records(folder)
        staying = [one for one in older if one["model"] not in models and _training(one) not in trained]
        if records or staying != older:
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(folder / RECORDS) as draft:
                draft.write_text("".join(json.dumps(one) + "\n" for one in staying + records), encoding="utf-8")
            written.append(folder)
        if records:
            shutil.copy(output / folder.name / SETTINGS, folder / SETTINGS)
    return written


def _training(record: dict[str, Any]) -> tuple[str, str, int] | None:
    """What names a training, if the record is one of a training."""
    if record["experiment"] != "training":
        return None
    return record["train"], record["model"], record["seed"]


def main() -> None:
    """Run the experiments, or keep their records."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["run", "keep"])
    parser.add_argument("kinds", nargs="*", help="only these experiments, such as ood and rotation")
    parser.add_argument("--models", nargs="+", help="only these circuits")
    parser.add_argument("--methods", nargs="+", help="only ways to ask whose names begin so")
    parser.add_argument("--data", type=Path, help="the folder of all image sets")
    parser.add_argument("--output", type=Path, default=Path("socratic-results"), help="where records and models go")
    arguments = parser.parse_args()
    if arguments.what == "run":
        kinds, models = arguments.kinds, arguments.models
        wanted = jobs([one for one in EXPERIMENTS if not kinds or one.kind in kinds])
        chosen = [job for job in wanted if not models or job.model in models]
        places = {"data": arguments.data, "output": arguments.output, "methods": arguments.methods}
        sys.exit(1 if run(chosen, places) else 0)
    for folder in keep(arguments.output, KEPT):
        print(folder)


if __name__ == "__main__":
    main()
