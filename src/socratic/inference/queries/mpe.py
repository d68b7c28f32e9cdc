"""Most probable explanations: the best completion of a row, by maxima in place of sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.inference.kinds import engine_of
from socratic.inference.likelihood import class_log_likelihood
from socratic.inference.queries.classes import ClassIndex, ClassPrior, log_class_weights
from socratic.inference.queries.sampling import NO_CLASS
from socratic.inference.rows import check_rows, map_chunks
from socratic.notebook import of_variables, table_of_rows


@dataclass(frozen=True, eq=False)
class Explanation:
    """The most probable completion of each row, as far as it can be found.

    Attributes
    ----------
    x : Tensor (N, V)
        Completed rows; where the evidence is impossible, and in columns without leaves, what was missing stays NaN.
    classes : Tensor (N,)
        The class that goes with the row: the given one, or the one found; -1 where the evidence is impossible.
    log_likelihood : Tensor (N,)
        log p(x, class) of the completed row under the whole circuit, or log p(x | class) of a given class.
    log_bound : Tensor (N,)
        No completion has a higher log-likelihood than this; equal to ``log_likelihood`` if ``exact``.
    exact : bool
        Whether the circuit was found to be deterministic, so that no completion is more probable. Otherwise the
        rows are those of the circuit's most probable tree (max-product), usually good but with no such guarantee.
    """

    x: Tensor
    classes: Tensor
    log_likelihood: Tensor
    log_bound: Tensor
    exact: bool

    def _repr_html_(self) -> str:
        columns = {**of_variables(self.x), "class": self.classes, "log-likelihood": self.log_likelihood}
        certain = "No completion is more probable." if self.exact else "None has a log-likelihood above the bound."
        note = f"The most probable values of what is missing. {certain}"
        return table_of_rows(columns | ({} if self.exact else {"bound": self.log_bound}), note, n_rows=len(self.x))


@torch.no_grad()
def mpe(
    circuit: Circuit | Graph,
    evidence: Any,
    *,
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    chunk_size: int | None = None,
) -> Explanation:
    """Complete rows by their most probable values.

    Values go up with maxima in place of sums and with missing variables at the modes of their leaves; the way
    down follows the maxima. This is exact for deterministic circuits; see :class:`Explanation`.

    Parameters
    ----------
    circuit : Circuit or Graph
    evidence : array-like (N, V)
        Known values; NaN is filled in.
    class_index : int or (N,), optional
        The class, one for all rows or one for each. By default the class is found along with the values.
    class_prior : (C,), optional
        Class probabilities; uniform by default.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.
    """
    engine = engine_of(circuit)
    rows = check_rows(circuit, evidence)
    weights = log_class_weights(circuit, len(rows), class_index, class_prior)
    exact = engine.is_deterministic()

    def query(start: int, stop: int) -> tuple[Tensor, ...]:
        part, log_weights = rows[start:stop], weights[start:stop]
        evaluated = engine.evaluate(part, "max")
        best, classes = (evaluated.log_roots + log_weights).max(1)
        (possible,) = (best > -torch.inf).nonzero(as_tuple=True)
        x = part.clone()
        x[possible] = evaluated.complete(
            possible,
            classes[possible],
            lambda log_terms, *_: log_terms.argmax(1),
            lambda family, parameters, *_: family.mode(parameters),
        )
        found = class_log_likelihood(engine, x, x.dtype, chunk_size) + log_weights
        likelihood = found.gather(1, classes.unsqueeze(1)).squeeze(1)
        bound = likelihood
        if not exact:
            anywhere = (engine.evaluate(part, "bound").log_roots + log_weights).amax(1)
            bound = torch.maximum(anywhere, likelihood)  # equal ones may have been rounded apart
        return x, classes.masked_fill(best == -torch.inf, NO_CLASS), likelihood.to(x.dtype), bound.to(x.dtype)

    parts = map_chunks(query, rows, engine.entries_per_evaluated_row, chunk_size)
    x, classes, likelihood, bound = (torch.cat(values) for values in zip(*parts, strict=True))
    return Explanation(x, classes, likelihood, bound, exact)
