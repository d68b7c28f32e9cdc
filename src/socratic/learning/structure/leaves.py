"""Leaves fitted to the values of a column, with priors that keep small groups of rows from overfitting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from socratic.circuit import Leaf
from socratic.families import Distribution, Family
from socratic.learning.structure.columns import without_tails


class LeafFitter:
    """Fits the leaves of a table's columns, relative to how each whole column is distributed.

    Parameters
    ----------
    x : ndarray (N, V)
        The table that sets the scales, NaN where missing.
    families : sequence of Family
        What the values of each column are. The variance bounds of a Gaussian family are for standardised data and
        are not used: ``min_variance`` takes their place.
    min_variance : float
        Smallest variance of a Gaussian or Student-t leaf, as a share of its column's without 1% at either end.
    smoothing : float
        Rows added to every leaf of another family, distributed as the whole column is.
    """

    def __init__(self, x: np.ndarray, families: Sequence[Family], *, min_variance: float, smoothing: float) -> None:
        self.families = tuple(families)
        self._min_variance = min_variance
        self._smoothing = smoothing
        self._whole = [_fit_whole(x[:, column], family) for column, family in enumerate(families)]

    def fit(self, values: np.ndarray, column: int) -> Leaf:
        """The leaf of a column for some of its ``values`` (N,), those that are NaN left out."""
        known = values[~np.isnan(values)]
        whole = self._whole[column]
        options = {"rows": self._smoothing, "min_variance": self._min_variance}
        return Leaf(column, whole.family.fit_part(known, whole, **options))

    def prefers_mixture(self, values: np.ndarray, clusters: np.ndarray, column: int) -> bool:
        """Whether a mixture of one leaf for each cluster describes a column's ``values`` (N,) better than one leaf.

        The gain in log-likelihood must exceed what BIC charges for the additional parameters.
        """
        known = ~np.isnan(values)
        values, clusters = values[known], clusters[known]
        sizes = np.bincount(clusters)
        sizes = sizes[sizes > 0]
        parts = [self.fit(values[clusters == cluster], column) for cluster in np.unique(clusters)]
        if len(parts) < 2:
            return False
        terms = [
            _log_density(leaf, values) + np.log(size / len(values)) for leaf, size in zip(parts, sizes, strict=True)
        ]
        gain = np.logaddexp.reduce(terms).sum() - _log_density(self.fit(values, column), values).sum()
        n_parameters = 1 + self.families[column].n_parameters  # of one more component: its weight and its leaf
        return bool(gain > 0.5 * n_parameters * (len(parts) - 1) * np.log(len(values)))


def _fit_whole(values: np.ndarray, family: Family) -> Distribution:
    """The distribution of a whole column; a few outliers among numbers without bounds do not set its scale."""
    known = values[~np.isnan(values)]
    return family.fit_column(known if family.n_values is not None else without_tails(known))


def _log_density(leaf: Leaf, values: np.ndarray) -> np.ndarray:
    """Log-densities (N,) of values under a leaf."""
    distribution = leaf.distribution
    parameters = distribution.family.from_plain([distribution.parameters])
    return distribution.family.log_density(parameters, torch.from_numpy(values).unsqueeze(0)).squeeze(0).numpy()
