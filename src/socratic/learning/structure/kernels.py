"""Kernels: a mixture with one narrow component for each training row, nothing of which has to be trained.

Its density is high next to rows that were seen and falls off between and around them: a mixture of very many small
components tells unfamiliar rows from familiar ones better than one of few and wide components does. Each component is
as wide as the gap to its neighbours, times a factor under which rows are most likely given all *other* rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.build import rat_spn
from socratic.circuit.circuit import Circuit
from socratic.circuit.leaves import LeafGroup
from socratic.families import Family, Gaussian

MOST_KERNELS = 2000
"""Of more rows than this, some are taken at random: every answer looks at all kernels."""
_NEIGHBOUR = 5
"""The width of a kernel is the distance to this neighbour, a root mean square over columns."""
_FACTORS = (0.35, 0.5, 0.7, 1.0, 1.4)
_BLURS = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Probability that a kernel gives to a category drawn from the whole column rather than its own."""
_NARROWEST = 0.02
"""In deviations of a column: copies of a row have no gap between them."""
_MOST_JUDGED = 250
"""Rows that decide on widths, at most."""
_SAMPLE, _N_SAMPLES = 16, 30
"""Rows of a small sample, at most, and how many samples there are."""
_SHARE_OF_ROWS, _FEWEST_SAMPLED = 4, 8
"""Of few rows a sample holds one in so many, so that samples differ; but no fewer than this."""
_FEW = 50
"""Rows up to which all kernels of a table are equally wide."""
_PART = 600
"""Rows of a part, at most: in a part of few rows there are few outliers that are alike."""
_OFTEN = 0.05
"""Share of equal rows from which on they are no outliers but what the source often says, as a sensor its default."""
_MOST_LESS = 500.0
"""Nats by which a kernel counts for less, at most: weights stay numbers that float64 holds."""
_COLUMN_WIDTH = 0.3
"""Width of the kernels of a single column, in its deviations."""
_FARTHEST = 30.0
"""Nats a column below which a row is no longer less likely: one far row must not decide on widths."""


def kernel_circuit(
    x: np.ndarray,
    y: np.ndarray,
    families: Sequence[Family],
    n_classes: int,
    weight: np.ndarray | None = None,
    *,
    most: int = MOST_KERNELS,
    apart: bool = False,
    seed: int = 0,
) -> Circuit:
    """A circuit of kernels: for each class, the mean of the kernels of its rows.

    Parameters
    ----------
    x : ndarray (N, V)
        Standardised rows; NaN is a missing value, for which a kernel is as wide as the whole column.
    y : ndarray (N,)
        Class numbers; every class has rows.
    families : sequence of Family
        Gaussian, Bernoulli or categorical.
    n_classes : int
    weight : ndarray (N,), optional
        Of the rows, 1 by default.
    most : int
        Kernels at most; of every class one at least.
    apart : bool
        Whether every class is a table of its own: its kernels are as wide as the gaps between its own rows.
    seed : int
        Decides which rows become kernels, if there are more.

    Returns
    -------
    Circuit
        In float64, without inner sums.
    """
    weight = np.ones(len(x)) if weight is None else weight
    rng = np.random.default_rng(seed)
    places = _some_rows(y, most, rng)
    centres = torch.as_tensor(x[places], dtype=torch.float64)
    free = [Gaussian(0.0, None) if isinstance(family, Gaussian) else family for family in families]
    circuit = rat_spn(x.shape[1], n_classes, depth=0, n_leaves=len(places), n_repetitions=1, leaf=free).double()
    (root,) = circuit.root_branches()
    label = torch.as_tensor(y[places])
    per_class = np.bincount(y, weight, n_classes) / np.maximum(
        np.bincount(y[places], weight[places], n_classes), 1e-300
    )
    log_weight = torch.as_tensor(np.log(weight[places] * per_class[y[places]]))
    own = label.unsqueeze(0) == torch.arange(n_classes).unsqueeze(1)
    with torch.no_grad():
        root.logits.copy_(torch.where(own, log_weight, -torch.inf).unsqueeze(0))
        _choose_widths(circuit, torch.as_tensor(x, dtype=torch.float64), centres, label * apart, rng)
    return circuit


