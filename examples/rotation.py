"""Digits that turn: what a classifier of images still reads, and what it refuses.

``python -m examples.rotation docs/images/rotation.png`` draws the picture of the README.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from socratic import CircuitImageClassifier

ANGLES = tuple(range(0, 91, 10))
_SHOWN = 5
"""The test digit above the curves."""


class Turned(NamedTuple):
    """What a classifier makes of test digits turned by one angle."""

    angle: int
    images: np.ndarray  # (N, 8, 8) of uint8
    refused: float  # share of all of them
    wrong: float  # share that is answered, wrongly
    accuracy: float  # share of right answers, if everything had to be answered


def measure(seed: int = 0) -> list[Turned]:
    """Train on two thirds of scikit-learn's digits, and turn the others."""
    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)
    train, test, train_labels, labels = train_test_split(
        images, digits.target, test_size=1 / 3, stratify=digits.target, random_state=seed
    )
    model = CircuitImageClassifier(random_state=seed).fit(train, train_labels)
    found = []
    for angle in ANGLES:
        turned = np.asarray(rotate(test, angle, axes=(1, 2), reshape=False, order=1))
        refused, right = model.reject(turned), model.predict(turned) == labels
        shares = [float(np.mean(part)) for part in (refused, ~refused & ~right, right)]
        found.append(Turned(angle, turned, *shares))
    return found


def draw(turned: list[Turned], path: Path) -> None:
    """Plot what is refused and what is wrong over the angle, with a digit above."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, len(turned), height_ratios=[1, 4])
    for column, step in enumerate(turned):
        axis = figure.add_subplot(grid[0, column])
        axis.imshow(step.images[_SHOWN], cmap="gray_r", vmin=0, vmax=255)
        axis.set_axis_off()
    axis = figure.add_subplot(grid[1, :])
    angles = [step.angle for step in turned]
    lines = [
        ("accuracy, if it had to answer", "s-", "tab:blue", [step.accuracy for step in turned]),
        ("refused", "o-", "tab:orange", [step.refused for step in turned]),
        ("answered wrongly", "^-", "tab:red", [step.wrong for step in turned]),
    ]
    for label, style, colour, shares in lines:
        axis.plot(angles, [100 * share for share in shares], style, color=colour, label=label)
    axis.set(xlabel="rotation (degrees)", ylabel="% of the test digits", ylim=(0, 102), xticks=angles)
    axis.legend(frameon=False, loc="center right")
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    """Measure, print, and draw if a file is named."""
    turned = measure()
    print(f"{'degrees':>7}{'accuracy':>10}{'refused':>10}{'wrong':>8}")
    for step in turned:
        print(f"{step.angle:>7}{step.accuracy:>10.1%}{step.refused:>10.1%}{step.wrong:>8.1%}")
    if len(sys.argv) > 1:
        draw(turned, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
