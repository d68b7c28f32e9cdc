"""Rates on data with repeats, sentinels, long tails and rare classes.

Of rows drawn as the training rows were, how many are refused at 1 and at 5 %, and in how many streams of 1,000 of them
a drift monitor alarms, whose rate is 1 %. In brackets: standard errors over seeds. "All of a repeat refused" counts
fits in which a row that stands for a tenth of the data is refused, at 5 %. `calibrated_` is the share of fits that say
that they keep the rate. The data are made up.

- *continuous*: five correlated normal columns.
- *default reading*: in a tenth of the rows all columns have one value, one of them fractional.
- *sentinel*: -999 stands for what is unknown, in a tenth of the cells.
- *long tails*: five columns of Student's t with 1.5 degrees of freedom.
- *six kinds*: six different rows and no other.
- *100 classes*, *400 classes*: as many classes, whose shares are those of Zipf's law, around centres of their own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from socratic import CircuitClassifier, CircuitOutlierDetector, DriftMonitor

SEEDS = 40
HEADER = [
    "data",
    "model",
    "rows",
    "refused at 1 %",
    "refused at 5 %",
    "all of a repeat refused",
    "false alarms of drift",
    "`calibrated_`",
]
N_NEW, N_STREAM = 4000, 1000

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
"""From a generator and a number of rows to rows (N, V) and classes (N,)."""
REPEAT = np.array([20.5, 0.0, 1.0, 50.0, 3.0])


def _continuous(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(n, 5)) @ (np.eye(5) + 0.5)
    return x, (x.sum(1) + rng.normal(size=n) > 0).astype(int)


def _default_reading(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = _continuous(rng, n)
    here = rng.random(n) < 0.1
    return np.where(here[:, None], REPEAT, x), np.where(here, rng.integers(0, 2, n), y)


def _sentinel(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x, y = _continuous(rng, n)
    return np.where(rng.random(x.shape) < 0.1, -999.0, x), y


def _long_tails(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_t(1.5, size=(n, 5))
    return x, (np.tanh(x).sum(1) + rng.normal(size=n) > 0).astype(int)


def _six_kinds(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    kinds = np.random.default_rng(0).normal(size=(6, 4)).round(2)
    which = rng.choice(6, n, p=[0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    return kinds[which], (which + (rng.random(n) < 0.2)) % 2


def _zipf(n_classes: int) -> Draw:
    shares = 1.0 / np.arange(1, n_classes + 1)
    centres = np.random.default_rng(1).normal(scale=4.0, size=(n_classes, 5))

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.choice(n_classes, n, p=shares / shares.sum())
        return centres[y] + rng.normal(size=(n, 5)), y

    return draw


class Setting(NamedTuple):
    """Data, the sizes of training sets, and the models that are fitted to them."""

    draw: Draw
    sizes: tuple[int, ...]
    models: tuple[type, ...]


BOTH = (CircuitOutlierDetector, CircuitClassifier)
SETTINGS = {
    "continuous": Setting(_continuous, (150, 700), BOTH),
    "default reading": Setting(_default_reading, (150, 700), BOTH),
    "sentinel": Setting(_sentinel, (150, 700), BOTH),
    "long tails": Setting(_long_tails, (150, 700), BOTH),
    "six kinds": Setting(_six_kinds, (150, 700), BOTH),
    "100 classes": Setting(_zipf(100), (1000,), (CircuitClassifier,)),
    "400 classes": Setting(_zipf(400), (1000,), (CircuitClassifier,)),
}


class Outcome(NamedTuple):
    """What one fit came to."""

    at_1: float
    at_5: float
    repeat_refused: bool
    alarm: bool
    calibrated: bool


def outcome(model_class: type, draw: Draw, n_rows: int, seed: int) -> Outcome:
    """Fit a model to rows, and ask it about others."""
    rng = np.random.default_rng([seed, n_rows])
    x, y = draw(rng, n_rows)
    new, stream = draw(rng, N_NEW)[0], draw(rng, N_STREAM)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_class(random_state=seed).fit(x, y)
        judgement = model.judge_rows(next(iter(model._batches(new)))).p_value
        alarm = DriftMonitor(model, seed=seed).update(stream).alarm
        repeat = model.judge_rows(next(iter(model._batches(REPEAT[None])))).p_value if draw is _default_reading else [1]
    return Outcome(
        float((judgement <= 0.01).mean()),
        float((judgement <= 0.05).mean()),
        bool(repeat[0] <= 0.05),
        bool(alarm),
        bool(model.calibrated_),
    )


def _mean(values: list[float]) -> str:
    return f"{100 * np.mean(values):.1f} % ({100 * np.std(values) / np.sqrt(len(values)):.1f})"


def measure(data: Path | None, seeds: int) -> Iterator[list[str]]:  # noqa: ARG001 - all data are made up
    """One row for each kind of data, model and size."""
    for name, setting in SETTINGS.items():
        for model_class in setting.models:
            for n_rows in setting.sizes:
                found = [outcome(model_class, setting.draw, n_rows, seed) for seed in range(seeds)]
                at_1, at_5, repeat, alarm, calibrated = (
                    list(map(float, values)) for values in zip(*found, strict=True)
                )
                yield [
                    name,
                    model_class.__name__,
                    f"{n_rows:,}",
                    _mean(at_1),
                    _mean(at_5),
                    f"{int(sum(repeat))} of {seeds}" if setting.draw is _default_reading else "",
                    f"{int(sum(alarm))} of {seeds}",
                    f"{100 * np.mean(calibrated):.0f} %",
                ]
