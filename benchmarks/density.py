"""Densities of binary tables: ``python -m benchmarks.density FOLDER`` prints test log-likelihoods and times.

``FOLDER`` holds a ``.npz`` file for each set, with ``train``, ``valid`` and ``test`` as packed bits of rows and the
number of columns ``n``. Every model is fitted on the training rows and stopped, and its variants chosen, by the
validation rows; test rows are looked at once, at the end.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from socratic.estimators import CircuitDensity

RESULTS = Path(__file__).parent / "results" / "density.md"
SETS = ("nltcs", "plants", "audio", "netflix", "accidents", "retail", "pumsb", "dna", "kosarek", "book")
PUBLISHED: Mapping[str, tuple[float, ...]] = {
    "LearnSPN [1]": (-6.11, -12.99, -40.50, -57.33, -30.04, -11.04, -24.78, -82.52, -10.99, -35.89),
    "ID-SPN [1]": (-6.02, -12.54, -39.79, -56.36, -26.98, -10.85, -22.41, -81.21, -10.60, -34.14),
    "RAT-SPN [1]": (-6.01, -13.44, -39.96, -56.85, -35.49, -10.91, -32.53, -97.23, -10.89, -34.68),
    "HCLT [2]": (-5.99, -14.26, -39.77, -56.27, -26.74, -10.84, -23.64, -79.05, -10.66, -33.83),
    "best known tractable [1, 2, 3]": (-5.99, -11.99, -39.75, -56.27, -26.74, -10.79, -22.41, -79.05, -10.60, -33.83),
}
SOURCES = (
    "[1] Peharz et al., Random Sum-Product Networks, UAI 2019, Table 1. [2] Selvam et al., AISTATS 2023, Table 1. "
    "[3] Di Mauro et al., UAI 2021; cutset networks for plants."
)
MIXTURE = "mixture of 50 products"
MODELS: Mapping[str, dict[str, Any]] = {
    "`CircuitDensity`, defaults": {},
    "random trees": {"structure": "random", "n_sums": 40, "depth": 1, "n_repetitions": 1},
    "LearnSPN": {"structure": "learnspn"},
    "LearnSPN, trained by EM": {"structure": "learnspn", "structure_options": {"n_epochs": 5}},
    "hidden Chow-Liu, 64 states": {"structure": "hidden-chow-liu", "n_sums": 64},
    "hidden Chow-Liu, 4 trees of 16": {"structure": "hidden-chow-liu", "n_sums": 16, "n_repetitions": 4},
}


class Task(NamedTuple):
    """A model to fit to a set."""

    folder: Path
    name: str
    model: str
    n_threads: int


@dataclass(frozen=True)
class Result:
    """Mean log-likelihoods of validation and test rows, and the seconds it took to fit."""

    validation: float
    test: float
    seconds: float


def load(path: Path) -> dict[str, np.ndarray]:
    """The rows (N, V) of each part of a set, as booleans."""
    with np.load(path) as parts:
        n_columns = int(parts["n"])
        return {
            part: np.unpackbits(parts[part], axis=1)[:, :n_columns].astype(bool) for part in ("train", "valid", "test")
        }


def fit_mixture(
    train: np.ndarray, valid: np.ndarray, n_parts: int = 50, seed: int = 0
) -> Callable[[np.ndarray], np.ndarray]:
    """A mixture of Bernoulli products by expectation maximisation, stopped on validation rows: log-densities of rows.

    The best of 300 steps, from posteriors drawn at random; half a row of each value is added to every part.
    """
    rng = np.random.default_rng(seed)
    x = train.astype(np.float64)
    share = rng.dirichlet(np.full(n_parts, 0.5), len(x))  # (N, K)
    best, best_score, waited = None, -np.inf, 0
    for _ in range(300):
        size = share.sum(0)
        chance = (share.T @ x + 0.5) / (size[:, None] + 1.0)  # (K, V)
        parameters = np.log((size + 0.1) / (size + 0.1).sum()), np.log(chance), np.log1p(-chance)
        score = _mixture_joint(valid, *parameters)
        mean = float(np.logaddexp.reduce(score, axis=1).mean())
        waited = 0 if mean > best_score + 1e-4 else waited + 1
        if mean > best_score:
            best, best_score = parameters, mean
        if waited == 10:
            break
        joint = _mixture_joint(train, *parameters)
        share = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
    assert best is not None
    return lambda rows: np.logaddexp.reduce(_mixture_joint(rows, *best), axis=1)


def _mixture_joint(rows: np.ndarray, log_weight: np.ndarray, log_one: np.ndarray, log_zero: np.ndarray) -> np.ndarray:
    """log p(x, part): (N, K)."""
    joint: np.ndarray = log_weight + rows.astype(np.float64) @ (log_one - log_zero).T + log_zero.sum(1)
    return joint


def run(task: Task) -> Result:
    """Fit one model to one set."""
    torch.set_num_threads(task.n_threads)
    data = load(task.folder / f"{task.name}.npz")
    start = time.perf_counter()
    if task.model == MIXTURE:
        score = fit_mixture(data["train"], data["valid"])
    else:
        model = CircuitDensity(**MODELS[task.model], random_state=0, device="cpu")
        score = model.fit(data["train"], validation=data["valid"]).score_samples
    seconds = time.perf_counter() - start
    return Result(float(score(data["valid"]).mean()), float(score(data["test"]).mean()), seconds)


def best_variants(results: Mapping[tuple[str, str], Result], name: str) -> str:
    """The variant under which the validation rows of a set are the most likely."""
    return max((model for model in MODELS if (model, name) in results), key=lambda m: results[m, name].validation)


def report(results: Mapping[tuple[str, str], Result], names: list[str]) -> str:
    """The results as Markdown tables."""
    models = [MIXTURE, *MODELS]

    def row(title: str, values: list[float], digits: int = 2) -> str:
        cells = ["" if np.isnan(value) else f"{value:.{digits}f}" for value in [*values, float(np.mean(values))]]
        return f"| {title} | " + " | ".join(cells) + " |"

    def found(model: str, name: str) -> Result:
        return results.get((model, name), Result(np.nan, np.nan, np.nan))  # not measured

    head = ["| | " + " | ".join(names) + " | mean |", "| --- " * (len(names) + 2) + "|"]
    best = {name: best_variants(results, name) for name in names}
    lines = [f"# Densities of binary tables: {platform.machine()} CPU, Python {platform.python_version()}", ""]
    lines += ["Mean test log-likelihood in nats; stopped and chosen on validation rows.", "", *head]
    lines += [row(model, [found(model, name).test for name in names]) for model in models]
    lines.append(row("**best by validation**", [results[best[name], name].test for name in names]))
    if set(names) <= set(SETS):
        places = [SETS.index(name) for name in names]
        lines += [row(f"published: {who}", [values[place] for place in places]) for who, values in PUBLISHED.items()]
        lines += ["", SOURCES]
    lines += ["", "Best by validation: " + ", ".join(f"{name}: {best[name]}" for name in names) + ".", ""]
    lines += ["Mean validation log-likelihood:", "", *head]
    lines += [row(model, [found(model, name).validation for name in names]) for model in models]
    lines += ["", "Seconds to fit, on two cores:", "", *head]
    lines += [row(model, [found(model, name).seconds for name in names], 0) for model in models]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of .npz files")
    parser.add_argument("--sets", nargs="+", help="names of sets; all in the folder by default")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time, each on two cores")
    parser.add_argument("--output", type=Path, default=RESULTS, help="file to write")
    options = parser.parse_args()
    found = sorted(path.stem for path in options.folder.glob("*.npz"))
    names = options.sets or [*(name for name in SETS if name in found), *(name for name in found if name not in SETS)]
    tasks = [Task(options.folder, name, model, 2) for model in reversed((MIXTURE, *MODELS)) for name in reversed(names)]
    results = {}
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        waiting = {pool.submit(run, task): task for task in tasks}
        for done in as_completed(waiting):
            task = waiting[done]
            results[task.model, task.name] = done.result()
            print(f"{task.name}, {task.model}: {done.result()}", flush=True)
    text = report(results, names)
    options.output.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
