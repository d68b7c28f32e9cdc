"""What is measured: circuits of which sizes, batches of how many rows, and the queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

Task = Literal["forward", "training step"]
TASKS: tuple[Task, ...] = get_args(Task)
"""What other libraries do, too: log-likelihoods of all classes, and one step of Adam on the negative mean of those of
the rows' classes."""


@dataclass(frozen=True)
class Point:
    """A RAT-SPN with Gaussian leaves and all pairs as products, as many leaves as sums, and a batch of rows."""

    n_features: int = 784
    n_sums: int = 20
    depth: int = 5
    n_repetitions: int = 5
    batch: int = 200
    n_classes: int = 10

    def __str__(self) -> str:
        return (
            f"{self.n_features} variables, {self.n_sums} sums, depth {self.depth}, "
            f"{self.n_repetitions} repetitions, batch {self.batch}"
        )


PAPER_SIZES = (Point(), Point(n_features=3072))
MIDDLE = Point(depth=4, n_repetitions=2)
"""Where the axes of the sweep meet: small enough that 128 sums, or 16,384 rows, fit in a few GB and seconds."""
SWEEP: dict[str, tuple[int, ...]] = {
    "n_sums": (10, 20, 40, 64, 128),
    "depth": (2, 4, 6, 8),
    "n_repetitions": (1, 2, 5, 10),
    "batch": (1, 16, 200, 2048, 16384),
}
AXES = {"n_sums": "sums", "depth": "depth", "n_repetitions": "repetitions", "batch": "batch"}


def along(axis: str) -> list[Point]:
    """The points of one axis of the sweep."""
    return [replace(MIDDLE, **{axis: value}) for value in SWEEP[axis]]


def all_points() -> list[Point]:
    """Every point once: the paper's sizes, then the sweep."""
    return list(dict.fromkeys([*PAPER_SIZES, *(point for axis in SWEEP for point in along(axis))]))
