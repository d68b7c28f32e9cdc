"""Outliers among the rows that a detector learns from.

AUROC of outliers, in percent, with default settings. *Contaminated*: detectors learn from all rows, outliers included,
and score the same rows. *Normal*: they learn from 70 % of the normal rows, and score the others and all outliers;
*refused* is the percentage of these other normal rows that the circuit refuses at its default rate of 5 %. *Circuit* is
`CircuitOutlierDetector`; *all kernels* are the kernels of all rows, undivided and of equal weight, which detectors were
judged by before outliers among them were noticed; *forest* is an isolation forest, *neighbours* the distance to the
fifth nearest neighbour. Simulated rows are bell curves of four columns, with 3 % of outliers: one tight clump or groups
of three. At most 3,000 rows of each other set. Means over seeds, which draw the rows and the models; +- is the standard
error of the mean over all sets. The sizes of parts and samples were chosen among variants by their means on these very
sets, so that the first column is somewhat better than other sets will be.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.anomalies import TRAIN_SHARE, subset
from benchmarks.detectors import BASELINES
from socratic import CircuitDensity, CircuitOutlierDetector
from socratic.uncertainty import auroc

METHODS = ("circuit", "all kernels", "forest", "neighbours")
PROTOCOLS = ("contaminated", "normal")
HEADER = ("set", *(f"{protocol}: {method}" for protocol in PROTOCOLS for method in METHODS), "refused")
SEEDS = 2
_MOST_ROWS = 3000

Rows = tuple[np.ndarray, np.ndarray]
"""Rows (N, V), and which of them are outliers (N,)."""


def simulated(size: int, seed: int) -> Rows:
    """Outliers in groups of the same size, far from a bell curve."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.choice([-5.0, 5.0], size=(18 // size, 4)), size, axis=0)
    rows = np.concatenate([rng.normal(size=(600, 4)), centres + rng.normal(0.0, 0.1, size=centres.shape)])
    order = rng.permutation(len(rows))
    return rows[order], order >= 600


def stored(path: Path, seed: int) -> Rows:
    """Some rows of a file."""
    data = np.load(path)
    return subset(data["X"], data["y"], _MOST_ROWS, seed)


def scores(
    circuit: CircuitOutlierDetector, train: np.ndarray, test: np.ndarray | None, seed: int
) -> Iterator[np.ndarray]:
    """How unusual each method finds the rows to score: (M,), those it learned from by default."""
    asked = train if test is None else test
    yield -circuit.fit(train).score_samples(asked)
    yield -CircuitDensity(structure="kernels", random_state=seed).fit(train).score_samples(asked)
    yield BASELINES["isolation forest"](train, test, seed)
    yield BASELINES["nearest neighbours"](train, test, seed)


def figures(rows: np.ndarray, outlier: np.ndarray, seed: int) -> list[float]:
    """The numbers of a row of the table, in percent."""
    normal = rows[~outlier]
    n_train = round(TRAIN_SHARE * len(normal))
    train, new = normal[:n_train], normal[n_train:]
    test = np.concatenate([new, rows[outlier]])
    unknown = np.arange(len(test)) >= len(new)
    circuit = CircuitOutlierDetector(random_state=seed)
    found = [auroc(each[~outlier], each[outlier]) for each in scores(circuit, rows, None, seed)]
    found += [auroc(each[~unknown], each[unknown]) for each in scores(circuit, train, test, seed)]
    found.append(float((circuit.predict(new) < 0).mean()))
    return [100.0 * value for value in found]


def measure(data: Path | None, seeds: int) -> Iterator[tuple[str, ...]]:
    """A row for each set, and the means over the sets of the folder."""
    sets: dict[str, Callable[[int], Rows]] = {
        "simulated, a clump": partial(simulated, 18),
        "simulated, groups of 3": partial(simulated, 3),
    }
    paths = sorted(data.glob("*.npz")) if data else []
    kept = []
    for name, rows_of in (sets | {path.stem: partial(stored, path) for path in paths}).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few rows to calibrate on
            found = np.array([figures(*rows_of(seed), seed) for seed in range(seeds)])  # (S, columns)
        if name not in sets:
            kept.append(found)
        yield name, *(f"{value:.1f}" for value in found.mean(0))
    if kept:
        by_seed = np.mean(kept, axis=0)
        error = by_seed.std(0, ddof=1) / seeds**0.5 if seeds > 1 else np.full(len(HEADER) - 1, np.nan)
        yield "mean", *(f"{value:.1f} +- {e:.1f}" for value, e in zip(by_seed.mean(0), error, strict=True))
