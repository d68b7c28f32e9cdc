"""What a forest says of the classes of rows: the average of what its trees say, and how much of it is doubt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.cells import WORD_BITS, first_cells, set_bits
from socratic.circuit.forest import Forest
from socratic.inference.posterior import Posterior, entropy
from socratic.memory import table_rows
from socratic.numerics import sqrt_or_zero

_TINY = 1e-300
_CACHED = 64
"""By so many times fewer numbers are gathered at once than fit in memory, so that they stay in a cache."""
_FEW_CELLS = 4096
"""Of all trees: a product of matrices with so many is quicker than to gather those that a row may be in."""
_COST_OF_GATHERING = 16
"""By so many times a cell that is gathered takes longer: of more cells there is a product if rows may be in many."""
_LEAST = 1e-30
"""The least probability."""
_LITTLE = 0.01
"""Of the entropy of the classes: a row that tells so much is half of one that tells all, where a bias is added."""


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


class Tempering(NamedTuple):
    """How the average of what trees say becomes class probabilities.

    What it says more of a class than it would of a row of which nothing is known is raised to a power, multiplied with
    the class prior, and mixed with it. So a row of which nothing is known gets the class prior, and so does every row
    if trees have learnt nothing.

    Attributes
    ----------
    prior : Tensor (C,)
        Of the classes among the training rows.
    of_nothing : Tensor (C,)
        What the trees say on average of a row of which nothing is known.
    sharpness, caution : float or Tensor ()
        The power, and the share of the prior in the answer.
    class_bias : Tensor (C,)
        Added to the logarithms, by as much as a row tells: so that classes are as frequent as they are said to be.
    """

    prior: Tensor
    of_nothing: Tensor
    sharpness: Any
    caution: Any
    class_bias: Tensor

    @classmethod
    def of(cls, forest: Forest) -> Tempering:
        """That of a forest."""
        prior, of_nothing, bias = map(torch.as_tensor, (forest.class_prior, forest.of_nothing, forest.class_bias))
        return cls(prior, of_nothing, forest.sharpness, forest.caution, bias)


class _Told(NamedTuple):
    """What trees tell of rows, and the class probabilities that it comes to."""

    told: Tensor  # (N, C), the log of the average of the trees' answers, less that of nothing
    heard: Tensor  # (N, 1), from 0 where nothing is told to 1
    slope: Tensor  # (N, 1), of this by the information
    sure: Tensor  # (N, C), without caution
    shares: Tensor  # (N, C)


class Mixtures(NamedTuple):
    """Rows in trees, and the cells of these that they may be in.

    Attributes
    ----------
    pair : ndarray (P,)
        The row and the tree, as row T + tree.
    log_density : ndarray (P,)
        log p_t(x).
    portions : csr_array (P, T K)
        The probability of each cell.
    """

    pair: np.ndarray
    log_density: np.ndarray
    portions: Any


def mixtures(forest: Forest, x: np.ndarray, words: np.ndarray, pairs: np.ndarray) -> Iterator[Mixtures]:
    """What some of the trees say of some of the rows (N, V), a part of them at a time.

    Parameters
    ----------
    forest : Forest
    x : ndarray (N, V)
    words : ndarray (N, W, T)
        The cells that rows may be in, by :class:`~socratic.circuit.cells.CellTables`.
    pairs : ndarray (P,)
        Which rows and trees, as row T + tree.
    """
    from scipy.sparse import csr_array

    n_trees, n_cells = forest.count.shape
    log_weight = np.log(np.maximum(forest.count, _TINY) / forest.count.sum(1, keepdims=True)).ravel()
    size = table_rows(words.shape[1] * WORD_BITS)
    for start in range(0, len(pairs), size):
        some = pairs[start : start + size]
        row, tree = np.divmod(some, n_trees)
        member, cell = set_bits(words[row, :, tree])
        cell += tree[member] * n_cells
        terms = log_weight[cell] + _log_density(forest, x, row[member], cell)
        first = np.flatnonzero(np.diff(member, prepend=-1))
        top = np.maximum.reduceat(terms, first)
        parts = np.exp(terms - top[member])
        total = np.add.reduceat(parts, first)
        parts /= total[member]
        portions = csr_array((parts, cell, np.append(first, len(cell))), (len(some), forest.count.size))
        yield Mixtures(some, np.log(total) + top, portions)


def tree_log_joint(forest: Forest, x: np.ndarray) -> np.ndarray:
    """log p_t(x, c) by each tree: (N, T, C); NaN is missing and marginalised exactly."""
    words = forest.cell_tables.consistent(forest.columns.ranked(x))
    shares = _flat(forest.class_share)
    found = np.empty((len(x) * forest.n_trees, forest.n_classes))
    for some in mixtures(forest, x, words, np.arange(len(found))):
        with np.errstate(divide="ignore"):
            found[some.pair] = np.log(some.portions @ shares) + some.log_density[:, None]
    return found.reshape(len(x), forest.n_trees, -1)


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


def tree_answers(forest: Forest, x: np.ndarray, doubt: CellDoubt) -> TreeAnswers:
    """What each tree says of the classes of rows (N, V)."""
    spread, expected, information = map(_flat, doubt)
    share = _flat(forest.class_share)
    words = forest.cell_tables.consistent(forest.columns.ranked(x))
    cell, several = first_cells(words)
    cell += np.arange(forest.n_trees) * forest.count.shape[1]
    # Most trees know the cell of a row, also of one with missing values: they need not look at the others.
    found = TreeAnswers(*(table.take(cell.ravel(), axis=0) for table in (share, spread, expected)))
    for some in mixtures(forest, x, words, np.flatnonzero(several)):
        squares = some.portions.power(2)
        mean = some.portions @ share
        found.shares[some.pair], found.variance[some.pair] = mean, squares @ spread
        # As if what a draw tells of each cell were small, and proportional to its variance.
        found.entropy[some.pair] = np.maximum(_entropy(mean) - squares @ information, 0.0)
    return TreeAnswers(*(part.reshape(len(x), forest.n_trees, *part.shape[1:]) for part in found))


def forest_shares(forest: Forest, answers: TreeAnswers, class_prior: np.ndarray) -> np.ndarray:
    """Class probabilities (N, C): the trees' average, tempered, under another class prior (C,)."""
    return tempered_shares(torch.as_tensor(answers.shares.mean(1)), forest, class_prior).numpy()


