"""Tables of real and of made-up rows, in halves: one to fit, the other to ask."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from benchmarks.tables import TARGETS, read
from socratic import CircuitClassifier, CircuitGuard, CircuitOutlierDetector

MOST_ROWS, MOST_ASKED = 1000, 1000
MODELS = ("CircuitOutlierDetector", "CircuitClassifier", "CircuitGuard")


class Sample(NamedTuple):
    """Rows and classes to fit, and rows of the same kind to ask."""

    x: pd.DataFrame
    y: np.ndarray
    asked: pd.DataFrame


def names(data: Path | None) -> list[str]:
    """Of all tables: scikit-learn's, made-up ones, and those of a folder."""
    bundled = ["wine", "breast cancer", "diabetes", "iris", "digits"]
    return [*bundled, "correlated", "one column", *(TARGETS if data else ())]


def sample(name: str, data: Path | None, seed: int) -> Sample:
    """A third of the rows of a table, and at most some, to ask; the others to fit."""
    x, y = _rows(name, data, seed)
    numbers = x.select_dtypes("number").columns
    x = x.astype(dict.fromkeys(numbers, np.float64))  # which can be missing
    size = min(len(x), MOST_ROWS + MOST_ASKED)
    asked = min(len(x) // 3, MOST_ASKED)
    some = np.random.default_rng(seed).permutation(len(x))[:size]
    fit, ask = train_test_split(some, test_size=asked, random_state=seed)
    return Sample(x.iloc[fit], y[fit], x.iloc[ask])


def fitted(model: str, rows: Sample, seed: int) -> Any:
    """A model with default settings, fitted to a sample; a guard to rows that the forest it guards has not seen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if model == "CircuitOutlierDetector":
            return CircuitOutlierDetector(random_state=seed).fit(rows.x)
        if model == "CircuitClassifier":
            return CircuitClassifier(random_state=seed).fit(rows.x, rows.y)
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        half = len(rows.x) // 2
        guarded = make_pipeline(codes, RandomForestClassifier(50, random_state=seed)).fit(rows.x[:half], rows.y[:half])
        return CircuitGuard(guarded, random_state=seed).fit(rows.x[half:], unseen=True)


def p_value(model: Any, rows: pd.DataFrame) -> np.ndarray:
    """P-values (N,) of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.uncertainty(rows).p_value if isinstance(model, CircuitClassifier) else model.p_value(rows)
    return np.asarray(found)


def samples(name: str, data: Path | None, seeds: int) -> Iterator[tuple[int, Sample]]:
    """One sample for each seed."""
    return ((seed, sample(name, data, seed)) for seed in range(seeds))


def _rows(name: str, data: Path | None, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    if name in TARGETS:
        assert data is not None
        return read(data / "tables" / f"{name}.csv.gz", TARGETS[name])
    rng = np.random.default_rng([7, seed])
    if name == "correlated":
        hidden = rng.normal(size=(1500, 3))
        x = hidden @ np.random.default_rng(0).normal(size=(3, 10)) + 0.5 * rng.normal(size=(1500, 10))
        return pd.DataFrame(x).add_prefix("c"), (hidden[:, 0] > 0).astype(int)
    if name == "three kinds":
        kind = rng.integers(3, size=1500)
        colours = np.array(["red", "green", "blue"])[np.where(rng.random(1500) < 0.8, kind, rng.integers(3, size=1500))]
        sizes = np.array(list("vwxyz"))[np.minimum(kind + rng.binomial(2, 0.4, 1500), 4)]
        towns = np.array([f"town {k}" for k in range(12)])[rng.choice(12, 1500, p=np.arange(1, 13) / 78)]
        numbers = kind[:, None] + rng.normal(size=(1500, 2))
        x = pd.DataFrame({"colour": colours, "size": sizes, "town": towns, "a": numbers[:, 0], "b": numbers[:, 1]})
        return x, kind
    if name == "one column":  # which varies by far the most, beside three that hardly vary
        x = rng.poisson(0.05, (1500, 4)).astype(float)
        x[:, 0] = rng.standard_t(2, 1500)
        return pd.DataFrame(x).add_prefix("c"), (x[:, 0] + rng.normal(size=1500) > 0).astype(int)
    load = {
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
        "diabetes": load_diabetes,
        "iris": load_iris,
        "digits": load_digits,
    }[name]
    x, y = load(return_X_y=True, as_frame=True)
    y = y.to_numpy()
    return x, (y > np.median(y)).astype(int) if name == "diabetes" else y
