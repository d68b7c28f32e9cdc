"""Small models to serve, each fitted once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from socratic import CircuitClassifier, CircuitDensity, CircuitImageClassifier, CircuitOutlierDetector
from socratic.serve.model import ServedModel, ServedTable, served
from tests.serve.running import Site, running


def make_fruit(n_rows: int = 520, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of numbers, text, booleans and something to leave out, of two classes."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n_rows) < 0.5, "apple", "pear")
    is_apple = y == "apple"
    frame = pd.DataFrame(
        {
            "weight": np.where(is_apple, 150.0, 180.0) + 20.0 * rng.standard_normal(n_rows),
            "length": np.where(is_apple, 7.0, 9.5) + rng.standard_normal(n_rows),
            "colour": np.where(rng.random(n_rows) < 0.7, np.where(is_apple, "red", "green"), "yellow"),
            "organic": rng.random(n_rows) < 0.4,
            "label id": [f"no-{number:05d}" for number in range(n_rows)],
        }
    )
    return frame, y


@cache
def fitted(kind: str) -> Any:
    x, y = make_fruit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "forest":
            return CircuitClassifier(risk=0.3, random_state=0).fit(x, y)
        if kind == "trees":
            return CircuitClassifier(structure="random", n_epochs=2, n_repetitions=2, random_state=0).fit(x, y)
        if kind == "detector":
            return CircuitOutlierDetector(random_state=0).fit(x)
        if kind == "density":
            return CircuitDensity(n_epochs=3, random_state=0).fit(x)
        images, labels = load_digits(return_X_y=True)
        pixels = (images * 15.9).astype(np.uint8).reshape(-1, 8, 8)
        return CircuitImageClassifier(n_epochs=1, n_sums=4, random_state=0).fit(pixels[:300], labels[:300])


@pytest.fixture(scope="session")
def forest() -> ServedTable:
    return ServedTable("fruit", fitted("forest"))


@pytest.fixture(scope="session")
def everything(forest: ServedTable) -> list[ServedModel]:
    others = {"trees": "trees", "odd": "detector", "density": "density", "digits": "images"}
    return [forest, *(served(name, fitted(kind)) for name, kind in others.items())]


@pytest.fixture(scope="session")
def site(everything: list[ServedModel]) -> Iterator[Site]:
    with running(everything) as found:
        yield found


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    """Rows that no model was fitted on."""
    x, _ = make_fruit(40, seed=1)
    return [{str(name): value for name, value in row.items()} for row in x.to_dict("records")]
