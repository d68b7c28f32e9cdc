"""Marginal and conditional log-probabilities: differences of exact log-likelihoods."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.engine import Engine
from socratic.inference.kinds import engine_of
from socratic.inference.likelihood import class_log_likelihood
from socratic.inference.queries.classes import ClassIndex, ClassPrior, log_class_weights
from socratic.inference.rows import check_rows
from socratic.numerics import logsumexp_or_dead, scale_dtype


def marginal_log_likelihood(
    circuit: Circuit | Graph,
    x: Any,
    *,
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    chunk_size: int | None = None,
) -> Tensor:
    """Log-probability of the values that are there, whatever the missing ones are.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is marginalised exactly.
    class_index : int or (N,), optional
        The class, one for all rows or one for each. By default the classes are mixed.
    class_prior : (C,), optional
        Class probabilities of the mixture; uniform by default.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Tensor (N,)
        log p(x), or log p(x | class); differentiable in the parameters.
    """
    engine = engine_of(circuit)
    rows = check_rows(circuit, x)
    weights = log_class_weights(circuit, len(rows), class_index, class_prior)
    return _mixed(engine, rows, weights, chunk_size).to(rows.dtype)


def conditional_log_likelihood(
    circuit: Circuit | Graph,
    x: Any,
    evidence: Any,
    *,
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    chunk_size: int | None = None,
) -> Tensor:
    """Log-probability of some values given others.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        The values in question; NaN where nothing is asked. What the evidence holds too must be equal, so a
        complete row may be given as it is.
    evidence : array-like (N, V)
        The values that are known; NaN where nothing is. One row of evidence serves all rows of ``x``, and
        one row of ``x`` all rows of evidence.
    class_index, class_prior, chunk_size
        See :func:`marginal_log_likelihood`. Mixed classes count by their probability given the evidence.

    Returns
    -------
    Tensor (N,)
        log p(x | evidence), or log p(x | evidence, class); NaN where the evidence itself is impossible.
    """
    engine = engine_of(circuit)
    asked, known = check_rows(circuit, x), check_rows(circuit, evidence)
    if len(asked) != len(known) and 1 not in (len(asked), len(known)):
        raise ValueError(f"evidence must have one row, or as many as x; got {len(known)} and {len(asked)}")
    differ = (asked != known) & ~asked.isnan() & ~known.isnan()
    if differ.any():
        row, column = differ.nonzero()[0].tolist()
        raise ValueError(
            f"x and evidence hold different values in row {row}, column {column}: leave one of them NaN there"
        )
    both = torch.where(asked.isnan(), known, asked)
    weights = log_class_weights(circuit, len(both), class_index, class_prior)
    difference = _mixed(engine, both, weights, chunk_size) - _mixed(engine, known, weights, chunk_size)
    return difference.to(both.dtype)


def _mixed(engine: Engine, rows: Tensor, log_weights: Tensor, chunk_size: int | None) -> Tensor:
    """Log-likelihoods of rows, or of one row for all, mixed over classes with log-weights (N, C): (N,).

    They are in the wide type: far from all data they are so large that float32 would lose their difference.
    """
    values = class_log_likelihood(engine, rows, scale_dtype(rows), chunk_size)
    return logsumexp_or_dead(values + log_weights, dim=1).squeeze(1)
