"""Mean class probabilities agree with frequencies, also of rare classes; log-loss is hardly ever above a constant's.

how frequent the rare class is among the rows that are trained on and among others, how probable it is of these on
average, and their log-loss beside that of the frequencies among the training rows, whatever the row. After ± is the
standard error of the mean over seeds, of which each divides or draws its rows anew. *Noise*: labels that have nothing
to do with the columns. *Buyers*: columns that tell a little. Of wine, breast cancer and digits (seven to nine) most
rows of a class are left out, of *wine, one row* all but one that is trained on: rows to test are of the other two.
Where only six to twelve rows of the rare class are trained on, as of these, it is still overstated, by a twentieth to
an eighth. Before, probabilities were tempered towards equal ones: noise of 5 % and 30 % and buyers had mean
probabilities of 0.117, 0.381 and 0.127 then, and a log-loss of 0.261, 0.641 and 0.281 (five seeds).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from socratic import CircuitClassifier

HEADER = ("table", "trained on", "frequency", "mean probability", "difference", "log-loss", "constant's", "difference")
SEEDS = 40
N_TRAIN, N_TEST, N_COLUMNS = 600, 2000, 6

Rows = tuple[np.ndarray, np.ndarray]
Drawn = tuple[Rows, Rows]
"""Rows and labels to train on, and to test."""


def drawn(tell: float, share: float, rng: np.random.Generator) -> Drawn:
    """Labels of which the second is rare, and depends on two columns as much as is said."""
    x = rng.normal(size=(N_TRAIN + N_TEST, N_COLUMNS))
    odds = np.log(share / (1.0 - share)) - tell**2 + tell * (x[:, 0] + x[:, 1])  # about the share on average
    y = (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-odds))).astype(int)
    return (x[:N_TRAIN], y[:N_TRAIN]), (x[N_TRAIN:], y[N_TRAIN:])


def thinned(rows: Rows, rare: int, share: float, rng: np.random.Generator) -> Drawn:
    """Two halves of a table of whose rare class most rows are left out, with as many of it in either."""
    x, y = rows
    others, members = rng.permutation(np.flatnonzero(y != rare)), rng.permutation(np.flatnonzero(y == rare))
    members, others = members[: 2 * round(share / (1.0 - share) * len(others) / 2)], others[: len(others) // 2 * 2]
    train, test = (np.concatenate([others[half::2], members[half::2]]) for half in range(2))
    return (x[train], y[train]), (x[test], y[test])


def digits() -> Rows:
    """Sevens, eights and nines."""
    x, y = load_digits(return_X_y=True)
    return x[y > 6], y[y > 6]


def one_row(rng: np.random.Generator) -> Drawn:
    """Wine, with a single row of the third class to train on, and none to test."""
    x, y = load_wine(return_X_y=True)
    others = rng.permutation(np.flatnonzero(y < 2))
    train = np.append(others[::2], rng.choice(np.flatnonzero(y == 2)))
    return (x[train], y[train]), (x[others[1::2]], y[others[1::2]])


TABLES: dict[str, tuple[int, Callable[[np.random.Generator], Drawn]]] = {
    "noise, 5 %": (1, lambda rng: drawn(0.0, 0.05, rng)),
    "noise, 30 %": (1, lambda rng: drawn(0.0, 0.3, rng)),
    "buyers, 6 %": (1, lambda rng: drawn(0.5, 0.06, rng)),
    "wine, third class rare": (2, lambda rng: thinned(load_wine(return_X_y=True), 2, 0.08, rng)),
    "wine, one row": (2, one_row),
    "breast cancer, malignant rare": (0, lambda rng: thinned(load_breast_cancer(return_X_y=True), 0, 0.06, rng)),
    "digits, nines rare": (9, lambda rng: thinned(digits(), 9, 0.04, rng)),
}
"""The number of the rare class, and rows by a generator."""


def compared(rare: int, rows: Drawn, seed: int) -> tuple[float, ...]:
    """Frequencies of the rare class, its mean probability, log-loss, and that of a constant."""
    (x, y), (asked, truth) = rows
    model = CircuitClassifier(calibration_fraction=0.0, random_state=seed)  # which classes have no part in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is calibrated
        found = model.fit(x, y).predict_proba(asked)
    place = np.searchsorted(model.classes_, truth)
    right, prior = found[np.arange(len(asked)), place], np.bincount(np.searchsorted(model.classes_, y)) / len(y)
    mean = found[:, np.flatnonzero(model.classes_ == rare)[0]].mean()
    losses = (float(-np.log(each).mean()) for each in (right, prior[place]))
    return float((y == rare).mean()), float((truth == rare).mean()), float(mean), *losses


def measure(_data: Path | None, seeds: int) -> Iterator[tuple[str, ...]]:
    """A row for each table."""
    for name, (rare, rows) in TABLES.items():
        found = [compared(rare, rows(np.random.default_rng(seed)), seed) for seed in range(seeds)]
        trained, frequency, mean, loss, constant = np.array(found).T
        yield (
            name,
            *(f"{part.mean():.4f}" for part in (trained, frequency, mean)),
            with_error(mean - frequency),
            *(f"{part.mean():.4f}" for part in (loss, constant)),
            with_error(loss - constant),
        )


def with_error(values: np.ndarray) -> str:
    """The mean, and its standard error."""
    return f"{values.mean():+.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"
