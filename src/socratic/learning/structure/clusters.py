"""Groups of similar rows in mixed tables with missing values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.cluster import KMeans

from socratic.families import Family
from socratic.learning.structure.columns import n_categories, without_tails
from socratic.learning.structure.counts import one_hot

_MAX_ROWS = 10_000
"""Centres are sought among so many rows drawn at random; more change them little."""


def cluster_rows(x: np.ndarray, families: Sequence[Family], n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Cluster (N,) of each row, 0, 1, ..., by k-means; fewer than ``n_clusters`` if fewer rows are distinct.

    Parameters
    ----------
    x : ndarray (N, V)
        Rows, NaN where missing: there the column's mean stands in.
    families : sequence of Family
        Families of the columns: numbers lose their tails and are standardised, categories become indicators of the
        same total variance.
    n_clusters : int
    rng : numpy.random.Generator
    """
    features = _row_features(x, families)
    sample = features if len(x) <= _MAX_ROWS else features[np.sort(rng.permutation(len(x))[:_MAX_ROWS])]
    n_distinct = len(np.unique(sample[: 50 * n_clusters], axis=0))
    if n_distinct < n_clusters:
        n_distinct = len(np.unique(sample, axis=0))
    if n_distinct < 2:
        return np.zeros(len(x), dtype=np.int64)
    model = KMeans(min(n_clusters, n_distinct), n_init=3, random_state=int(rng.integers(2**31))).fit(sample)
    return np.unique(model.predict(features), return_inverse=True)[1]


def _row_features(x: np.ndarray, families: Sequence[Family]) -> np.ndarray:
    """Standardised features of the rows: (N, V) for numbers alone, more with categories."""
    columns = []
    for column, family in enumerate(families):
        values = x[:, column]
        known = ~np.isnan(values)
        size = n_categories(family)
        features = without_tails(values)[:, None].copy() if size is None else one_hot(values[:, None], [size])
        if not known.any():
            continue
        features[known] -= features[known].mean(0)
        features[~known] = 0.0
        deviation = np.sqrt((features[known] ** 2).mean(0).sum())
        if deviation > 0.0:
            columns.append(features / deviation)
    return np.hstack(columns) if columns else np.zeros((len(x), 1))
