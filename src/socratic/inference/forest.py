"""What a forest says of the classes of rows: the average of what its trees say, and how much of it is doubt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.forest import Forest, levels
from socratic.inference.posterior import Posterior, entropy
from socratic.memory import table_rows
from socratic.numerics import sqrt_or_zero

_LOG_2PI = float(np.log(2.0 * np.pi))
_TINY = 1e-300
_LEAST = 1e-30
"""The least probability. Float32 holds it, in which ONNX files keep such numbers."""


class TreeAnswers(NamedTuple):
    """What each tree says of rows.

    Attributes
    ----------
    shares : ndarray (N, T, C)
        p_t(c | x).
    variance : ndarray (N, T, C)
        Of these over the class probabilities of the cells, which finitely many rows taught.
    entropy : ndarray (N, T)
        Expected entropy under a draw of them.
    """

    shares: np.ndarray
    variance: np.ndarray
    entropy: np.ndarray


def cells_of(forest: Forest, x: np.ndarray) -> np.ndarray:
    """The cell (N, T) of each row (N, V) in each tree; nothing is missing."""
    values = forest.columns.ranked(x)
    found = np.empty((len(x), forest.n_trees), dtype=np.int64)
    each = np.arange(len(x))
    for tree in range(forest.n_trees):
        feature, threshold = forest.feature[tree], forest.threshold[tree]
        left, right, cell = forest.left[tree], forest.right[tree], forest.cell[tree]
        node, rows = np.zeros(len(x), dtype=np.int64), each
        while len(rows):
            at = node[rows]
            node[rows] = np.where(values[rows, feature[at]] <= threshold[at], left[at], right[at])
            rows = rows[cell[node[rows]] < 0]
        found[:, tree] = cell[node]
    return found


def consistent_cells(forest: Forest, x: np.ndarray) -> np.ndarray:
    """Which cells of each tree each row (N, V) may be in: (T, K, N) booleans; NaN is missing."""
    columns = np.ascontiguousarray(forest.columns.ranked(x).T)
    reached = np.zeros((*forest.cell.shape, len(x)), dtype=bool)
    reached[:, 0] = True
    for tree, node in levels(forest.left, forest.right, forest.cell):
        here, value = reached[tree, node], columns[forest.feature[tree, node]]
        threshold = forest.threshold[tree, node][:, None]
        # Comparisons with what is missing are false.
        reached[tree, forest.left[tree, node]] = here & ~(value > threshold)
        reached[tree, forest.right[tree, node]] = here & ~(value <= threshold)
    found = np.zeros((*forest.count.shape, len(x)), dtype=bool)
    tree, node = np.nonzero(forest.cell >= 0)
    found[tree, forest.cell[tree, node]] = reached[tree, node]
    return found


def tree_log_joint(forest: Forest, x: np.ndarray) -> np.ndarray:
    """log p_t(x, c) by each tree: (N, T, C); NaN is missing and marginalised exactly."""
    found = np.empty((len(x), forest.n_trees, forest.n_classes))
    for rows, tree, terms in _log_terms(forest, x):
        top = terms.max(1, keepdims=True)  # every row is in some cell
        with np.errstate(divide="ignore"):
            found[rows, tree] = np.log(np.exp(terms - top) @ forest.class_share[tree]) + top
    return found


class CellDoubt(NamedTuple):
    """What is in doubt of the class probabilities of cells, whose rows are few.

    Attributes
    ----------
    spread : ndarray (T, K, C)
        Their variances.
    expected : ndarray (T, K)
        The expected entropy of a draw of them.
    information : ndarray (T, K)
        By how much the entropy of their means is more.
    """

    spread: np.ndarray
    expected: np.ndarray
    information: np.ndarray


def cell_doubt(forest: Forest, *, worth: float, prior_strength: float) -> CellDoubt:
    """Dirichlet distributions with the means ``class_share`` and the strengths ``prior_strength + worth n``."""
    from scipy.special import digamma

    share = forest.class_share
    strength = prior_strength + worth * forest.count
    spread = share * (1.0 - share) / (strength + 1.0)[:, :, None]
    expected = digamma(strength + 1.0) - (share * digamma(strength[:, :, None] * share + 1.0)).sum(2)
    return CellDoubt(spread, expected, np.maximum(_entropy(share) - expected, 0.0))


def tree_answers(forest: Forest, x: np.ndarray, *, worth: float, prior_strength: float) -> TreeAnswers:
    """What each tree says of the classes of rows (N, V), the strength of a cell being ``prior_strength + worth n``."""
    share = forest.class_share
    spread, expected, information = cell_doubt(forest, worth=worth, prior_strength=prior_strength)
    shape = (len(x), forest.n_trees)
    by_class = (*shape, forest.n_classes)
    found = TreeAnswers(np.empty(by_class), np.empty(by_class), np.empty(shape))
    missing = np.isnan(x[:, forest.split_columns]).any(1)  # others make no difference to the cell
    whole, some = np.flatnonzero(~missing), np.flatnonzero(missing)
    if len(whole):
        cells = cells_of(forest, x[whole])
        for result, values in zip(found, (share, spread, expected), strict=True):
            result[whole] = values[np.arange(forest.n_trees), cells]
    for rows, tree, terms in _log_terms(forest, x[some]):
        parts = np.exp(terms - terms.max(1, keepdims=True))
        parts /= parts.sum(1, keepdims=True)
        mean, variance = parts @ share[tree], parts**2 @ spread[tree]
        found.shares[some[rows], tree], found.variance[some[rows], tree] = mean, variance
        # As if what a draw tells of each cell were small, and proportional to its variance.
        within = _entropy(mean) - (parts**2 @ information[tree])
        found.entropy[some[rows], tree] = np.maximum(within, 0.0)
    return found


def forest_shares(forest: Forest, answers: TreeAnswers, class_prior: np.ndarray) -> np.ndarray:
    """Class probabilities (N, C): the trees' average, sharpened, under another class prior (C,)."""
    return sharpened(torch.as_tensor(answers.shares.mean(1)), forest, class_prior).numpy()


