"""How often the categories of two columns occur together, for all pairs of columns at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from socratic.memory import table_rows


def one_hot(codes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Indicators (N, K) of the categories of all columns side by side; zeros where a value is missing.

    Parameters
    ----------
    codes : ndarray (N, V)
        Category of each value, NaN where missing.
    sizes : sequence of int
        Number of categories of each column; K is their sum.
    """
    first = np.cumsum([0, *sizes[:-1]])
    rows, columns = np.nonzero(~np.isnan(codes))
    indicators = np.zeros((len(codes), sum(sizes)))
    indicators[rows, first[columns] + codes[rows, columns].astype(np.int64)] = 1.0
    return indicators


def pair_counts(codes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Counts (K, K) of each pair of categories of any two columns, over the rows where both are known."""
    total = np.zeros((sum(sizes), sum(sizes)))
    step = table_rows(sum(sizes))
    for start in range(0, len(codes), step):
        indicators = one_hot(codes[start : start + step], sizes)
        total += indicators.T @ indicators
    return total


def sum_blocks(cells: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Sums (V, V) of the blocks of ``cells`` (K, K), one block for each pair of columns."""
    first = np.cumsum([0, *sizes[:-1]])
    return np.add.reduceat(np.add.reduceat(cells, first, axis=0), first, axis=1)


def smoothed(counts: np.ndarray, sizes: Sequence[int], smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """Joint probabilities of all pairs of categories, and the marginals they imply.

    Parameters
    ----------
    counts : ndarray (K, K)
    sizes : sequence of int
    smoothing : float
        Rows added to each pair of columns, distributed as if the two were independent.

    Returns
    -------
    joint : ndarray (K, K)
        Each block adds up to 1, or to 0 where a pair was never seen and nothing is added.
    marginal : ndarray (K, V)
        Marginal of each category in its pair with each column.
    """
    column_of = np.repeat(np.arange(len(sizes)), sizes)
    first = np.cumsum([0, *sizes[:-1]])
    own = np.diag(counts) + 1.0 / np.repeat(sizes, sizes)  # one row spread evenly: no category is impossible
    own = own / np.add.reduceat(own, first)[column_of]
    padded = counts + smoothing * np.outer(own, own)
    seen = sum_blocks(padded, sizes)[column_of][:, column_of]
    joint = np.divide(padded, seen, out=np.zeros_like(padded), where=seen > 0)
    return joint, np.add.reduceat(joint, first, axis=1)


def mutual_information(counts: np.ndarray, sizes: Sequence[int], smoothing: float = 0.0) -> np.ndarray:
    """Mutual information (V, V) of any two columns in nats; the diagonal is 0."""
    joint, marginal = smoothed(counts, sizes, smoothing)
    column_of = np.repeat(np.arange(len(sizes)), sizes)
    independent = marginal[:, column_of] * marginal[:, column_of].T
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log(joint / independent), 0.0)
    information = np.maximum(sum_blocks(terms, sizes), 0.0)
    np.fill_diagonal(information, 0.0)
    return information
