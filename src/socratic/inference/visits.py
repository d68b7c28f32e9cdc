"""How often training rows used each sum: what the strength of a weight posterior comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.engine import Engine
from socratic.inference.kinds import engine_of
from socratic.inference.rows import check_rows, map_chunks
from socratic.inference.weight_posterior import WeightPosterior
from socratic.numerics import scale_dtype


@torch.no_grad()
def weight_posterior(
    circuit: Circuit | Graph,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    prior_strength: float = 1.0,
    worth: float = 1.0,
    chunk_size: int | None = None,
) -> WeightPosterior:
    """The distribution of the weights that training rows leave: count how many of them used each sum.

    Each row goes down from the root of its class, and every sum splits what reaches it among its children by their
    responsibilities, the shares they have in its value; what reaches a sum, over all rows, is its visits. One pass up
    and one down. A row that its class gives no probability counts nowhere.

    Parameters
    ----------
    circuit : Circuit or Graph
        A trained one: its weights are the means of their distributions.
    x : array-like (N, V)
        The training rows; NaN is a missing value.
    y : array-like (N,), optional
        The number of each row's class, from 0; not needed if there is one class.
    sample_weight : array-like (N,), optional
        How many rows each row counts for, 1 by default.
    prior_strength, worth : float
        See :class:`~socratic.WeightPosterior`.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    WeightPosterior
    """
    engine = engine_of(circuit)
    rows = check_rows(circuit, x)
    classes = check_labels(y, len(rows), circuit.n_classes).to(rows.device)
    weight = check_sample_weight(sample_weight, len(rows)).to(rows)
    wide = scale_dtype(rows)
    total = [torch.zeros(shape, dtype=wide, device=rows.device) for shape in engine.sum_shapes]

    def count(start: int, stop: int) -> None:
        shares = rows.new_zeros(stop - start, circuit.n_classes)
        shares.scatter_(1, classes[start:stop].unsqueeze(1), weight[start:stop].unsqueeze(1))
        for visits, added in zip(total, _sum_shares(engine, rows[start:stop], shares), strict=True):
            visits.add_(added)

    map_chunks(count, rows, engine.entries_per_evaluated_row, chunk_size)
    return WeightPosterior(tuple(total), prior_strength, worth)


def _sum_shares(engine: Engine, rows: Tensor, shares: Tensor) -> list[Tensor]:
    """What reaches the sums of a circuit from the classes of rows (N, C), added up over the rows."""
    if not engine.has_roots_alone:
        return engine.evaluate(rows).sum_shares(shares)
    # Nothing has to be split.
    alive = engine.log_likelihood(rows, rows.dtype) > -torch.inf
    return [torch.where(alive, shares, 0.0).sum(0, dtype=scale_dtype(shares))]


def check_labels(y: Any, n_rows: int, n_classes: int) -> Tensor:
    """Numbers of classes (N,)."""
    if y is None:
        if n_classes > 1:
            raise ValueError(f"y must hold the class of each row: the circuit has {n_classes} classes; got None")
        return torch.zeros(n_rows, dtype=torch.long)
    labels = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
    if labels.shape != (n_rows,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"y must hold a whole number for each of {n_rows} rows; got the shape {labels.shape} of type {labels.dtype}"
        )
    if n_rows and not 0 <= labels.min() <= labels.max() < n_classes:
        raise ValueError(f"y must hold classes from 0 to {n_classes - 1}; got {labels.min()} to {labels.max()}")
    return torch.as_tensor(labels.astype(np.int64))


def check_sample_weight(sample_weight: Any, n_rows: int) -> Tensor:
    """Weights of rows (N,)."""
    if sample_weight is None:
        return torch.ones(n_rows)
    given = sample_weight.cpu() if isinstance(sample_weight, Tensor) else sample_weight
    weight = torch.as_tensor(np.asarray(given, dtype=np.float64))
    if weight.shape != (n_rows,) or not bool(((weight >= 0) & torch.isfinite(weight)).all()):
        raise ValueError(
            f"sample_weight must hold a finite number of at least 0 for each of {n_rows} rows; "
            f"got the shape {tuple(weight.shape)}"
        )
    return weight
