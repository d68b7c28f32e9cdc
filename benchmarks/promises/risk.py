"""Errors among answered rows, by which promise is made of a risk of 5 %.

*With 90 % confidence* is `risk_confidence=0.9`; *on average* is `risk_confidence=None`, the default. A classifier with
default settings is fitted on some rows of a table, at most 2,000, and asked about the others. Those familiar are taken
for all that there is, so that the error among answered rows is known and not estimated: 200 times 400 of them are drawn
at random, repeats included, to calibrate on. Then all seeds of a table together, in brackets standard errors over
seeds:

- *above the risk*: the share of calibrations that answer with more errors than the risk, at most 10 % by the promise
  with confidence;
- *error*: the mean over calibrations that answer anything;
- *answered*: the mean share of familiar rows, calibrations that answer nothing included;
- *fits*: of the fits themselves, by their own calibration rows, how many answer with more errors than the risk among
  the rows that were not fitted, of how many that answer. Of small tables those are few rows.

The last three tables are made up, of 2,000 rows to fit and 10,000 others: two classes that overlap, labels of which
some are wrong, and the former in steps so large that most rows have equals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks.tables import TARGETS, read
from socratic import CircuitClassifier
from socratic.uncertainty.ambiguity import Ambiguity

SEEDS = 5
HEADER = ["table", "promise", "above the risk", "error", "answered", "fits"]
RISK, N_CALIBRATION, N_CALIBRATIONS, MOST_ROWS = 0.05, 400, 200, 2000
PROMISES = {"with 90 % confidence": 0.9, "on average": None}
Rows = tuple[Any, np.ndarray]


def _overlapping(seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 12_000)
    return rng.normal(size=(len(y), 4)) + 0.7 * y[:, None], y


def _mislabelled(seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12_000, 4))
    y = (x[:, 0] > 0).astype(int)
    return x, np.where(rng.random(len(y)) < 0.03, 1 - y, y)


def _in_steps(seed: int) -> Rows:
    x, y = _overlapping(seed)
    return x[:, :2].round(), y


MADE_UP: dict[str, Callable[[int], Rows]] = {
    "overlapping": _overlapping,
    "mislabelled": _mislabelled,
    "in steps": _in_steps,
}


def measure(data: Path | None, seeds: int) -> Iterator[list[str]]:
    """Every table and promise."""
    found: dict[str, Callable[[int], Rows]] = {}
    for path in sorted((data / "tables").glob("*.csv*")) if data else []:
        name = path.name.split(".")[0]
        if name in TARGETS:
            found[f"{name}:{TARGETS[name]}"] = partial(_read, path, TARGETS[name])
    for name, rows_of in {**found, **MADE_UP}.items():
        fits = [_measure_fit(*rows_of(seed), seed) for seed in range(seeds)]
        for promise in PROMISES:
            yield [name, promise, *_told([each[promise] for each in fits])]


def _read(path: Path, target: str, seed: int) -> Rows:  # noqa: ARG001
    return read(path, target)


def _measure_fit(x: Any, y: np.ndarray, seed: int) -> dict[str, tuple[np.ndarray, float]]:
    """By promise the error, NaN without any, and the share of answered rows of each draw (D, 2); the fit's error."""
    n_train = min(MOST_ROWS, len(y) // 2)
    train, others = train_test_split(np.arange(len(y)), train_size=n_train, random_state=seed, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # categories that are only among other rows; risks that cannot be kept
        model = CircuitClassifier(random_state=seed, risk=RISK).fit(_take(x, train), y[train])
        answer = model.answer(_take(x, others))
    familiar = ~model.is_rejected(answer)
    sure = answer.probabilities.max(1)[familiar]
    correct = (model.classes_[answer.probabilities.argmax(1)] == y[others])[familiar]
    rng, measured = np.random.default_rng(seed), {}
    draws = rng.integers(0, len(sure), (N_CALIBRATIONS, N_CALIBRATION))
    for promise, confidence in PROMISES.items():
        drawn = [
            _answered(Ambiguity.fit(sure[rows], correct[rows]).risk(sure, risk_confidence=confidence), correct)
            for rows in draws
        ]
        own = _answered(model.set_params(risk_confidence=confidence).risks(answer)[familiar], correct)
        measured[promise] = np.array(drawn), own[0]
    return measured


def _take(x: Any, places: np.ndarray) -> Any:
    return x.iloc[places] if isinstance(x, pd.DataFrame) else x[places]


def _answered(risks: np.ndarray, correct: np.ndarray) -> tuple[float, float]:
    """The error among rows that are answered, NaN without any, and their share."""
    answered = risks <= RISK
    return float((~correct[answered]).mean()) if answered.any() else np.nan, float(answered.mean())


def _told(fits: list[tuple[np.ndarray, float]]) -> list[str]:
    """The cells of a row, from what was measured of each fit."""
    draws = np.stack([drawn for drawn, _ in fits])  # (fits, draws, 2)
    own = np.array([error for _, error in fits])
    above = (np.nan_to_num(draws[:, :, 0]) > RISK).mean(1)
    answering = [fit[~np.isnan(fit)] for fit in draws[:, :, 0]]
    errors = np.array([each.mean() for each in answering if len(each)])
    return [
        _percent(above),
        _percent(errors) if len(errors) else "-",
        _percent(draws[:, :, 1].mean(1)),
        f"{int((np.nan_to_num(own) > RISK).sum())} of {int((~np.isnan(own)).sum())}",
    ]


def _percent(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():.1%} ({error:.1%})"
