"""Refusals of fresh rows: ``python -m benchmarks.calibration`` counts them on 200 simulated tables of 20 to 600 rows.

The tables are continuous, discrete with many ties, imbalanced, weighted, or have missing cells. Of each some rows are
fitted and 2,000 others of the same source are asked about: at most the rate of them should be refused, on average.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from socratic.estimators import CircuitClassifier, CircuitOutlierDetector

RATES = (0.01, 0.05, 0.2)
BANDS = ((20, 59), (60, 119), (120, 299), (300, 499), (500, 600))
"""Sizes of tables that are told of together. From 500 rows on some are held out for good."""
N_FRESH = 2000
LEAST_OF_A_CLASS = 19
"""Rows of a class from which on a rate of 5 % can be kept within it."""


class Sample(NamedTuple):
    """Rows to fit, their classes and weights, and fresh rows and classes of the same population."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    fresh: np.ndarray
    fresh_y: np.ndarray


def _classes(rng: np.random.Generator, n: int, shares: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of overlapping classes, each with a centre and a spread of its own, whose columns go together."""
    n_columns = int(rng.integers(3, 9))
    centres = rng.normal(size=(len(shares), n_columns)) * 1.5
    spreads = np.exp(0.4 * rng.normal(size=len(shares)))
    mixing = np.eye(n_columns) + 0.5 * rng.normal(size=(n_columns, n_columns))
    y = rng.choice(len(shares), n, p=shares)
    return (centres[y] + spreads[y, None] * rng.normal(size=(n, n_columns))) @ mixing, y


def continuous(rng: np.random.Generator, n: int) -> Sample:
    """Two or three classes of equal frequency."""
    n_classes = int(rng.integers(2, 4))
    return _sample(*_classes(rng, n + N_FRESH, [1.0 / n_classes] * n_classes), n)


def ties(rng: np.random.Generator, n: int) -> Sample:
    """Five to nine columns of few whole numbers, which repeat."""
    n_columns = int(rng.integers(5, 10))
    y = rng.integers(0, 2, n + N_FRESH)
    odds = rng.uniform(0.05, 0.5, (2, n_columns))
    return _sample(rng.binomial(2, odds[y]).astype(float), y, n)


def imbalanced(rng: np.random.Generator, n: int) -> Sample:
    """A common class, a less common and a rare one."""
    return _sample(*_classes(rng, n + N_FRESH, [0.7, 0.2, 0.1]), n)


def weighted(rng: np.random.Generator, n: int) -> Sample:
    """Every row weighs 1 to 5, or all of them 5."""
    sample = continuous(rng, n)
    weight = rng.integers(1, 6, n).astype(float) if rng.random() < 0.5 else np.full(n, 5.0)
    return sample._replace(weight=weight)


def missing(rng: np.random.Generator, n: int) -> Sample:
    """Three cells in ten are missing, and one row in twenty is empty."""
    x, y = _classes(rng, n + N_FRESH, [0.5, 0.5])
    x[(rng.random(x.shape) < 0.3) | (rng.random((len(x), 1)) < 0.05)] = np.nan
    return _sample(x, y, n)


KINDS: tuple[Callable[[np.random.Generator, int], Sample], ...] = (continuous, ties, imbalanced, weighted, missing)


def _sample(x: np.ndarray, y: np.ndarray, n: int) -> Sample:
    y[:2] = (0, 1)  # a classifier needs two classes
    return Sample(x[:n], y[:n], None, x[n:], y[n:])


class Refused(NamedTuple):
    """Shares of fresh rows that are refused at each of ``RATES``."""

    model: str
    kind: str
    n_rows: int
    shares: tuple[float, ...]


def measure(number: int, structures: tuple[str, str], settings: dict[str, Any]) -> list[Refused]:
    """Refusals of the detector, of the classifier and of the classifier calibrated by class, on a table."""
    rng = np.random.default_rng(number)
    n = round(float(np.exp(rng.uniform(np.log(20), np.log(600)))))
    kind = KINDS[number % len(KINDS)]
    sample = kind(rng, n)
    common = {"random_state": number, **settings}
    detector = CircuitOutlierDetector(**common, structure=structures[0])
    classifier = CircuitClassifier(**common, structure=structures[1], calibrate_by_class=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that are too few for a rate
        for model in (detector, classifier):
            model.fit(sample.x, sample.y, sample_weight=sample.weight)
        in_class = classifier.uncertainty(sample.fresh).p_value
        classifier.class_conformal_ = None  # what it would be without: the circuits are the same
        p_values = {
            "detector": detector.p_value(sample.fresh),
            "classifier": classifier.uncertainty(sample.fresh).p_value,
        }
    found = [Refused(name, kind.__name__, n, _shares(p_value)) for name, p_value in p_values.items()]
    counts = np.bincount(sample.y, minlength=3)
    for label in np.unique(sample.fresh_y):
        if counts[label] >= LEAST_OF_A_CLASS:
            common_class = counts[label] == counts.max()
            name = "by class: the most common" if common_class else "by class: the others"
            found.append(Refused(name, kind.__name__, n, _shares(in_class[sample.fresh_y == label])))
    return found


def _shares(p_value: np.ndarray) -> tuple[float, ...]:
    return tuple(float((p_value <= rate).mean()) for rate in RATES)


def tables(found: Sequence[Refused]) -> list[str]:
    """Mean shares by model and size, and by model and kind of table, with their standard errors, in Markdown."""
    lines = _table(
        "rows",
        found,
        [(f"{low} to {high}", [each for each in found if low <= each.n_rows <= high]) for low, high in BANDS],
    )
    return lines + _table(
        "table", found, [(kind.__name__, [each for each in found if each.kind == kind.__name__]) for kind in KINDS]
    )


def _table(first: str, found: Sequence[Refused], groups: list[tuple[str, list[Refused]]]) -> list[str]:
    header = ["model", first, "cases", *(f"refused at {rate:.0%}" for rate in RATES)]
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join(["---"] * len(header)) + " |"]
    for model in dict.fromkeys(each.model for each in found):
        for name, group in [*groups, ("all", list(found))]:
            shares = np.array([each.shares for each in group if each.model == model])
            if len(shares):
                error = shares.std(0) / np.sqrt(len(shares))
                cells = [f"{mean:.2%} ± {spread:.2%}" for mean, spread in zip(shares.mean(0), error, strict=True)]
                lines.append("| " + " | ".join([model, name, str(len(shares)), *cells]) + " |")
    return [*lines, ""]


def main() -> None:
    """Measure, print and write the tables."""
    parser = argparse.ArgumentParser(description="Count refusals of fresh rows on simulated tables.")
    parser.add_argument("--tables", type=int, default=200, help="how many tables")
    detector, classifier = CircuitOutlierDetector().structure, CircuitClassifier().structure
    parser.add_argument("--detector", default=detector, metavar="STRUCTURE", help="of the detector")
    parser.add_argument("--classifier", default=classifier, metavar="STRUCTURE", help="of the classifier")
    parser.add_argument("--epochs", type=int, help="of training, instead of the estimators' choice")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    arguments = parser.parse_args()
    structures = (arguments.detector, arguments.classifier)
    settings: dict[str, Any] = {"n_jobs": 1}
    if arguments.epochs is not None:
        settings["n_epochs"] = arguments.epochs
    start = time.perf_counter()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        each = pool.map(partial(measure, structures=structures, settings=settings), range(arguments.tables))
        found = [refused for table in each for refused in table]
    minutes = (time.perf_counter() - start) / 60.0
    epochs = "" if arguments.epochs is None else f", {arguments.epochs} epochs"
    told = f"detector of structure {structures[0]!r}, classifier of {structures[1]!r}{epochs}"
    lines = [
        "# Refused shares of fresh rows",
        "",
        f"{arguments.tables} simulated tables of 20 to 600 rows, {told}, {minutes:.0f} minutes on {arguments.jobs} "
        "cores. Means over tables, with standard errors; by class, over the classes of at least "
        f"{LEAST_OF_A_CLASS} rows.",
        "",
        *tables(found),
    ]
    text = "\n".join(lines)
    (Path(__file__).parent / "results" / "calibration.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
