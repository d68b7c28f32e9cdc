"""Rows are clustered by all their columns, whatever these hold."""

from __future__ import annotations

import numpy as np
import pytest

from socratic.families import Categorical, Gaussian
from socratic.learning.structure import clusters as module
from socratic.learning.structure.clusters import cluster_rows

FAMILIES = [Gaussian(), Gaussian(), Categorical(4)]


def two_kinds(n_rows: int, missing: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, n_rows)
    x = np.column_stack(
        [1e6 * (4 * kind + rng.normal(size=n_rows)), 1e-6 * (4 * kind + rng.normal(size=n_rows)), 3 * kind]
    )
    x[rng.random(x.shape) < missing] = np.nan
    return x, kind


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_planted_clusters_are_found_at_any_scale(missing: float) -> None:
    x, kind = two_kinds(300, missing)
    found = cluster_rows(x, FAMILIES, 2, np.random.default_rng(0))
    agreement = np.mean(found == kind)
    assert max(agreement, 1 - agreement) > 0.95


def test_few_rows_stand_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    x, kind = two_kinds(2000, 0.0)
    monkeypatch.setattr(module, "_MAX_ROWS", 100)
    found = cluster_rows(x, FAMILIES, 2, np.random.default_rng(0))
    assert len(found) == 2000
    agreement = np.mean(found == kind)
    assert max(agreement, 1 - agreement) > 0.95


def test_rows_that_are_alike_are_one_cluster() -> None:
    for x in (np.ones((20, 3)), np.full((20, 3), np.nan), np.ones((1, 3))):
        assert cluster_rows(x, FAMILIES, 2, np.random.default_rng(0)).tolist() == [0] * len(x)


def test_fewer_kinds_of_rows_than_clusters() -> None:
    x = np.repeat([[0.0, 0.0, 1.0], [1.0, 5.0, 2.0]], 200, axis=0)
    found = cluster_rows(x, FAMILIES, 5, np.random.default_rng(0))
    assert sorted(np.bincount(found)) == [200, 200]
