"""Random forests as circuits: trees grown to tell classes apart, their cells filled with leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from socratic.circuit.forest import Forest
from socratic.families import Family

N_TREES, MOST_CELLS = 100, 256
_CLASS_ROWS = 0.1
"""Rows of the class frequencies that every cell is given."""
_CATEGORY_ROWS = 1.0
"""Rows of a column's frequencies that every cell is given."""
_MIN_VARIANCE = 0.01
"""Of a leaf, in units of its standardised column."""
_SHARPNESS = np.exp(np.linspace(np.log(0.4), np.log(4.0), 47))


class _Columns(NamedTuple):
    """The columns by kind, and the order of categories."""

    numbers: np.ndarray  # (U,)
    categories: np.ndarray  # (W,)
    first: np.ndarray  # (W + 1,)
    rank: np.ndarray  # (Y,)


class _Tree(NamedTuple):
    """A tree with its cells, unpadded, and what it says of the rows that it was not grown on."""

    nodes: dict[str, np.ndarray]
    cells: dict[str, np.ndarray]
    held_out: np.ndarray  # places (H,)
    cell_of_held_out: np.ndarray  # (H,)


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

    Each tree is grown on rows drawn with replacement, a missing value taken from a row drawn at random. The sharpness
    of the averaged probabilities is the one under which rows are most likely by the trees that were grown without them.

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
    from joblib import Parallel, delayed

    weight = np.ones(len(x)) if weight is None else weight
    columns = _columns(x, y, families, n_classes, weight)
    seeds = np.random.SeedSequence(seed).spawn(n_trees)
    tasks = (delayed(_grow)(x, y, weight, columns, n_classes, most_cells, each) for each in seeds)
    trees = list(Parallel(n_jobs=n_jobs, prefer="threads")(tasks))
    prior = np.bincount(y, weight, n_classes) / weight.sum()
    nodes = {name: _stacked([tree.nodes[name] for tree in trees]) for name in trees[0].nodes}
    cells = {name: _stacked([tree.cells[name] for tree in trees]) for name in trees[0].cells}
    cells["variance"][cells["variance"] == 0.0] = 1.0  # of cells that a tree does not have
    return Forest(
        **nodes,
        **cells,
        rank=columns.rank,
        numbers=columns.numbers,
        categories=columns.categories,
        first=columns.first,
        class_prior=prior,
        sharpness=_choose_sharpness(trees, y, weight, n_classes),
    )


def _columns(x: np.ndarray, y: np.ndarray, families: Sequence[Family], n_classes: int, weight: np.ndarray) -> _Columns:
    """Categories are ordered by the classes they go with, so that one threshold divides them well."""
    unordered = np.array([family.unordered for family in families], dtype=bool)
    first, ranks = [0], []
    for column in np.flatnonzero(unordered):
        n_values = families[column].n_values or 1
        here = ~np.isnan(x[:, column])
        places = x[here, column].astype(np.int64) * n_classes + y[here]
        counts = np.bincount(places, weight[here], n_values * n_classes).reshape(n_values, n_classes)
        prior = np.bincount(y, weight, n_classes) / weight.sum()
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
    return _Columns(np.flatnonzero(~unordered), np.flatnonzero(unordered), np.array(first), joined)


def _grow(
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    columns: _Columns,
    n_classes: int,
    most_cells: int,
    seed: np.random.SeedSequence,
) -> _Tree:
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(x), weight / weight.sum())
    bag, held_out = np.flatnonzero(drawn), np.flatnonzero(drawn == 0)
    times = drawn[bag].astype(np.float64)
    filled = _filled(x, rng)
    for place, column in enumerate(columns.categories):
        filled[:, column] = columns.rank[columns.first[place] + filled[:, column].astype(np.int64)]
    grower = DecisionTreeClassifier(
        max_features="sqrt", max_leaf_nodes=most_cells, random_state=int(rng.integers(2**31 - 1))
    )
    grown = grower.fit(filled[bag], y[bag], sample_weight=times).tree_
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
    # As scikit-learn sees rows, which is in float32.
    cells = cell[grown.apply(filled.astype(np.float32))]
    filling = _fill_cells(x[bag], y[bag], times, cells[bag], int(is_cell.sum()), columns, n_classes)
    boxes = _boxes(nodes, len(filled[0]))
    return _Tree(nodes, _within_boxes(filling, boxes, columns), held_out, cells[held_out])


