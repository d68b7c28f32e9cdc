"""Tests of independence for all pairs of columns at once: the G-test, and RDC for mixed data.

The randomised dependence coefficient (RDC) is the largest correlation between non-linear functions of two columns.
Numbers are replaced by their ranks and these by random sines, categories by indicators. One matrix product gives
the covariances of the features of all pairs; their canonical correlations follow from small singular values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import chi2

from socratic.families import Family
from socratic.learning.structure.columns import n_categories
from socratic.learning.structure.counts import mutual_information, one_hot, pair_counts, sum_blocks
from socratic.memory import table_rows

_N_FEATURES = 10
_FREQUENCY = 4.0
_SMALLEST_SHARE = 1e-3
"""Directions with less than this share of a column's largest feature variance are rounding and noise."""


@dataclass(frozen=True, eq=False)
class Dependence:
    """What a test found for each pair of columns.

    Attributes
    ----------
    strength : ndarray (V, V)
        From 0 to 1, like the size of a correlation.
    p_value : ndarray (V, V)
        Probability of so strong a dependence between independent columns.
    """

    strength: np.ndarray
    p_value: np.ndarray

    def groups(self, threshold: float, significance: float) -> np.ndarray:
        """Group (V,) of each column, 0, 1, ...: columns of different groups pass as independent.

        Two columns are joined where their dependence is at least ``threshold`` strong and its p-value at most
        ``significance``; groups are the connected components.
        """
        joined = (self.strength >= threshold) & (self.p_value <= significance)
        return connected_components(joined, directed=False)[1]


def g_test(codes: np.ndarray, sizes: Sequence[int]) -> Dependence:
    """G-test (likelihood ratio) of the columns of a table of categories.

    The strength is that of a Gaussian correlation with the same mutual information.

    Parameters
    ----------
    codes : ndarray (N, V)
        Categories, NaN where missing: a pair of columns is tested on the rows where both are known.
    sizes : sequence of int
        Number of categories of each column.
    """
    counts = pair_counts(codes, sizes)
    information = mutual_information(counts, sizes)
    # Categories that never occur with the other column add no freedom.
    column_of = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum([0, *sizes[:-1]])
    occurs = np.add.reduceat(counts, first, axis=1) > 0  # (K, V)
    kinds = np.stack([np.bincount(column_of, occurs[:, v], len(sizes)) for v in range(len(sizes))], axis=1)  # (V, V)
    freedom = np.maximum(kinds - 1, 0) * np.maximum(kinds.T - 1, 0)
    statistic = 2.0 * sum_blocks(counts, sizes) * information
    return Dependence(np.sqrt(-np.expm1(-2.0 * information)), _chi2_p_value(statistic, freedom))


def rdc(x: np.ndarray, families: Sequence[Family], rng: np.random.Generator) -> Dependence:
    """Randomised dependence coefficients of the columns of a table, with p-values by Pillai's trace.

    Parameters
    ----------
    x : ndarray (N, V)
        Rows, NaN where missing: a pair of columns is tested on the rows where both are known.
    families : sequence of Family
        Families of the columns: Bernoulli and categorical columns have no order, others are ranked.
    rng : numpy.random.Generator
    """
    known = (~np.isnan(x)).astype(np.float64)
    whitened, ranks = _whitened_features(x, families, rng)  # (N, V * W), (V,)
    n_columns, width = x.shape[1], whitened.shape[1] // x.shape[1]
    n_rows = known.T @ known  # (V, V)
    strength = np.zeros((n_columns, n_columns))
    squares = np.zeros((n_columns, n_columns))  # sum of the squared canonical correlations
    step = table_rows(whitened.shape[1] * width)
    for start in range(0, n_columns, step):
        block = slice(start, min(start + step, n_columns))
        products = whitened[:, start * width : block.stop * width].T @ whitened[:, start * width :]
        products = products.reshape(-1, width, n_columns - start, width).transpose(0, 2, 1, 3)
        products = products / np.maximum(n_rows[block, start:], 1.0)[:, :, None, None]
        # With missing values, covariances of different rows are combined: a correlation may then exceed 1.
        strength[block, start:] = np.minimum(np.linalg.norm(products, 2, axis=(-2, -1)), 1.0)
        squares[block, start:] = (products**2).sum((-2, -1))
    strength, squares = (np.triu(values, 1) + np.triu(values, 1).T for values in (strength, squares))
    return Dependence(strength, _chi2_p_value(np.maximum(n_rows - 1.0, 0.0) * squares, np.outer(ranks, ranks)))


def _whitened_features(
    x: np.ndarray, families: Sequence[Family], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Uncorrelated features of unit variance (N, V * W) that are 0 where missing, and how many each column has (V,)."""
    slope = _FREQUENCY * rng.standard_normal(_N_FEATURES)
    phase = rng.uniform(0.0, 2.0 * math.pi, _N_FEATURES)
    whitened = np.zeros((len(x), len(families), _N_FEATURES))
    ranks = np.zeros(len(families))
    for column, family in enumerate(families):
        known = ~np.isnan(x[:, column])
        values = x[known, column]
        if not len(values) or values.min() == values.max():
            continue
        size = n_categories(family)
        features = np.sin(np.outer(_ranks(values), slope) + phase) if size is None else _indicators(values, size)
        features = features - features.mean(0)
        variances, directions = np.linalg.eigh(features.T @ features / len(features))
        kept = variances > _SMALLEST_SHARE * variances[-1]
        ranks[column] = kept.sum()
        whitened[known, column, : kept.sum()] = features @ (directions[:, kept] / np.sqrt(variances[kept]))
    return whitened.reshape(len(x), -1), ranks


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks in (0, 1), equal for equal values."""
    ordered = np.sort(values)
    places = np.searchsorted(ordered, values, side="left") + np.searchsorted(ordered, values, side="right")
    return places / (2.0 * len(values))


def _indicators(values: np.ndarray, size: int) -> np.ndarray:
    """Indicators of the most frequent categories, as many as there are features for numbers."""
    counts = np.bincount(values.astype(np.int64), minlength=size)
    frequent = np.argsort(-counts, kind="stable")[:_N_FEATURES]
    return one_hot(values[:, None], [size])[:, frequent]


def _chi2_p_value(statistic: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    p_value = np.ones_like(statistic)
    tested = freedom > 0
    p_value[tested] = chi2.sf(statistic[tested], freedom[tested])
    np.fill_diagonal(p_value, 1.0)
    return p_value
