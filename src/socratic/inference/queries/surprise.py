"""Reasons: how surprising each column, or each region of columns, is given all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_count
from socratic.inference.engine import Engine, RegionPlan
from socratic.inference.kinds import engine_of
from socratic.inference.queries.classes import ClassIndex, ClassPrior, log_class_weights
from socratic.inference.rows import check_rows, map_chunks
from socratic.notebook import of_variables, table_of_rows


@dataclass(frozen=True, eq=False)
class RegionValues:
    """A value for every row and every region: the sets of columns that a circuit is made of.

    Attributes
    ----------
    scopes : tuple of tuples of int
        The columns of each of Q regions, the whole row first.
    values : Tensor (N, Q)
    """

    scopes: tuple[tuple[int, ...], ...]
    values: Tensor

    def _repr_html_(self) -> str:
        scopes = (f"columns {', '.join(map(str, scope))}" for scope in self.scopes)
        columns = dict(zip(scopes, of_variables(self.values).values(), strict=False))
        note = f"A value for each of {len(self.scopes):,} regions, of which the first are shown."
        return table_of_rows(columns, note, n_rows=len(self.values))


@torch.no_grad()
def column_surprise(
    circuit: Circuit | Graph,
    x: Any,
    *,
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    chunk_size: int | None = None,
) -> Tensor:
    """How surprising each value of a row is, given all others: -log p(x_j | x without j).

    All columns together take one pass up and one down, however many there are. Nothing underflows: far from all data
    the answer is as accurate as a difference of log-likelihoods.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value: it is integrated out, and nothing is asked of it.
    class_index : int or (N,), optional
        The class, one for all rows or one for each. By default the classes are mixed, each by its probability given
        the rest of the row.
    class_prior : (C,), optional
        Class probabilities of the mixture; uniform by default.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Tensor (N, V)
        In nats. NaN where a value is missing, where a graph has no leaves for a column, and where the rest of the row
        is impossible by itself; infinite where the value makes a possible row impossible.
    """
    engine, rows, weights = _checked(circuit, x, class_index, class_prior)

    def query(start: int, stop: int) -> Tensor:
        part = rows[start:stop]
        return engine.column_surprise(part, weights[start:stop]).to(rows.dtype).masked_fill(part.isnan(), torch.nan)

    return torch.cat(map_chunks(query, rows, engine.entries_per_surprised_row, chunk_size))


@torch.no_grad()
def region_surprise(
    circuit: Circuit | Graph,
    x: Any,
    *,
    min_columns: int = 1,
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    chunk_size: int | None = None,
) -> RegionValues:
    """How surprising the columns of each region are together, given all others: -log p(x_r | x without r).

    Regions of single columns, where all of the circuit has them, say what :func:`column_surprise` says. A part of the
    circuit that has no node for a region, such as another repetition, has no say in it: the answer is that of the
    others. All regions together take one pass up and one down.

    Parameters
    ----------
    circuit, x, class_index, class_prior, chunk_size
        See :func:`column_surprise`.
    min_columns : int
        Regions of fewer columns are left out.

    Returns
    -------
    RegionValues
        In nats; NaN where all columns of a region are missing.
    """
    engine, rows, weights = _checked(circuit, x, class_index, class_prior)
    plan = _regions(engine, min_columns)

    def query(start: int, stop: int) -> Tensor:
        return plan.surprise(rows[start:stop], weights[start:stop]).to(rows.dtype)

    values = torch.cat(map_chunks(query, rows, plan.entries_per_row, chunk_size))
    observed = ~rows.isnan()
    empty = torch.stack([~observed[:, list(scope)].any(1) for scope in plan.scopes], dim=1)
    return RegionValues(plan.scopes, values.masked_fill(empty, torch.nan))


@torch.no_grad()
def region_log_likelihood(
    circuit: Circuit | Graph,
    x: Any,
    *,
    min_columns: int = 1,
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    chunk_size: int | None = None,
) -> RegionValues:
    """Log-likelihood of the columns of each region alone, log p(x_r): what one pass knows besides the root.

    It takes one pass up; how often each node is used, which says what the nodes of a region are worth, is found in a
    walk down the weights alone. A part of the circuit that has no node for a region, such as another repetition, has no
    say in it: the answer is that of the others.

    Parameters
    ----------
    circuit, x, class_index, class_prior, chunk_size
        See :func:`column_surprise`.
    min_columns : int
        Regions of fewer columns are left out.

    Returns
    -------
    RegionValues
        In nats; missing values are integrated out, so that a region of which nothing is there has 0.
    """
    engine, rows, weights = _checked(circuit, x, class_index, class_prior)
    plan = _regions(engine, min_columns)

    def query(start: int, stop: int) -> Tensor:
        return plan.log_likelihood(rows[start:stop], weights[start:stop]).to(rows.dtype)

    return RegionValues(plan.scopes, torch.cat(map_chunks(query, rows, plan.entries_per_row, chunk_size)))


def _checked(
    circuit: Circuit | Graph, x: Any, class_index: ClassIndex, class_prior: ClassPrior
) -> tuple[Engine, Tensor, Tensor]:
    engine = engine_of(circuit)
    rows = check_rows(circuit, x)
    return engine, rows, log_class_weights(circuit, len(rows), class_index, class_prior)


def _regions(engine: Engine, min_columns: int) -> RegionPlan:
    n_features = engine.circuit.n_features
    if check_count("min_columns", min_columns) > n_features:
        raise ValueError(f"min_columns must be at most {n_features}, the number of columns; got {min_columns}")
    return engine.regions(min_columns)