def _filled(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows (N, V) with each missing value taken from a row drawn at random; 0 in columns without any."""
    filled = x.copy()
    for column in np.flatnonzero(np.isnan(x).any(0)):
        missing = np.isnan(x[:, column])
        known = x[~missing, column]
        filled[missing, column] = rng.choice(known, missing.sum()) if len(known) else 0.0
    return filled


def _fill_cells(
    x: np.ndarray,
    y: np.ndarray,
    times: np.ndarray,
    cell: np.ndarray,
    n_cells: int,
    columns: _Columns,
    n_classes: int,
) -> dict[str, np.ndarray]:
    """Counts, class frequencies and leaves of cells, from the rows (B, V) in them."""
    prior = np.bincount(y, times, n_classes) / times.sum()
    by_class = np.bincount(cell * n_classes + y, times, n_cells * n_classes).reshape(n_cells, n_classes)
    count = by_class.sum(1)
    share = (by_class + _CLASS_ROWS * prior) / (count[:, None] + _CLASS_ROWS)
    means, variances, tables = [], [], []
    for column in columns.numbers:
        here = ~np.isnan(x[:, column])
        value, times_here, cell_here = x[here, column], times[here], cell[here]
        total = np.bincount(cell_here, times_here, n_cells)
        some = np.maximum(total, 1e-300)
        mean = np.bincount(cell_here, times_here * value, n_cells) / some
        variance = np.bincount(cell_here, times_here * (value - mean[cell_here]) ** 2, n_cells) / some
        means.append(np.where(total > 0, mean, 0.0))
        variances.append(np.maximum(np.where(total > 0, variance, 1.0), _MIN_VARIANCE))
    for place, column in enumerate(columns.categories):
        n_values = int(columns.first[place + 1] - columns.first[place])
        here = ~np.isnan(x[:, column])
        places = cell[here] * n_values + x[here, column].astype(np.int64)
        counts = np.bincount(places, times[here], n_cells * n_values).reshape(n_cells, n_values)
        whole = counts.sum(0) + 1.0 / n_values
        tables.append(counts + _CATEGORY_ROWS * whole / whole.sum())
    nothing = np.empty((n_cells, 0))
    return {
        "count": count,
        "class_share": share,
        "mean": np.stack(means, 1) if means else nothing,
        "variance": np.stack(variances, 1) if variances else nothing,
        "log_table": np.log(np.concatenate(tables, 1)) if tables else nothing,
    }


def _boxes(nodes: dict[str, np.ndarray], n_columns: int) -> np.ndarray:
    """Lower (open) and upper (closed) ends of the cells' boxes: (2, K, V)."""
    n_nodes = len(nodes["cell"])
    ends = np.empty((2, n_nodes, n_columns))
    ends[0], ends[1] = -np.inf, np.inf
    for node in np.flatnonzero(nodes["cell"] < 0):  # children come after their parent
        column, threshold = nodes["feature"][node], nodes["threshold"][node]
        left, right = nodes["left"][node], nodes["right"][node]
        ends[:, left], ends[:, right] = ends[:, node], ends[:, node]
        ends[1, left, column] = min(ends[1, left, column], threshold)
        ends[0, right, column] = max(ends[0, right, column], threshold)
    return ends[:, nodes["cell"] >= 0]


def _within_boxes(cells: dict[str, np.ndarray], boxes: np.ndarray, columns: _Columns) -> dict[str, np.ndarray]:
    """The same with leaves that integrate to 1 over their boxes."""
    from scipy.special import log_ndtr

    low, high = ((end[:, columns.numbers] - cells["mean"]) / np.sqrt(cells["variance"]) for end in boxes)
    # Of the two tails the smaller ones: the difference of numbers near 1 would lose all digits.
    flipped = low > 0
    low, high = np.where(flipped, -high, low), np.where(flipped, -low, high)
    upper, lower = log_ndtr(high), log_ndtr(low)
    log_mass = upper + np.log1p(-np.exp(np.minimum(lower - upper, -1e-12)))
    tables = []
    for place, column in enumerate(columns.categories):
        part = slice(columns.first[place], columns.first[place + 1])
        rank = columns.rank[part]
        inside = (rank > boxes[0][:, [column]]) & (rank <= boxes[1][:, [column]])
        table = np.where(inside, cells["log_table"][:, part], -np.inf)
        top = table.max(1, keepdims=True)
        tables.append(table - top - np.log(np.exp(table - top).sum(1, keepdims=True)))
    log_table = np.concatenate(tables, 1) if tables else cells["log_table"]
    return {**cells, "log_mass": log_mass, "log_table": log_table}


def _choose_sharpness(trees: Sequence[_Tree], y: np.ndarray, weight: np.ndarray, n_classes: int) -> float:
    """The power under which rows are most likely by the trees that were grown without them; 1 if there are none."""
    total, times = np.zeros((len(y), n_classes)), np.zeros(len(y))
    for tree in trees:
        total[tree.held_out] += tree.cells["class_share"][tree.cell_of_held_out]
        times[tree.held_out] += 1.0
    judged = times > 0
    if not judged.any():
        return 1.0
    logs = np.log(np.maximum(total[judged] / times[judged, None], 1e-300))
    labels, weights = y[judged], weight[judged]

    def loss(power: float) -> float:
        scaled = power * logs
        return float(weights @ (np.logaddexp.reduce(scaled, 1) - scaled[np.arange(len(labels)), labels]))

    return float(min(_SHARPNESS, key=loss))


def _stacked(parts: Sequence[np.ndarray]) -> Any:
    """Arrays (n_t, ...) of all trees, those of fewer nodes or cells padded: (T, n, ...)."""
    size = max(len(part) for part in parts)
    stacked = np.zeros((len(parts), size, *parts[0].shape[1:]), dtype=parts[0].dtype)
    for place, part in enumerate(parts):
        stacked[place, : len(part)] = part
    return stacked