def forest_posterior(
    forest: Forest, answers: TreeAnswers | tuple[Tensor, Tensor, Tensor], class_prior: np.ndarray
) -> Posterior:
    """The class posterior over trees and over the class probabilities of their cells.

    Tempered to first order: the deviations are those of probabilities that vary a little. The answers may be tensors.
    """
    shares, of_cells, of_entropy = map(torch.as_tensor, answers)
    mean = shares.mean(1)
    tempering = Tempering.of(forest)
    told = _tell(mean, tempering)
    found = _under(told.shares, tempering, class_prior)
    slope = _slope(mean, told, found, tempering)
    variance = (slope @ (shares - mean.unsqueeze(1))).square().mean(1) + slope.variance(of_cells.mean(1))
    plain = entropy(mean)
    information = torch.minimum((plain - of_entropy.mean(1)).clamp_min(0.0), plain)
    std = sqrt_or_zero(torch.minimum(variance, found * (1.0 - found)))
    return Posterior(found, std, entropy(found), information, None, "forest")


class _Slope(NamedTuple):
    """How answers (N, C) change with the trees' average (N, C): a diagonal, and three directions for all classes.

    So nothing has to be held for each pair of classes.
    """

    own: Tensor  # (N, C), the diagonal
    shares: Tensor  # (N, C, 3), of the directions in the change of each class
    directions: Tensor  # (N, 3, C)

    def __matmul__(self, changes: Tensor) -> Tensor:
        """The changes (N, T, C) of answers by those (N, T, C) of averages."""
        return self.own.unsqueeze(1) * changes + changes @ self.directions.mT @ self.shares.mT

    def variance(self, of_average: Tensor) -> Tensor:
        """The variances (N, C) of answers by those (N, C) of averages whose classes vary independently."""
        weighed = self.directions * of_average.unsqueeze(1)
        together = ((self.shares @ (weighed @ self.directions.mT)) * self.shares).sum(2)
        both = 2.0 * (self.shares * weighed.mT).sum(2) + self.own * of_average
        return (together + self.own * both).clamp_min(0.0)


