"""Leaves fitted to the values of a column, with priors that keep small groups of rows from overfitting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import binom, norm

from socratic.circuit import Leaf
from socratic.circuit.validity import SMALLEST_VARIANCE
from socratic.distributions import Bernoulli, Binomial, Categorical, Distribution, Normal
from socratic.families import Binomial as BinomialFamily
from socratic.families import Family
from socratic.learning.structure.columns import n_categories, without_tails


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
        Smallest variance of a leaf, as a share of its column's variance without the tails (1% on each side).
    smoothing : float
        Rows added to every leaf of categories or counts, distributed as the whole column is.
    """

    def __init__(self, x: np.ndarray, families: Sequence[Family], *, min_variance: float, smoothing: float) -> None:
        self.families = tuple(families)
        self._min_variance = min_variance
        self._smoothing = smoothing
        self._whole = [self._describe(x[:, column], family) for column, family in enumerate(families)]

    def fit(self, values: np.ndarray, column: int) -> Leaf:
        """The leaf of a column for some of its ``values`` (N,), those that are NaN left out."""
        values = values[~np.isnan(values)]
        return Leaf(column, self._distribution(values, column))

    def prefers_mixture(self, values: np.ndarray, clusters: np.ndarray, column: int) -> bool:
        """Whether a mixture of one leaf for each cluster describes a column's ``values`` (N,) better than one leaf.

        The gain in log-likelihood must exceed what BIC charges for the additional parameters.
        """
        known = ~np.isnan(values)
        values, clusters = values[known], clusters[known]
        n_parameters = 3 if self.families[column].name == "gaussian" else 2  # of one more component
        sizes = np.bincount(clusters)
        sizes = sizes[sizes > 0]
        parts = [self.fit(values[clusters == cluster], column) for cluster in np.unique(clusters)]
        if len(parts) < 2:
            return False
        terms = [
            _log_density(leaf, values) + np.log(size / len(values)) for leaf, size in zip(parts, sizes, strict=True)
        ]
        gain = np.logaddexp.reduce(terms).sum() - _log_density(self.fit(values, column), values).sum()
        return bool(gain > 0.5 * n_parameters * (len(parts) - 1) * np.log(len(values)))

    def _distribution(self, values: np.ndarray, column: int) -> Distribution:
        family, whole = self.families[column], self._whole[column]
        size = n_categories(family)
        if size is not None:
            counts = np.bincount(values.astype(np.int64), minlength=size) + self._smoothing * whole
            shares = counts / counts.sum() if counts.sum() > 0 else whole
            return Bernoulli(float(shares[1])) if family.name == "bernoulli" else Categorical(tuple(shares.tolist()))
        if isinstance(family, BinomialFamily):
            trials = len(values) + self._smoothing
            share = (values.sum() / family.n_trials + self._smoothing * whole[0]) / trials if trials else whole[0]
            return Binomial(family.n_trials, float(share))
        mean, variance = whole
        floor = self._min_variance * variance
        if len(values):
            mean, variance = values.mean(), values.var()
        return Normal(float(mean), float(max(variance, floor, SMALLEST_VARIANCE)))

    @staticmethod
    def _describe(values: np.ndarray, family: Family) -> np.ndarray:
        """Mean and variance of a column of numbers, share of a column of counts, or shares of the categories."""
        values = values[~np.isnan(values)]
        size = n_categories(family)
        if size is not None:
            counts = np.bincount(values.astype(np.int64), minlength=size) + 1.0
            return counts / counts.sum()
        if isinstance(family, BinomialFamily):
            return np.array([(values.sum() / family.n_trials + 0.5) / (len(values) + 1.0)])
        if not len(values):
            return np.array([0.0, 1.0])
        values = without_tails(values)
        mean, variance = values.mean(), values.var()
        # A constant column says nothing about its scale, however its mean was rounded.
        constant = np.sqrt(variance) <= 1e-12 * np.abs(values).max()
        return np.array([mean, 1.0 if constant else variance])


def _log_density(leaf: Leaf, values: np.ndarray) -> np.ndarray:
    """Log-densities (N,) of numbers or counts under a Gaussian or binomial leaf."""
    distribution = leaf.distribution
    if isinstance(distribution, Normal):
        return norm.logpdf(values, distribution.mean, np.sqrt(distribution.variance))
    assert isinstance(distribution, Binomial)
    return binom.logpmf(values, distribution.n_trials, distribution.probability)
