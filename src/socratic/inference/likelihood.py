"""Log-likelihoods: of the circuit as it is, and with dropout drawn for each row of a training step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.draws import RowMasks
from socratic.errors import check_rate
from socratic.inference.dropout import Dropout
from socratic.inference.engine import Engine
from socratic.inference.kinds import engine_of
from socratic.inference.rows import ask, check_rows, map_chunks
from socratic.numerics import finite_max

DEAD_CLASS = 100.0
"""How far below the best class of a row training puts a class that lost everything: finite, so that losses are."""


def log_likelihood(circuit: Circuit | Graph, x: Any, *, chunk_size: int | None = None) -> Tensor:
    """Log-likelihood of each row under each class.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value and is marginalised exactly.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Tensor (N, C)
        log p(x | class), in the circuit's type and on its device.
    """
    engine = engine_of(circuit)
    return ask(circuit, x, lambda rows: class_log_likelihood(engine, rows, rows.dtype, chunk_size))


def class_log_likelihood(engine: Engine, rows: Tensor, dtype: torch.dtype, chunk_size: int | None) -> Tensor:
    """:func:`log_likelihood` of checked rows (N, V) in a type that may be wider than theirs: (N, C)."""

    def query(start: int, stop: int) -> Tensor:
        return engine.log_likelihood(rows[start:stop], dtype)

    chunks = map_chunks(query, rows, engine.entries_per_row, chunk_size)
    return chunks[0] if len(chunks) == 1 else torch.cat(chunks)


def training_log_likelihood(
    circuit: Circuit | Graph,
    x: Any,
    *,
    dropout: float = 0.0,
    leaf_dropout: float = 0.0,
    root_dropout: bool = False,
    generator: torch.Generator,
    share: slice | None = None,
) -> Tensor:
    """Log-likelihoods with dropout drawn anew for every row: what a training step maximises.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
    dropout : float
        Probability of dropping a child from the sums of its region.
    leaf_dropout : float
        Probability of marginalising a univariate leaf, as if its variable were missing for it alone.
    root_dropout : bool
        Whether the class roots drop children too.
    generator : torch.Generator
        Source of the masks, on the circuit's device.
    share : slice, optional
        The rows to evaluate, all by default. Masks are drawn for all rows, so that a row has the same ones whichever
        are evaluated: that is how several processes share a batch.

    Returns
    -------
    Tensor (N, C)
        Log-likelihoods, differentiable in the parameters. Not rescaled: a sum that keeps q of its children
        has about q of its value. A class that lost everything lies ``DEAD_CLASS`` nats below the row's best.
    """
    rates = Dropout.check(dropout, "unit", root_dropout)
    leaf_dropout = check_rate("leaf_dropout", leaf_dropout)
    if not isinstance(generator, torch.Generator):
        raise ValueError(f"generator must be a torch.Generator; got {generator!r}")
    engine = engine_of(circuit)
    rows = check_rows(circuit, x)
    share = slice(None) if share is None else share
    masks = RowMasks(generator, len(rows), share)
    values = engine.training_log_likelihood(rows[share], rates, leaf_dropout, masks)
    floor = finite_max(values, dim=1) - DEAD_CLASS
    return torch.maximum(values, floor)
