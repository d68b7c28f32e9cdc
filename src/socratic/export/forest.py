"""The trees of a forest in torch: :mod:`socratic.inference.forest` has the same in numpy.

Rows go down all trees at once, level by level. One of which nothing is missing comes to one cell of each tree. Where a
value is missing a row goes both ways, to all cells that it is consistent with, which takes many times longer.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.forest import FARTHEST, Forest
from socratic.estimators.committee import ForestCommittee
from socratic.export.circuits import Likelihood
from socratic.inference.forest import cell_doubt, cell_parameters, forest_posterior, tempered_shares
from socratic.inference.posterior import Posterior, entropy

_TREES_AT_A_TIME = 10
"""Of all trees together, the cells of a thousand rows would fill a gigabyte."""


class ForestAnswers:
    """What a forest says of the classes of rows, and its circuit of the rows themselves."""

    answers_by_mean = ForestCommittee.answers_by_mean
    refused: str | None = None

    def __init__(self, committee: ForestCommittee, class_prior: np.ndarray) -> None:
        self.likelihood = Likelihood(committee.circuit)
        self.forest, self.class_prior = committee.forest, class_prior
        self.cells = _Cells(committee.forest)
        self.ways = _Ways(committee.forest)
        (posterior,) = committee.weight_posteriors
        doubt = cell_doubt(self.forest, worth=posterior.worth, prior_strength=posterior.prior_strength)
        share, spread, information = map(torch.as_tensor, (self.forest.class_share, doubt.spread, doubt.information))
        self.tables = [part.flatten(0, 1) for part in (share, spread, torch.as_tensor(doubt.expected))]
        self.n_classes = share.shape[-1]
        of_cells = torch.cat([spread, information.unsqueeze(-1)], -1)
        self.share, self.doubt = ([part[trees].clone() for trees in self.cells.trees] for part in (share, of_cells))

    def log_joints(self, rows: Tensor, log_prior: Tensor) -> Tensor:
        """log p(x, class) by the circuit: (1, N, C)."""
        return self.likelihood(rows).unsqueeze(0) + log_prior

    def shares(self, rows: Tensor, _log_prior: Tensor, _log_joints: Tensor) -> Tensor:
        """Class probabilities (N, C), by the trees."""
        return tempered_shares(self._ask(rows)[0].mean(1), self.forest, self.class_prior)

    def posterior(self, rows: Tensor, _log_prior: Tensor, _log_joints: Tensor) -> Posterior:
        """The class posterior over the trees, and over what is in doubt of their cells."""
        return forest_posterior(self.forest, self._ask(rows), self.class_prior)

    def _ask(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What each tree says, as :class:`~socratic.inference.forest.TreeAnswers` has it."""
        x = rows.double()
        values = self.cells.ranked(x)
        cell = self.ways.cells(values)
        found = [table.index_select(0, cell).unflatten(0, (-1, self.cells.n_trees)) for table in self.tables]
        holed = x.isnan().any(1).nonzero().squeeze(1)
        others = self._ask_holed(x.index_select(0, holed), values.index_select(0, holed))
        return tuple(part.index_put((holed,), other) for part, other in zip(found, others, strict=True))

    def _ask_holed(self, x: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same of rows with missing values, which may be in several cells of a tree."""
        found = []
        for portions, share, doubt in zip(self.cells.portions(x, values), self.share, self.doubt, strict=True):
            # One row more: ONNX Runtime cannot multiply stacks of matrices that have no rows.
            padded = torch.nn.functional.pad(portions.transpose(0, 1), (0, 0, 0, 1))  # (T, N + 1, K)
            found.append(torch.cat([padded @ share, padded**2 @ doubt], -1))
        of_trees = torch.cat(found).transpose(0, 1)[:-1]
        mean, spread, information = of_trees.split([self.n_classes, self.n_classes, 1], -1)
        return mean, spread, (entropy(mean) - information.squeeze(-1)).clamp_min(0.0)


class _Ways:
    """How rows come down the trees of a forest, if nothing of them is missing."""

    def __init__(self, forest: Forest) -> None:
        n_trees, n_cells = forest.count.shape
        node, trees = np.zeros(n_trees, dtype=np.int64), np.arange(n_trees)
        feature, threshold, below, cell = [], [], [], []
        n_met = 0
        # Nodes are numbered as they are met, level by level, so that the two below a node follow each other.
        while len(trees):
            n_met += len(trees)
            of_node = forest.cell[trees, node]
            inner = of_node < 0
            first = n_met - len(trees) + np.arange(len(trees))  # a cell leads to itself
            first[inner] = n_met + 2 * np.arange(inner.sum())
            feature.append(np.where(inner, forest.feature[trees, node], 0))
            threshold.append(np.where(inner, forest.threshold[trees, node], np.inf))
            below.append(first)
            cell.append(np.where(inner, 0, of_node + trees * n_cells))
            asked = trees[inner], node[inner]
            node = np.stack([forest.left[asked], forest.right[asked]], 1).ravel()
            trees = np.repeat(asked[0], 2)
        self.n_trees, self.n_levels = n_trees, len(feature)
        parts = map(np.concatenate, (feature, threshold, below, cell))
        self.feature, self.threshold, self.below, self.cell = map(torch.as_tensor, parts)

    def cells(self, values: Tensor) -> Tensor:
        """The cells (N T,) of rows (N, V), numbered through all trees."""
        node = torch.arange(self.n_trees).expand(values.shape[0], -1).flatten()
        for _ in range(self.n_levels - 1):
            # Not by an index, nor by ``index_select``: of single numbers, they take ONNX Runtime ten times as long.
            feature, threshold, below = (part.gather(0, node) for part in (self.feature, self.threshold, self.below))
            value = values.gather(1, feature.unflatten(0, (-1, self.n_trees))).flatten()
            node = below + (value > threshold).long()
        return self.cell.gather(0, node)


class _Cells:
    """The cells of a forest, and how rows (N, V) come to them."""

    def __init__(self, forest: Forest) -> None:
        self.n_trees, self.n_cells = forest.count.shape
        columns = forest.columns
        self.numbers, self.categories = (torch.as_tensor(part) for part in (columns.numbers, columns.categories))
        self.first, self.rank = torch.as_tensor(columns.first[:-1]), torch.as_tensor(columns.rank).double()
        self.in_order = torch.as_tensor(np.argsort(np.concatenate([columns.numbers, columns.categories])))
        of_value = np.repeat(np.arange(len(columns.categories)), np.diff(columns.first))
        self.column_of_value = torch.as_tensor(columns.categories[of_value])
        self.value = torch.as_tensor(np.arange(len(of_value)) - columns.first[of_value]).double()
        natural, log_weight = zip(*(cell_parameters(forest, tree) for tree in range(self.n_trees)), strict=True)
        starts = range(0, self.n_trees, _TREES_AT_A_TIME)
        self.trees = [slice(start, min(start + _TREES_AT_A_TIME, self.n_trees)) for start in starts]
        self.parameters = [
            (
                torch.as_tensor(np.concatenate(natural[trees]).T.copy()),  # (3 U + Y, T K)
                torch.as_tensor(np.concatenate(log_weight[trees])),
            )
            for trees in self.trees
        ]
        self.levels: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        places = self._wire(forest)
        self.places = [torch.as_tensor(places[trees].ravel()) for trees in self.trees]

    def _wire(self, forest: Forest) -> np.ndarray:
        """Set ``levels``: of the nodes of each, which are cells, which are not, and what those ask.

        Returns the place (T, K) of each cell among those met, level by level; the place after the last if there is
        none.
        """
        tree, node = np.arange(self.n_trees), np.zeros(self.n_trees, dtype=np.int64)
        met = []
        while len(tree):
            cell = forest.cell[tree, node]
            end, inner = np.flatnonzero(cell >= 0), np.flatnonzero(cell < 0)
            met.append(tree[end] * self.n_cells + cell[end])
            asked = tree[inner], node[inner]
            parts = (end, inner, forest.feature[asked], forest.threshold[asked])
            self.levels.append(tuple(map(torch.as_tensor, parts)))  # type: ignore[arg-type]
            tree = np.concatenate([asked[0], asked[0]])
            node = np.concatenate([forest.left[asked], forest.right[asked]])
        cells = np.concatenate(met)
        place = np.full(self.n_trees * self.n_cells, len(cells))
        place[cells] = np.arange(len(cells))
        return place.reshape(self.n_trees, self.n_cells)

    def portions(self, x: Tensor, values: Tensor) -> list[Tensor]:
        """Some trees at a time: the probabilities (N, T, K) that rows, to trees ``values``, are in their cells."""
        statistics, consistent = self._statistics(x), self._consistent(values)
        found = []
        for (natural, log_weight), places in zip(self.parameters, self.places, strict=True):
            terms = torch.addmm(log_weight, statistics, natural)
            terms = torch.where(consistent.index_select(1, places), terms, -torch.inf)
            found.append(torch.softmax(terms.unflatten(1, (len(places) // self.n_cells, self.n_cells)), -1))
        return found

    def _consistent(self, values: Tensor) -> Tensor:
        """Which cells rows may be in, in the order in which they are met, and at the end none: (N, cells + 1)."""
        reached = torch.ones(values.shape[0], self.n_trees, dtype=torch.bool, device=values.device)
        nowhere = ~reached[:, :1]
        ends = []
        for end, inner, feature, threshold in self.levels:
            ends.append(reached.index_select(1, end))
            value, here = values.index_select(1, feature), reached.index_select(1, inner)
            # Comparisons with what is missing are false.
            reached = torch.cat([here & ~(value > threshold), here & ~(value <= threshold)], 1)
        return torch.cat([*ends, nowhere], 1)

    def ranked(self, x: Tensor) -> Tensor:
        """Rows as trees see them: categories by their rank."""
        numbers, codes = x.index_select(1, self.numbers), x.index_select(1, self.categories)
        if not len(self.rank):
            return numbers
        missing = codes.isnan()
        places = torch.where(missing, 0.0, codes).long() + self.first
        ranks = torch.where(missing, torch.nan, self.rank[places])
        return torch.cat([numbers, ranks], 1).index_select(1, self.in_order)

    def _statistics(self, x: Tensor) -> Tensor:
        """Rows as cells see them: (N, 3 U + Y)."""
        numbers = x.index_select(1, self.numbers)
        there = ~numbers.isnan()
        numbers = torch.where(there, numbers, 0.0).clamp(-FARTHEST, FARTHEST)
        hot = x.index_select(1, self.column_of_value) == self.value
        return torch.cat([there.double(), numbers, numbers * numbers, hot.double()], 1)
