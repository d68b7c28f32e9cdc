"""Random forests as circuits: trees grown to tell classes apart, their cells filled with leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.cells import levels
from socratic.circuit.forest import Columns, Forest, shares_of_nothing
from socratic.families import Family
from socratic.inference.forest import Tempering, tempered

N_TREES, MOST_CELLS = 100, 256
_TRIED = 20
"""Trees that show whether it is worth growing all of them with splits that look at all columns."""
_CLEAR = 5.0
"""Standard errors by which these lead where the others need not be grown."""
PRIOR_STRENGTH = 0.1
"""Rows of the class frequencies that every cell is given."""
_CATEGORY_ROWS = 1.0
"""Rows of a column's frequencies that every cell is given."""
_MIN_VARIANCE = 0.01
"""Of a leaf, in units of its standardised column."""
_SHARPNESS, _CAUTION, _BIAS = (0.1, 4.0), (0.0, 0.95), (-3.0, 3.0)
"""From the least to the most: some of what the trees say is left, so that rows keep their order."""
_COST = 3.0
"""Nats of all rows together that must be gained by saying anything but the class prior; powers beyond 1 cost extra."""
_LEAST_LOSS_OF = 1e-9
"""A row that is less likely tells no more."""
_MOST_JUDGED, _MOST_BIASED = 400_000, 100
"""Class probabilities by which a forest is tempered, at most; and classes that have a bias each, at most."""


class _Tree(NamedTuple):
    """A tree, sums over the rows in its cells, and where the rows are that it was not grown on."""

    nodes: dict[str, np.ndarray]  # (n,)
    sums: np.ndarray  # (k, C + 3 U + Y)
    held_out: np.ndarray  # places (H,)
    cell_of_held_out: np.ndarray  # (H,)


class _Judged(NamedTuple):
    """How rows are most likely by trees that were grown without them, and how unlikely each is then."""

    tempering: Tempering
    losses: np.ndarray  # (N,), NaN of rows that all trees were grown on


def grow_forest(
    x: np.ndarray,
    y: np.ndarray,
    families: Sequence[Family],
    n_classes: int,
    weight: np.ndarray | None = None,
    *,
    n_trees: int = N_TREES,
    most_cells: int = MOST_CELLS,
    seed: int = 0,
    n_jobs: int = 1,
) -> Forest:
    """Grow a forest and fill its cells.

    Trees are scikit-learn's, grown on rows drawn with replacement; for that alone, a missing value is taken from a row
    drawn at random. A split looks at some columns, as in a random forest, or at all of them, if rows are then more
    likely by the trees that were grown without them, by more than a standard error. By these rows class probabilities
    are tempered, too.

    Parameters
    ----------
    x : ndarray (N, V)
        Standardised rows; NaN is missing.
    y : ndarray (N,) of int
    families : sequence of Family
        Gaussian, Bernoulli or categorical.
    n_classes : int
    weight : ndarray (N,), optional
        Of the rows, 1 by default.
    n_trees, most_cells : int
        Trees, and cells of each at most.
    seed : int
    n_jobs : int
        Trees that are grown at the same time.
    """
    from sklearn.utils.parallel import Parallel, delayed

    weight = np.ones(len(x)) if weight is None else weight
    columns = _columns(x, y, families, n_classes, weight)
    statistics = np.concatenate([np.eye(n_classes)[y], columns.statistics(x)], 1)
    rng = np.random.default_rng(seed)
    filled = _filled(columns.ranked(x), rng).astype(np.float32)  # as scikit-learn sees rows

    def grow(number: int, max_features: str | None) -> list[_Tree]:
        seeds = rng.integers(2**31 - 1, size=number).tolist()
        given = (filled, y, weight, statistics, most_cells, max_features)
        return list(Parallel(n_jobs, prefer="threads")(delayed(_grow_tree)(*given, seed) for seed in seeds))

    def judge(trees: Sequence[_Tree]) -> _Judged:
        by_class = _stacked([tree.sums[:, :n_classes] for tree in trees])
        biased = len(trees) == n_trees and n_classes <= _MOST_BIASED
        return _judge(trees, by_class.sum(2), _class_shares(by_class), y, weight, biased=biased)

    trees, wider = (grow(min(_TRIED, n_trees), features) for features in ("sqrt", None))
    lead = _lead(judge(wider), judge(trees), weight)
    if lead <= _CLEAR:
        trees += grow(n_trees - len(trees), "sqrt")
    if lead > 1.0:
        wider += grow(n_trees - len(wider), None)
    if lead > _CLEAR or (lead > 1.0 and _lead(judge(wider), judge(trees), weight) > 1.0):
        trees = wider
    judged = judge(trees)
    nodes = {name: _stacked([tree.nodes[name] for tree in trees]) for name in trees[0].nodes}
    nodes["cell"][np.arange(nodes["cell"].shape[1]) >= np.array([[len(tree.nodes["cell"])] for tree in trees])] = -1
    cells = _fill_cells(_stacked([tree.sums for tree in trees]), columns, n_classes)
    boxes = _boxes(nodes, cells["count"].shape[1], x.shape[1])
    tempering = judged.tempering
    return Forest(
        **nodes,
        **_within_boxes(cells, boxes, columns),
        **columns._asdict(),
        class_prior=tempering.prior.numpy(),
        class_bias=tempering.class_bias.numpy(),
        sharpness=tempering.sharpness,
        caution=tempering.caution,
    )


