"""Expectations given evidence, from the probability of each leaf to be used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.kinds import engine_of
from socratic.inference.queries.classes import ClassIndex, ClassPrior, log_class_weights
from socratic.inference.rows import check_rows, map_chunks
from socratic.notebook import of_variables, table_of_rows
from socratic.numerics import sqrt_or_zero


@dataclass(frozen=True, eq=False)
class Expectation:
    """What to expect of each variable, given the evidence. Rows with impossible evidence are NaN throughout.

    A missing value in a column without leaves, which graphs may have, has no distribution: NaN, too.

    Attributes
    ----------
    mean : Tensor (N, V)
        Conditional means; observed values are themselves.
    variance : Tensor (N, V)
        Conditional variances; 0 where observed.
    probabilities : dict of int to Tensor (N, Y)
        For each discrete variable that was asked for, the probabilities of its values 0, 1, ..., Y - 1.
    class_probabilities : Tensor (N, C)
        p(class | evidence); 1 for a given class.
    """

    mean: Tensor
    variance: Tensor
    probabilities: dict[int, Tensor]
    class_probabilities: Tensor

    def _repr_html_(self) -> str:
        mean, std = of_variables(self.mean), of_variables(sqrt_or_zero(self.variance))
        columns: dict[str, Any] = {name: (mean[name], std[name]) for name in mean}
        likeliest = self.class_probabilities.argmax(1)
        columns |= {"class": likeliest, "its probability": self.class_probabilities.gather(1, likeliest[:, None])[:, 0]}
        note = "Mean ± standard deviation of each variable, and the most probable class, given what is known."
        return table_of_rows(columns, note, n_rows=len(self.mean))


@torch.no_grad()
def expectation(
    circuit: Circuit | Graph,
    evidence: Any,
    *,
    tables: Sequence[int] = (),
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    chunk_size: int | None = None,
) -> Expectation:
    """Exact conditional means, variances and probability tables of single variables.

    Parameters
    ----------
    circuit : Circuit or Graph
    evidence : array-like (N, V)
        Known values; NaN where nothing is known.
    tables : sequence of int
        Discrete variables whose table of probabilities is wanted: with it the expectation of any function f is
        ``probabilities[v] @ f(0, 1, ...)``.
    class_index : int or (N,), optional
        The class, one for all rows or one for each. By default the classes are mixed, each by its probability
        given the evidence.
    class_prior : (C,), optional
        Class probabilities of the mixture; uniform by default.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.
    """
    engine = engine_of(circuit)
    if not isinstance(tables, Iterable):
        raise ValueError(f"tables must be a sequence of variables, such as [{tables!r}]; got {tables!r}")
    tables = [_check_discrete(circuit, variable) for variable in tables]
    rows = check_rows(circuit, evidence)
    weights = log_class_weights(circuit, len(rows), class_index, class_prior)

    def query(start: int, stop: int) -> tuple[Tensor, ...]:
        part = rows[start:stop]
        evaluated = engine.evaluate(part)
        joint = evaluated.log_roots + weights[start:stop]
        impossible = (joint == -torch.inf).all(1, keepdim=True)
        class_shares = torch.softmax(joint.masked_fill(impossible, 0.0), dim=1)
        shares = evaluated.leaf_shares(class_shares)
        mean, variance = evaluated.moments(shares)
        observed = ~part.isnan()
        found = [torch.where(observed, part, mean), variance.masked_fill(observed, 0.0)]
        for variable in tables:
            table = evaluated.table(shares, variable)
            certain = part[:, variable, None] == torch.arange(table.shape[1], device=table.device)
            found.append(torch.where(observed[:, variable, None], certain.to(table.dtype), table))
        found.append(class_shares.to(part.dtype))
        return tuple(values.masked_fill(impossible, torch.nan) for values in found)

    parts = map_chunks(query, rows, engine.entries_per_evaluated_row, chunk_size)
    mean, variance, *found, classes = (torch.cat(values) for values in zip(*parts, strict=True))
    return Expectation(mean, variance, dict(zip(tables, found, strict=True)), classes)


def _check_discrete(circuit: Circuit | Graph, variable: Any) -> int:
    if (
        isinstance(variable, bool)
        or not isinstance(variable, (int, np.integer))
        or not 0 <= variable < circuit.n_features
    ):
        raise ValueError(f"tables must hold variables from 0 to {circuit.n_features - 1}; got {variable!r}")
    families = circuit.column_families[variable]
    if not families:
        raise ValueError(f"tables must hold variables of the graph; variable {variable} has no leaves")
    if any(family.n_values is None for family in families):
        raise ValueError(f"tables must be of finitely many values; variable {variable} has more (see its mean)")
    return int(variable)
