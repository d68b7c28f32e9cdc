"""The least that a query can take: its operations and bytes over what the device reaches in products and copies.

Operations are those of the sums and of the leaves' two statistics, as this library's formulas have them; bytes are the
parameters, the rows and the results, each read or written once. Everything between may stay in a cache.
"""

from __future__ import annotations

from benchmarks.peers.points import Point
from benchmarks.peers.queries import N_PASSES

FLOAT = 4
"""Bytes of a number."""


class Work:
    """Operations of the parts of a pass over one row."""

    def __init__(self, point: Point) -> None:
        s = point.n_sums
        self.leaves = 4.0 * point.n_features * s * point.n_repetitions
        inner = [point.n_repetitions * 2.0**level for level in range(1, point.depth)]  # regions, from the roots down
        roots = float(point.n_repetitions)
        self.sums = 2.0 * s**2 * (s * sum(inner) + point.n_classes * roots)
        self.variances = self.sums  # a sum of squares for each sum

        def last(width: int) -> float:
            """Of a product that is symmetric in so many sums."""
            return float(s**2 * width * (width + 1))

        # Covariances come from the second layer on: chains of three products with the weights of a region. Where the
        # children have variances alone, as those of the second layer without shared masks, the last one is enough.
        correlated = [*((n, s) for n in inner[:-1]), (roots, point.n_classes)]
        self.chains = sum(n * (4.0 * s**3 * width + last(width)) for n, width in correlated)
        self.own_chains = self.chains - sum(4.0 * n * s**4 for n in inner[-2:-1])
        # Masks that sums share meet the last product of a chain on the way; the first layer has them alone.
        self.masks = sum(n * last(s) for n in inner[-1:])


def operations(task: str, point: Point) -> float:
    """Operations of a query over a batch."""
    work = Work(point)
    forward = work.leaves + work.sums
    a_row = {
        "forward": forward,
        "training step": 3.0 * forward,
        "TDI without covariances": forward + 2.0 * work.variances,
        "exact TDI, edge masks": forward + work.variances + work.own_chains,
        "exact TDI, unit masks": forward + work.chains + work.masks,
        "exact moments, Dirichlet weights": forward + work.variances + work.own_chains,
    }
    if task in a_row:
        return point.batch * a_row[task]
    return point.batch * (work.leaves + N_PASSES * work.sums)


def moved(task: str, point: Point, n_parameters: int) -> float:
    """Bytes that have to be read or written at least once."""
    # A step reads the parameters, writes and reads their gradients, and reads and writes Adam's two means and them.
    of_parameters = 9 if task == "training step" else 1
    return FLOAT * (of_parameters * n_parameters + point.batch * (point.n_features + point.n_classes))


def floor_seconds(task: str, point: Point, n_parameters: float, flops: float, bytes_a_second: float) -> float:
    """The larger of both times."""
    return max(operations(task, point) / flops, moved(task, point, int(n_parameters)) / bytes_a_second)