def _columns(x: np.ndarray, y: np.ndarray, families: Sequence[Family], n_classes: int, weight: np.ndarray) -> Columns:
    """Categories are ordered by the classes they go with, so that one threshold divides them well."""
    unordered = np.array([family.unordered for family in families], dtype=bool)
    prior = np.bincount(y, weight, n_classes) / weight.sum()
    first, ranks = [0], []
    for column in np.flatnonzero(unordered).tolist():
        n_values = families[column].n_values or 1
        here = ~np.isnan(x[:, column])
        places = x[here, column].astype(np.int64) * n_classes + y[here]
        counts = np.bincount(places, weight[here], n_values * n_classes).reshape(n_values, n_classes)
        shares = (counts + prior) / (counts.sum(1, keepdims=True) + 1.0)
        # Along the direction in which the class frequencies of the categories differ most.
        centred = (shares - prior) * np.sqrt(counts.sum(1, keepdims=True) + 1.0)
        direction = np.linalg.svd(centred, full_matrices=False)[2][0]
        order = np.argsort((shares - prior) @ direction, kind="stable")
        rank = np.empty(n_values, dtype=np.int64)
        rank[order] = np.arange(n_values)
        ranks.append(rank)
        first.append(first[-1] + n_values)
    joined = np.concatenate(ranks) if ranks else np.empty(0, dtype=np.int64)
    return Columns(np.flatnonzero(~unordered), np.flatnonzero(unordered), np.array(first), joined)


def _grow_tree(
    filled: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    statistics: np.ndarray,
    most_cells: int,
    max_features: str | None,
    seed: int,
) -> _Tree:
    """A tree grown on rows (N, V) drawn with replacement, with the sums of statistics (N, Q) over its cells."""
    from sklearn.tree import DecisionTreeClassifier

    drawn = np.random.default_rng(seed).integers(len(y), size=len(y))
    times = np.bincount(drawn, minlength=len(y)) * weight
    grower = DecisionTreeClassifier(max_leaf_nodes=most_cells, max_features=max_features, random_state=seed)
    return _tree(grower.fit(filled, y, sample_weight=times, check_input=False).tree_, times, filled, statistics)


def _tree(grown: Any, times: np.ndarray, filled: np.ndarray, statistics: np.ndarray) -> _Tree:
    """A tree of scikit-learn with the sums over its rows, which it was grown on so many times (N,)."""
    from scipy.sparse import csr_array

    is_cell = grown.children_left < 0
    each = np.arange(grown.node_count)
    cell = np.where(is_cell, np.cumsum(is_cell) - 1, -1)
    nodes = {
        "feature": np.where(is_cell, 0, grown.feature),
        "threshold": np.where(is_cell, np.inf, grown.threshold),
        "left": np.where(is_cell, each, grown.children_left),
        "right": np.where(is_cell, each, grown.children_right),
        "cell": cell,
    }
    cells = cell[grown.apply(filled)]
    bag, held_out = np.flatnonzero(times), np.flatnonzero(times == 0)
    members = csr_array((times[bag], (cells[bag], bag)), shape=(int(is_cell.sum()), len(filled)))
    return _Tree(nodes, members @ statistics, held_out, cells[held_out])


