"""Reasons: rows with one wrong value, refused, and the column that is blamed.

``python -m examples.reasons --draw docs/images/reasons.png`` draws the picture of the documentation. Further arguments
are tables to measure, CSV files, by their columns of numbers: ``python -m examples.reasons penguins.csv.gz``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from socratic import CircuitImageClassifier, CircuitOutlierDetector
from socratic.estimators import ImageReasons

TABLES = {
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
    "diabetes": partial(load_diabetes, scaled=False),
}
_FACTORS = (1000.0, 0.001, 2.54)
"""Kilo for one, one for kilo, inches for centimetres."""
_ROWS, _MOST_ROWS = 1000, 4000
"""Rows with a mistake, for each kind of it and each seed; and rows of a table, at most."""
_HOT = 1.0
"""Nats a pixel that are drawn in full colour."""


class Blamed(NamedTuple):
    """Familiar rows of a table with one wrong value."""

    table: str
    mistake: str
    refused: int  # of rows that were not refused before
    right: int  # of these, rows whose wrong value is the first reason


def another_row(x: np.ndarray, columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The value of another row."""
    wrong, each = x.copy(), np.arange(len(x))
    wrong[each, columns] = x[rng.permutation(len(x)), columns]
    return wrong


def another_unit(x: np.ndarray, columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The value in another unit."""
    wrong, each = x.copy(), np.arange(len(x))
    wrong[each, columns] *= rng.choice(_FACTORS, len(x))
    return wrong


def swapped(x: np.ndarray, columns: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG001
    """The value in the place of its neighbour, and the other way round."""
    wrong, each, next_to = x.copy(), np.arange(len(x)), (columns + 1) % x.shape[1]
    wrong[each, columns], wrong[each, next_to] = x[each, next_to], x[each, columns]
    return wrong


MISTAKES: dict[str, Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]] = {
    "another row's value": another_row,
    "another unit": another_unit,
    "swapped with its neighbour": swapped,
}


def measure(table: str, x: np.ndarray, n_seeds: int = 5) -> list[Blamed]:
    """Train on four fifths of a table, and make mistakes in the others; several times."""
    counts = {mistake: np.zeros(2, dtype=int) for mistake in MISTAKES}
    for seed in range(n_seeds):
        train, test = train_test_split(x, test_size=0.2, random_state=seed)
        # The better the density of held-out rows, the more it knows of what a value should be. On these tables that
        # is the density of several learned structures.
        detector = CircuitOutlierDetector(
            structure="learnspn", n_circuits=5, calibration_fraction=0.25, random_state=seed
        ).fit(train)
        familiar = test[detector.predict(test) == 1]
        rng = np.random.default_rng(seed)
        rows = familiar[rng.integers(len(familiar), size=_ROWS)]
        columns = rng.integers(x.shape[1], size=_ROWS)
        for mistake, make in MISTAKES.items():
            wrong = make(rows, columns, rng)
            refused = detector.predict(wrong) == -1
            first = np.nanargmax(detector.explain(wrong).excess, axis=1)
            right = first == columns
            if make is swapped:
                right |= first == (columns + 1) % x.shape[1]
            counts[mistake] += refused.sum(), (refused & right).sum()
    return [Blamed(table, mistake, *count.tolist()) for mistake, count in counts.items()]


def bundled() -> dict[str, np.ndarray]:
    """Tables of scikit-learn."""
    return {name: load(return_X_y=True)[0] for name, load in TABLES.items()}


def read(paths: list[Path]) -> dict[str, np.ndarray]:
    """The columns of numbers of CSV files, rows without missing values."""
    import pandas as pd

    tables = {path.name: pd.read_csv(path).select_dtypes("number").dropna() for path in paths}
    return {name: table.to_numpy(float)[:_MOST_ROWS] for name, table in tables.items()}


def strange_digits(seed: int = 0) -> tuple[dict[str, np.ndarray], ImageReasons]:
    """A digit and three ways to spoil it, (8, 8) each, and what a classifier says of them."""
    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)
    model = CircuitImageClassifier(random_state=seed).fit(images[:-100], digits.target[:-100])
    zero = images[-100:][digits.target[-100:] == 0][0]
    smudged, cut, doubled = zero.copy(), zero.copy(), zero.copy()
    smudged[:2, :2] = 200
    cut[5:7] = 0
    doubled[:, 4:] = zero[:, :4]
    shown = {"as it is": zero, "a smudge": smudged, "two lines lost": cut, "one half twice": doubled}
    return shown, model.explain(np.stack(list(shown.values())))


def draw(images: dict[str, np.ndarray], reasons: ImageReasons, path: Path) -> None:
    """Plot digits, and below each its heat map."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(images))
    for column, (title, image) in enumerate(images.items()):
        axes[0, column].imshow(image, cmap="gray_r", vmin=0, vmax=255)
        axes[0, column].set_title(title, fontsize=9)
        heat = axes[1, column].imshow(reasons.heat[column], cmap="RdBu_r", vmin=-_HOT, vmax=_HOT)
    for axis in axes.flat:
        axis.set_axis_off()
    figure.colorbar(heat, ax=axes[1], label="excess surprise\n(nats a pixel)", extend="both")
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    """Measure, print, and draw if a file is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", type=Path, help="CSV files to measure, instead of scikit-learn's tables")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="picture to write, with the ending .png")
    given = parser.parse_args()
    print(f"{'table':<18}{'mistake':<28}{'refused':>8}{'first reason':>14}")
    for name, x in (read(given.tables) or bundled()).items():
        for table, mistake, refused, right in measure(name, x):
            print(f"{table:<18}{mistake:<28}{refused:>8}{right / max(refused, 1):>14.1%}")
    if given.draw is not None:
        draw(*strange_digits(), given.draw)


if __name__ == "__main__":
    main()
