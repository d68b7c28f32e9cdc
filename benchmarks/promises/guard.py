"""Familiar rows that a guard refuses, by which rows it is fitted on.

Of fresh rows drawn as the training rows were, the share that is refused at a rate of 5 %: means over seeds, in brackets
their standard errors. Handwritten digits of scikit-learn, divided anew by each seed; the model is trained on the first
part. A guard is fitted

- *where the model was*: `fit(X_train)`, which leaves the model's entropy out and says so;
- *and on held-out rows*: `fit(X_train, held_out=X_more)`;
- *on rows new to the model*: `fit(X_more, unseen=True)`;
- *where the model was, said to be new to it*: `fit(X_train, unseen=True)`, which is not true: what happens if the
  model's entropy is compared with that of rows that it knows.

The forest is scikit-learn's with 100 trees, of the pixels as columns. The callable is a network of 64 units in
scikit-learn, which is given as a function; it gets the columns or the images. Guards of images have a
`CircuitImageDensity(n_epochs=5, n_sums=6)`, others the defaults. With 200 rows tables are cross-fitted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from socratic import CalibrationWarning, CircuitGuard, CircuitImageDensity

SEEDS = 40
HEADER = ["data", "model", "rows", "guard fitted", "refused", "share of fits refusing more than 8 %"]
Fit = Callable[[CircuitGuard, tuple[np.ndarray, np.ndarray]], CircuitGuard]

CASES: dict[str, Fit] = {
    "where the model was": lambda guard, rows: guard.fit(rows[0]),
    "and on held-out rows": lambda guard, rows: guard.fit(rows[0], held_out=rows[1]),
    "on rows new to the model": lambda guard, rows: guard.fit(rows[1], unseen=True),
    "where the model was, said to be new to it": lambda guard, rows: guard.fit(rows[0], unseen=True),
}
"""How a guard is fitted, given the rows of the model and others."""


def _forest(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    return RandomForestClassifier(random_state=seed).fit(x, y)


def _callable(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    def flat(rows: np.ndarray) -> np.ndarray:
        return rows.reshape(len(rows), -1) / x.max()

    network = MLPClassifier((64,), max_iter=40, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would go on for longer
        network.fit(flat(x), y)
    return lambda rows: network.predict_proba(flat(np.asarray(rows)))


SETTINGS = [
    ("columns", "forest", _forest, 600),
    ("columns", "callable", _callable, 600),
    ("columns", "forest", _forest, 200),
    ("columns", "callable", _callable, 200),
    ("images", "callable", _callable, 600),
]


def _refused(data: str, make: Callable[..., Any], n_rows: int, fit: Fit, seed: int) -> float:
    x, y = load_digits(return_X_y=True)
    x = np.round(x.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8) if data == "images" else x
    train, more, fresh = np.split(np.random.default_rng(seed).permutation(len(x)), [n_rows, 2 * n_rows])
    density = CircuitImageDensity(n_epochs=5, n_sums=6) if data == "images" else None
    guard = CircuitGuard(make(x[train], y[train], seed), density=density, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return float(fit(guard, (x[train], x[more])).reject(x[fresh]).mean())


def measure(data: Path | None, seeds: int) -> Iterator[list[str]]:
    """Every setting and case; ``data`` is not needed."""
    del data
    for kind, model, make, n_rows in SETTINGS:
        for case, fit in CASES.items():
            shares = np.array([_refused(kind, make, n_rows, fit, seed) for seed in range(seeds)])
            error = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else 0.0
            told = f"{shares.mean():.1%} ({error:.1%})"
            yield [kind, model, str(n_rows), case, told, f"{(shares > 0.08).mean():.0%}"]