def _filled(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows (N, V) with each missing value taken from a row drawn at random; 0 in columns without any."""
    some = np.flatnonzero(np.isnan(x).any(0))
    if not len(some):
        return x
    filled = x.copy()
    for column in some:
        missing = np.isnan(x[:, column])
        known = x[~missing, column]
        filled[missing, column] = rng.choice(known, missing.sum()) if len(known) else 0.0
    return filled


def _fill_cells(sums: np.ndarray, columns: Columns, n_classes: int) -> dict[str, np.ndarray]:
    """Counts, class frequencies and leaves of cells, from sums (T, K, C + 3 U + Y) over their rows."""
    width = len(columns.numbers)
    by_class, there, total, squares, hot = np.split(sums, np.cumsum([n_classes, width, width, width]), axis=2)
    some = np.maximum(there, 1.0)
    mean = total / some
    variance = np.where(there > 0, squares / some - mean**2, 1.0)
    tables = []
    for start, stop in zip(columns.first[:-1], columns.first[1:], strict=True):
        counts = hot[:, :, start:stop]
        whole = counts.sum(1, keepdims=True) + 1.0 / (stop - start)
        tables.append(counts + _CATEGORY_ROWS * whole / whole.sum(2, keepdims=True))
    return {
        "count": by_class.sum(2),
        "class_share": _class_shares(by_class),
        "mean": mean,
        "variance": np.maximum(variance, _MIN_VARIANCE),
        "log_table": np.log(np.concatenate([*tables, hot[:, :, :0]], 2)),
    }


def _class_shares(by_class: np.ndarray) -> np.ndarray:
    """Class frequencies of cells (T, K, C), of which each is given some rows of those of its tree."""
    count = by_class.sum(2, keepdims=True)
    prior = by_class.sum(1, keepdims=True) / count.sum(1, keepdims=True)
    shares: np.ndarray = (by_class + PRIOR_STRENGTH * prior) / (count + PRIOR_STRENGTH)
    return shares


def _boxes(nodes: dict[str, np.ndarray], n_cells: int, n_columns: int) -> np.ndarray:
    """Lower (open) and upper (closed) ends of the cells' boxes: (2, T, K, V)."""
    n_trees, n_nodes = nodes["cell"].shape
    ends = np.empty((2, n_trees, n_nodes, n_columns))
    ends[0], ends[1] = -np.inf, np.inf
    for tree, inner in levels(nodes["left"], nodes["right"], nodes["cell"]):
        column, threshold = nodes["feature"][tree, inner], nodes["threshold"][tree, inner]
        left, right = nodes["left"][tree, inner], nodes["right"][tree, inner]
        for child in (left, right):
            ends[:, tree, child] = ends[:, tree, inner]
        ends[1, tree, left, column] = np.minimum(ends[1, tree, left, column], threshold)
        ends[0, tree, right, column] = np.maximum(ends[0, tree, right, column], threshold)
    boxes = np.empty((2, n_trees, n_cells, n_columns))
    boxes[0], boxes[1] = -np.inf, np.inf
    tree, node = np.nonzero(nodes["cell"] >= 0)
    boxes[:, tree, nodes["cell"][tree, node]] = ends[:, tree, node]
    return boxes


def _within_boxes(cells: dict[str, np.ndarray], boxes: np.ndarray, columns: Columns) -> dict[str, np.ndarray]:
    """The same cells with leaves that integrate to 1 over their boxes."""
    from scipy.special import log_ndtr

    low, high = ((end[:, :, columns.numbers] - cells["mean"]) / np.sqrt(cells["variance"]) for end in boxes)
    # Of the two tails the smaller ones: the difference of numbers near 1 would lose all digits.
    flipped = low > 0
    low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    log_mass = upper + np.log1p(-np.exp(np.minimum(lower - upper, -1e-12)))
    log_table = cells["log_table"].copy()
    for place, column in enumerate(columns.categories):
        part = slice(columns.first[place], columns.first[place + 1])
        rank = columns.rank[part]
        inside = (rank > boxes[0][:, :, [column]]) & (rank <= boxes[1][:, :, [column]])
        table = np.where(inside, log_table[:, :, part], -np.inf)
        top = table.max(2, keepdims=True)
        log_table[:, :, part] = table - top - np.log(np.exp(table - top).sum(2, keepdims=True))
    return {**cells, "log_mass": log_mass, "log_table": log_table}


def _judge(
    trees: Sequence[_Tree],
    count: np.ndarray,
    class_share: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    *,
    biased: bool,
) -> _Judged:
    """How likely rows are by the trees that were grown without them; of no rows nothing is known."""
    n_classes = class_share.shape[2]
    total, times = np.zeros((len(y), n_classes)), np.zeros(len(y))
    for tree, shares in zip(trees, class_share, strict=True):
        total[tree.held_out] += shares[tree.cell_of_held_out]
        times[tree.held_out] += 1.0
    judged = np.flatnonzero(times)
    mean, labels = torch.as_tensor(total[judged] / times[judged, None]), torch.as_tensor(y[judged])
    prior = torch.as_tensor(np.bincount(y, weight, n_classes) / weight.sum())
    of_nothing = torch.as_tensor(shares_of_nothing(count, class_share))
    step = len(judged) * n_classes // _MOST_JUDGED + 1
    rows = (mean[::step], labels[::step], torch.as_tensor(weight[judged][::step]))
    found = _temper(prior, of_nothing, *rows, biased=biased)
    losses = np.full(len(y), np.nan)
    losses[judged] = _losses(mean, labels, found).numpy()
    return _Judged(found, losses)


def _temper(
    prior: Tensor, of_nothing: Tensor, mean: Tensor, labels: Tensor, weight: Tensor, *, biased: bool
) -> Tempering:
    """The tempering under which rows are most likely by trees that were grown without them.

    Parameters
    ----------
    prior, of_nothing : Tensor (C,)
    mean : Tensor (M, C)
        What these trees say on average.
    labels, weight : Tensor (M,)
    biased : bool
        Whether there is a bias for each class.
    """
    from scipy.optimize import minimize

    def tempering(values: Any) -> Tempering:
        return Tempering(prior, of_nothing, values[0], values[1], values[2:])

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        given = torch.tensor(values, requires_grad=True)
        chosen = tempering(given)
        cost = (
            _COST * (1.0 - chosen.caution)
            + torch.relu(chosen.sharpness - 1.0) ** 2
            + 0.5 * chosen.class_bias.square().sum()
        )
        total = weight @ _losses(mean, labels, chosen) + cost
        total.backward()
        assert given.grad is not None
        return float(total.detach()), given.grad.numpy()

    start = np.concatenate([[1.0, 0.01], np.zeros(len(prior))])
    bounds = [_SHARPNESS, _CAUTION, *[_BIAS if biased else (0.0, 0.0)] * len(prior)]
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x if len(labels) else start
    return tempering(torch.as_tensor(best))._replace(sharpness=float(best[0]), caution=float(best[1]))


def _losses(mean: Tensor, labels: Tensor, tempering: Tempering) -> Tensor:
    """How unlikely the classes of rows are: (M,)."""
    shares = tempered(mean, tempering).gather(1, labels.unsqueeze(1)).squeeze(1)
    return -torch.log(shares.clamp_min(_LEAST_LOSS_OF))


def _lead(one: _Judged, other: _Judged, weight: np.ndarray) -> float:
    """By how many standard errors rows are more likely by one than by another."""
    gain = other.losses - one.losses
    known = ~np.isnan(gain)
    gain, share = gain[known], weight[known] / max(float(weight[known].sum()), 1e-300)
    mean = float(share @ gain)
    return mean / max(float(np.sqrt(share**2 @ (gain - mean) ** 2)), 1e-300)


def _stacked(parts: Sequence[np.ndarray]) -> Any:
    """Arrays (n_t, ...) of all trees, those of fewer nodes or cells padded: (T, n, ...)."""
    size = max(len(part) for part in parts)
    stacked = np.zeros((len(parts), size, *parts[0].shape[1:]), dtype=parts[0].dtype)
    for place, part in enumerate(parts):
        stacked[place, : len(part)] = part
    return stacked