def forest_posterior(
    forest: Forest, answers: TreeAnswers | tuple[Tensor, Tensor, Tensor], class_prior: np.ndarray
) -> Posterior:
    """The class posterior over trees and over the class probabilities of their cells.

    Sharpened to first order: the deviations are those of probabilities that vary a little. The answers may be tensors.
    """
    shares, of_cells, of_entropy = map(torch.as_tensor, answers)
    mean = shares.mean(1)
    sharp = sharpened(mean, forest, class_prior)
    centred = shares - mean.unsqueeze(1)
    covariance = centred.mT @ centred / forest.n_trees + torch.diag_embed(of_cells.mean(1))
    # d log p'_i = sharpness (d log p_i - sum_j p'_j d log p_j)
    relative = 1.0 / mean.clamp_min(_LEAST)
    change = torch.eye(mean.shape[1], dtype=mean.dtype) - sharp.unsqueeze(1)
    slope = forest.sharpness * sharp.unsqueeze(2) * change * relative.unsqueeze(1)
    variance = ((slope @ covariance) * slope).sum(2)
    plain = entropy(mean)
    information = torch.minimum((plain - of_entropy.mean(1)).clamp_min(0.0), plain)
    std = sqrt_or_zero(torch.minimum(variance, sharp * (1.0 - sharp)))
    return Posterior(sharp, std, entropy(sharp), information, None, "forest")


def sharpened(mean: Tensor, forest: Forest, class_prior: np.ndarray) -> Tensor:
    """The averaged class probabilities (N, C), raised to the forest's power, under another class prior (C,)."""
    ratio = torch.as_tensor(class_prior / np.maximum(forest.class_prior, _TINY))
    powers = mean.clamp_min(_LEAST) ** forest.sharpness * ratio
    return powers / powers.sum(1, keepdim=True)


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    return -(probabilities * np.log(np.maximum(probabilities, _TINY))).sum(-1)


def _log_terms(forest: Forest, x: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
    """Some rows and a tree at a time: logs (n, K) of the terms of its sum, a cell's weight and density.

    They are minus infinity in cells that a row cannot be in.
    """
    size = table_rows(forest.cell.size // 8)  # booleans are an eighth of numbers
    for start in range(0, len(x), size):
        rows = slice(start, min(start + size, len(x)))
        statistics = forest.columns.statistics(x[rows])
        consistent = consistent_cells(forest, x[rows])
        for tree in range(forest.n_trees):
            natural, log_weight = cell_parameters(forest, tree)
            terms = statistics @ natural.T + log_weight
            yield rows, tree, np.where(consistent[tree].T, terms, -np.inf)


def cell_parameters(forest: Forest, tree: int) -> tuple[np.ndarray, np.ndarray]:
    """Natural parameters (K, 3 U + Y) of the cells of a tree, for the statistics of rows, and log-weights (K,)."""
    mean, variance, count = forest.mean[tree], forest.variance[tree], forest.count[tree]
    constant = -0.5 * (_LOG_2PI + np.log(variance) + mean**2 / variance) - forest.log_mass[tree]
    table = np.where(np.isneginf(forest.log_table[tree]), 0.0, forest.log_table[tree])  # no row is there
    natural = np.concatenate([constant, mean / variance, -0.5 / variance, table], 1)
    return natural, np.log(np.maximum(count, _TINY) / count.sum())
