"""Between which shares of familiar rows a model says that it will refuse.

`calibration_interval()` names two shares, and the share of fresh rows that is really refused at a rate of 5 % should
lie between them in 95 % of the fits. Fresh rows are 4,000 drawn as the training rows were; of real tables up to 4,000
rows that were not fitted. A share that differs from the true one by the chance of so many rows counts as inside. In
brackets: standard errors over seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.promises.repeats import BOTH, N_NEW, SETTINGS
from benchmarks.tables import TARGETS, read

SEEDS = 40
HEADER = ["data", "model", "rows", "refused at 5 %", "said", "inside"]
SIZES = (60, 150, 400, 800)
SIMULATED = ("continuous", "long tails")
_TABLES = ("adult", "diamonds", "telco")

Sample = Callable[[int, int], tuple[Any, Any, Any]]
"""From a number of rows and a seed to rows to fit, their classes, and fresh rows."""


def _drawn(name: str) -> Sample:
    def sample(n: int, seed: int) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng([seed, n])
        x, y = SETTINGS[name].draw(rng, n)
        return x, y, SETTINGS[name].draw(rng, N_NEW)[0]

    return sample


def _taken(path: Path) -> Sample:
    rows, classes = read(path, TARGETS[path.name.split(".")[0]])

    def sample(n: int, seed: int) -> tuple[Any, Any, Any]:
        order = np.random.default_rng([seed, n]).permutation(len(rows))
        fresh = rows.iloc[order[n : n + N_NEW]]
        return rows.iloc[order[:n]], classes[order[:n]], fresh

    return sample


def outcome(model_class: type, sample: Sample, n_rows: int, seed: int) -> tuple[float, float, float, bool]:
    """The share of fresh rows that a model refuses, what it says of it, and whether that is true."""
    x, y, fresh = sample(n_rows, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_class(random_state=seed).fit(x, y)
        p_value = model.p_value(fresh) if hasattr(model, "p_value") else model.uncertainty(fresh).p_value
    refused = float((p_value <= 0.05).mean())
    low, high = model.calibration_interval()
    chance = np.sqrt(np.array([low * (1 - low), high * (1 - high)]) / len(fresh))
    return refused, low, high, bool(low - chance[0] <= refused <= high + chance[1])


def measure(data: Path | None, seeds: int) -> Iterator[list[str]]:
    """One row for each table, model and size."""
    samples = {name: _drawn(name) for name in SIMULATED}
    if data is not None:
        samples |= {name: _taken(data / "tables" / f"{name}.csv.gz") for name in _TABLES}
    for name, sample in samples.items():
        for model_class in BOTH:
            for n_rows in SIZES:
                found = np.array([outcome(model_class, sample, n_rows, seed) for seed in range(seeds)])
                refused, low, high = found[:, :3].mean(0)
                yield [
                    name,
                    model_class.__name__,
                    f"{n_rows:,}",
                    f"{100 * refused:.1f} % ({100 * found[:, 0].std() / np.sqrt(seeds):.1f})",
                    f"{100 * low:.1f} to {100 * high:.1f} %",
                    f"{int(found[:, 3].sum())} of {seeds}",
                ]