def _some_rows(y: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Places (K,) of the rows that become kernels: all, or some of each class, in proportion."""
    if len(y) <= most:
        return np.arange(len(y))
    kept = []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        kept.append(rng.permutation(members)[: max(1, round(most * len(members) / len(y)))])
    return np.sort(np.concatenate(kept))


def _choose_widths(circuit: Circuit, x: Tensor, centres: Tensor, tables: Tensor, rng: np.random.Generator) -> None:
    """Set the leaves to kernels around ``centres`` (K, V), by which rows are most likely without their own kernel.

    ``tables`` (K,) numbers tables that have nothing to do with each other.
    """
    gaps = _gaps(circuit, centres, tables)
    judged = torch.as_tensor(np.sort(rng.permutation(len(centres))[:_MOST_JUDGED]))
    (root,) = circuit.root_branches()
    log_weights = torch.logsumexp(root.logits[0], 0).unsqueeze(1)  # (K, 1): whatever the class
    own = (judged, torch.arange(len(judged)))

    def likelihood(factor: float, blur: float) -> float:
        _set_leaves(circuit, x, centres, factor * gaps, blur)
        terms = circuit.leaves.log_density(centres[judged])[0] + log_weights  # (K, J)
        terms[own] = -torch.inf
        if (tables > 0).any():
            terms[tables.unsqueeze(1) != tables[judged]] = -torch.inf
        found = torch.logsumexp(terms, 0).clamp_min(-_FARTHEST * x.shape[1])
        return float(found.mean())

    if len(centres) < 2:  # nothing to judge by
        _set_leaves(circuit, x, centres, gaps, _BLURS[-1])
        return
    categories = any(group.family.unordered for group in circuit.leaves.leaf_groups())
    blur = max(_BLURS, key=lambda each: likelihood(1.0, each)) if categories else _BLURS[0]
    factor = max(_FACTORS, key=lambda each: likelihood(each, blur))
    _set_leaves(circuit, x, centres, factor * gaps, blur)


def _gaps(circuit: Circuit, centres: Tensor, tables: Tensor) -> Tensor:
    """How far each centre (K, V) is from one of its neighbours in its table, per column: (K,)."""
    points = _points(circuit, centres)
    gaps = torch.ones(len(centres), dtype=torch.float64)
    for number in tables.unique():
        own = tables == number
        n_points = int(own.sum())
        if n_points == 1:
            continue
        found = (_distances(points[own]) / centres.shape[1] ** 0.5).clamp_min(_NARROWEST)
        # Of few rows the gaps say little: they share a mean.
        gaps[own] = found if n_points > _FEW else torch.exp(torch.log(found).mean())
    return gaps


def _distances(points: Tensor) -> Tensor:
    """How far each point (K, P) is from one of its neighbours: (K,)."""
    from sklearn.neighbors import NearestNeighbors

    neighbour = min(_NEIGHBOUR, len(points) - 1)
    if len(points) <= _FEW:
        return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").sort(1).values[:, neighbour]
    values = points.numpy()
    distances, _ = NearestNeighbors(n_neighbors=neighbour + 1).fit(values).kneighbors(values)
    return torch.as_tensor(distances[:, -1])


def _points(circuit: Circuit, centres: Tensor) -> Tensor:
    """Points (K, P) that are as far apart as the centres (K, V) are."""
    parts = []
    for group in circuit.leaves.leaf_groups():
        values = centres[:, group.variables]
        if group.family.unordered:
            hot = torch.nn.functional.one_hot(values.nan_to_num(0.0).long(), group.family.n_values or 1).double()
            # Different categories are one deviation apart.
            parts.append((hot * ~values.isnan().unsqueeze(-1)).flatten(1) * 0.5**0.5)
        else:
            parts.append(values.nan_to_num(0.0))
    return torch.cat(parts, 1)


def _set_leaves(circuit: Circuit, x: Tensor, centres: Tensor, widths: Tensor, blur: float) -> None:
    for group in circuit.leaves.leaf_groups():
        own = centres[:, group.variables].t()  # (P, K)
        found = _gaussian(group, own, widths) if not group.family.unordered else _categories(group, x, own, blur)
        for name, value in found.items():
            group.values[name].copy_(value)


def _gaussian(group: LeafGroup, own: Tensor, widths: Tensor) -> dict[str, Tensor]:
    missing = own.isnan()
    variance = torch.where(missing, 1.0, (widths**2).expand_as(own))
    assert isinstance(group.family, Gaussian)
    return {"mean": own.nan_to_num(0.0), "raw_variance": torch.log(variance)}


def _categories(group: LeafGroup, x: Tensor, own: Tensor, blur: float) -> dict[str, Tensor]:
    family = group.family
    n_values = family.n_values or 1
    values = x[:, group.variables].t()  # (P, N)
    counts = torch.stack([(values == value).sum(1) for value in range(n_values)], 1).double() + 1.0
    shares = (counts / counts.sum(1, keepdim=True)).unsqueeze(1)  # (P, 1, Y)
    hot = torch.nn.functional.one_hot(own.nan_to_num(0.0).long(), n_values).double()
    found = torch.where(own.isnan().unsqueeze(-1), shares, blur * shares + (1.0 - blur) * hot)  # (P, K, Y)
    return family.from_expectations(found.mT, torch.zeros(len(own), dtype=torch.float64))


def divided_kernels(
    x: np.ndarray, families: Sequence[Family], weight: np.ndarray | None = None, *, seed: int = 0
) -> Circuit:
    """Kernels of rows (N, V) that outliers among them do not bend: a root for each of some parts of the rows.

    The mean log-likelihood under the roots says how familiar a row is. A row is its own kernel in one part alone. And
    kernels count for less where rows are much more likely by the other parts than by small samples, in which outliers
    are few and hardly ever two that are alike: a clump of outliers makes itself likely, but no small sample does.

    Parameters
    ----------
    x : ndarray (N, V)
        As in :func:`kernel_circuit`.
    families : sequence of Family
    weight : ndarray (N,), optional
    seed : int
        Decides which rows are in which part, and in small samples.

    Returns
    -------
    Circuit
        In float64, with two roots or more; one of a single row.
    """
    rng = np.random.default_rng(seed)
    weight = np.ones(len(x)) if weight is None else weight
    places = _some_rows(np.zeros(len(x), dtype=np.int64), MOST_KERNELS, rng)
    x, weight = x[places], weight[places]
    n_parts = min(max(2, -(-len(x) // _PART)), len(x))
    part = rng.permutation(len(x)) % n_parts
    circuit = kernel_circuit(x, part, families, n_parts, weight, apart=True, seed=seed)
    if n_parts == 1:
        return circuit
    likelihood = _log_likelihood(circuit, x)
    by_others = (likelihood.sum(1) - likelihood[np.arange(len(x)), part]) / (n_parts - 1)
    excess = _log_likelihood(_sampled_kernels(x, families, weight, seed=seed), x).mean(1) - by_others
    (root,) = circuit.root_branches()
    with torch.no_grad():
        less = np.clip(excess - np.median(excess), -_MOST_LESS, 0.0)
        root.logits.add_(torch.as_tensor(np.where(_share_of_equals(x, weight) < _OFTEN, less, 0.0)))
    return circuit


def _share_of_equals(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """For each row (N, V) the share of the weight that it and its equals have: (N,)."""
    _, group = np.unique(np.nan_to_num(x, nan=np.inf), axis=0, return_inverse=True)
    group = group.ravel()
    return (np.bincount(group, weight) / weight.sum())[group]


def _sampled_kernels(x: np.ndarray, families: Sequence[Family], weight: np.ndarray, *, seed: int = 0) -> Circuit:
    """Kernels of several small random samples of rows (N, V): a circuit with a root for each sample.

    Few outliers are in a sample, and hardly ever two that are alike: the mean log-likelihood under all samples stays
    low for rows that only their own kind, or their own kernel, would make likely.
    """
    rng = np.random.default_rng(seed)
    n_rows = int((weight > 0).sum())
    size = min(_SAMPLE, max(_FEWEST_SAMPLED, n_rows // _SHARE_OF_ROWS), n_rows)
    chances = weight / weight.sum()
    rows = np.concatenate([rng.choice(len(x), size, replace=False, p=chances) for _ in range(_N_SAMPLES)])
    return kernel_circuit(x[rows], np.repeat(np.arange(_N_SAMPLES), size), families, _N_SAMPLES, apart=True, seed=seed)


def least_typical(
    x: np.ndarray, families: Sequence[Family], weight: np.ndarray, share: float, *, seed: int = 0
) -> np.ndarray:
    """Which rows (N, V), of a share of the weight (N,), look least like all others: (N,) booleans.

    By rank: their likelihood under kernels of small samples, which are then drawn from the other rows once more, and
    that of their columns one by one.
    """
    alone = _rarity_of_columns(x, families)
    typical = np.ones(len(x), dtype=bool)
    for round_ in range(2):
        together = -_log_likelihood(_sampled_kernels(x, families, weight * typical, seed=seed + round_), x).mean(1)
        order = np.argsort(_ranks(together) + _ranks(alone), kind="stable")
        typical = np.zeros(len(x), dtype=bool)
        typical[order[np.cumsum(weight[order]) <= (1.0 - share) * weight.sum() + 1e-9]] = True
    return ~typical


def _log_likelihood(circuit: Circuit, x: np.ndarray) -> np.ndarray:
    """Of rows (N, V) under each root: (N, C)."""
    with torch.no_grad():
        return circuit.log_likelihood(torch.as_tensor(x)).numpy()


def _ranks(values: np.ndarray) -> np.ndarray:
    ranks = np.empty(len(values))
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks


def _rarity_of_columns(x: np.ndarray, families: Sequence[Family]) -> np.ndarray:
    """The sum over columns of how rare a value is among all of that column: (N,)."""
    total = np.zeros(len(x))
    for column, family in enumerate(families):
        here = ~np.isnan(x[:, column])
        values = x[here, column]
        if not len(values):
            continue
        if family.unordered:
            codes = values.astype(np.int64)
            total[here] -= np.log(np.bincount(codes)[codes] / len(codes))
            continue
        centres = np.quantile(values, np.linspace(0.0, 1.0, 64))
        kernels = -0.5 * ((values[:, None] - centres) / _COLUMN_WIDTH) ** 2
        total[here] -= np.logaddexp.reduce(kernels, 1)
    return total