def _slope(mean: Tensor, told: _Told, found: Tensor, tempering: Tempering) -> _Slope:
    """Of the logarithms before they are normalised, then of those of the answers, then of the answers under a prior."""
    steep = tempering.sharpness / mean.clamp_min(_LEAST)
    bias = told.slope * tempering.class_bias
    kept = (1.0 - tempering.caution) * told.sure / told.shares.clamp_min(_LEAST)
    normalised = told.sure * steep + (told.sure * bias).sum(1, keepdim=True) * told.told
    moved = found * kept * steep + (found * kept * bias).sum(1, keepdim=True) * told.told
    moved = moved - (found * kept).sum(1, keepdim=True) * normalised
    shares = found.unsqueeze(2) * torch.stack([kept * bias, -kept, -torch.ones_like(kept)], 2)
    return _Slope(found * kept * steep, shares, torch.stack([told.told, normalised, moved], 1))


def tempered_shares(mean: Tensor, forest: Forest, class_prior: np.ndarray) -> Tensor:
    """The average (N, C) of what the trees say, tempered, under another class prior (C,)."""
    tempering = Tempering.of(forest)
    return _under(tempered(mean, tempering), tempering, class_prior)


def tempered(mean: Tensor, tempering: Tempering) -> Tensor:
    """Class probabilities (N, C) from the average (N, C) of what trees say."""
    return _tell(mean, tempering).shares


def _tell(mean: Tensor, tempering: Tempering) -> _Told:
    prior, of_nothing, sharpness, caution, bias = tempering
    some = of_nothing > 0.0  # a class without rows has no say
    told = torch.where(some, torch.log(mean.clamp_min(_LEAST) / of_nothing.clamp_min(_LEAST)), 0.0)
    information = (mean * told).sum(1, keepdim=True).clamp_min(0.0)
    little = _LITTLE * entropy(of_nothing)
    heard = information / (information + little).clamp_min(_LEAST)
    slope = little / (information + little).clamp_min(_LEAST) ** 2
    sure = torch.softmax(torch.log(prior) + sharpness * told + heard * bias, 1)
    return _Told(told, heard, slope, sure, (1.0 - caution) * sure + caution * prior)


def _under(shares: Tensor, tempering: Tempering, class_prior: np.ndarray) -> Tensor:
    """The same class probabilities (N, C) under another class prior (C,)."""
    prior = tempering.prior
    ratio = torch.where(prior > 0.0, torch.as_tensor(class_prior) / prior.clamp_min(_LEAST), 0.0)
    moved = shares * ratio
    return moved / moved.sum(1, keepdim=True).clamp_min(_LEAST)


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    return -(probabilities * np.log(np.maximum(probabilities, _TINY))).sum(-1)


def _flat(of_cells: np.ndarray) -> np.ndarray:
    """Values (T, K, ...) of the cells of all trees in one row (T K, ...)."""
    return of_cells.reshape(math.prod(of_cells.shape[:2]), *of_cells.shape[2:])  # there may be no numbers


def _log_density(forest: Forest, x: np.ndarray, row: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Log-density (P,) of some of the rows (N, V), in ascending order, within one of the cells (T K) of each."""
    first, last = int(row[0]), int(row[-1]) + 1
    statistics, natural = forest.columns.number_statistics(x[first:last]), _flat(forest.number_parameters)
    found = np.empty(len(row))
    if len(natural) <= max(_FEW_CELLS, _COST_OF_GATHERING * len(row) // (last - first)):
        size = table_rows(len(natural))
        for start in range(first, last, size):
            some = slice(*np.searchsorted(row, [start, start + size]))
            part = statistics[start - first : start - first + size]
            found[some] = (part @ natural.T)[row[some] - start, cell[some]]
    else:
        size = table_rows(_CACHED * natural.shape[1])
        for start in range(0, len(row), size):
            some = slice(start, start + size)
            found[some] = np.einsum("pd,pd->p", statistics.take(row[some] - first, 0), natural.take(cell[some], 0))
    log_table, offset = forest.log_table.ravel(), cell * len(forest.rank)
    for place in forest.columns.category_places(x):
        here = slice(None) if (place >= 0).all() else np.flatnonzero(place[row] >= 0)
        found[here] += log_table.take(offset[here] + place[row[here]])
    return found


def cell_parameters(forest: Forest, tree: int) -> tuple[np.ndarray, np.ndarray]:
    """Natural parameters (K, 3 U + Y) of the cells of a tree, for the statistics of rows, and log-weights (K,)."""
    log_table, count = forest.log_table[tree], forest.count[tree]
    table = np.where(np.isneginf(log_table), 0.0, log_table)  # no row is there
    natural = np.concatenate([forest.number_parameters[tree], table], 1)
    return natural, np.log(np.maximum(count, _TINY) / count.sum())
