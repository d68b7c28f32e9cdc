"""Which familiar rows are refused, by two seeds.

A model with default settings is fitted twice on the same rows of a table, at most 1,000, with two values of
`random_state`, and asked about at most 3,000 others. Means over divisions of the table, in brackets their standard
errors: the shares of rows that the two refuse at 5 %, and of the rows that one of them refuses the share that the other
refuses as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from benchmarks.tables import TARGETS, bundled, read
from socratic import CircuitClassifier, CircuitOutlierDetector

SEEDS = 3
HEADER = ["table", "model", "refused by one", "refused by the other", "of those of one, by the other too"]
MOST_ROWS, MOST_ASKED = 1000, 3000
TABLES = ("adult", "german", "penguins", "telco", "titanic")


def _classifier(x: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    return CircuitClassifier(random_state=seed).fit(x, y)


def _detector(x: pd.DataFrame, y: np.ndarray, seed: int) -> Any:  # noqa: ARG001
    return CircuitOutlierDetector(random_state=seed).fit(x)


MODELS: dict[str, Callable[[pd.DataFrame, np.ndarray, int], Any]] = {"classifier": _classifier, "detector": _detector}


def measure(data: Path | None, seeds: int) -> Iterator[list[str]]:
    """Every table and model."""
    paths = sorted((data / "tables").glob("*.csv*")) if data else []
    tables = {path.name.split(".")[0]: path for path in paths}
    sets = {name: read(tables[name], TARGETS[name]) for name in TABLES if name in tables}
    for name, (x, y) in {**sets, "digits": bundled("digits")}.items():
        for model, make in MODELS.items():
            found = np.array([_refused(make, x, y, seed) for seed in range(seeds)])
            errors = found.std(0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.zeros(3)
            yield [name, model, *(f"{m:.1%} ({e:.1%})" for m, e in zip(found.mean(0), errors, strict=True))]


def _refuses(model: Any, rows: pd.DataFrame) -> np.ndarray:
    return model.reject(rows) if isinstance(model, CircuitClassifier) else model.predict(rows) == -1


def _refused(make: Callable[..., Any], x: pd.DataFrame, y: np.ndarray, seed: int) -> tuple[float, float, float]:
    n_train = min(MOST_ROWS, len(y) // 2)
    train, asked = train_test_split(np.arange(len(y)), train_size=n_train, random_state=seed, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # categories that are only among the other rows
        models = [make(x.iloc[train], y[train], state) for state in (2 * seed, 2 * seed + 1)]
        one, other = (_refuses(model, x.iloc[asked[:MOST_ASKED]]) for model in models)
    return float(one.mean()), float(other.mean()), float(2 * (one & other).sum() / max(1, one.sum() + other.sum()))
