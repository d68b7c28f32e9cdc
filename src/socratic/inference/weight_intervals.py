"""Weights that are only known to lie in a set: bounds of the likelihoods, and how far the predicted class stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_count, check_number
from socratic.inference.engine import Engine
from socratic.inference.kinds import engine_of
from socratic.inference.posterior import log_class_prior
from socratic.inference.rows import check_rows, map_chunks
from socratic.notebook import between, table_of_rows


@dataclass(frozen=True)
class WeightIntervals:
    """Every sum's weights are ``(1 - epsilon) w + epsilon v``, with ``w`` the circuit's and any other weights ``v``.

    ``v`` may be any distribution over the children that have a weight above 0 (epsilon-contamination), another one for
    each sum. ``epsilon`` is from 0 to 1.
    """

    epsilon: float

    def __post_init__(self) -> None:
        check_number("epsilon", self.epsilon, minimum=0.0, maximum=1.0)


@dataclass(frozen=True, eq=False)
class LikelihoodBounds:
    """The smallest and the largest likelihood of each class, over all weights that are possible.

    Attributes
    ----------
    lower, upper : Tensor (N, C)
        Logarithms. Each is reached by some weights, though not those of two classes by the same ones.
    """

    lower: Tensor
    upper: Tensor

    def _repr_html_(self) -> str:
        note = "Log-likelihoods, from the smallest to the largest over all weights that are possible."
        return table_of_rows(between(self.lower, self.upper), note, n_rows=len(self.lower))


@torch.no_grad()
def likelihood_bounds(
    circuit: Circuit | Graph, x: Any, doubt: WeightIntervals, *, chunk_size: int | None = None
) -> LikelihoodBounds:
    """Lower and upper class likelihoods over all weights in their intervals, one pass for each.

    All nodes above a sum increase with its value, and no other sum has its weights: the smallest value of every sum,
    from the leaves up, makes the smallest value of every root. So the bounds are exact for circuits of any shape.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    doubt : WeightIntervals
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.
    """
    if not isinstance(doubt, WeightIntervals):
        raise ValueError(f"doubt must be WeightIntervals(epsilon); got a {type(doubt).__name__}")
    engine, rows = engine_of(circuit), check_rows(circuit, x)
    epsilon = torch.full((len(rows),), doubt.epsilon, dtype=rows.dtype, device=rows.device)
    lower, upper = (_bound(engine, rows, epsilon, largest, chunk_size) for largest in (False, True))
    return LikelihoodBounds(lower, upper)


@torch.no_grad()
def robustness(
    circuit: Circuit | Graph,
    x: Any,
    *,
    class_prior: Sequence[float] | Tensor | None = None,
    n_steps: int = 20,
    chunk_size: int | None = None,
) -> Tensor:
    """For each row an epsilon up to which the predicted class is certain to stand, whatever the weights.

    With :class:`WeightIntervals` of that size the class with the largest posterior has a lower bound above the upper
    bounds of all others. Where classes share sums they cannot reach their bounds together, and the class may stand
    longer still.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    class_prior : (C,), optional
        Prior class probabilities; uniform by default.
    n_steps : int
        Bisections: epsilon is the largest multiple of ``2 ** -n_steps`` that is found to hold.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Tensor (N,)
        From 0 to 1; 1 if there is one class, 0 where two classes are equally likely or all are dead.
    """
    engine, rows = engine_of(circuit), check_rows(circuit, x)
    log_prior = log_class_prior(class_prior, circuit.n_classes, rows)
    standing = torch.zeros(len(rows), dtype=rows.dtype, device=rows.device)
    plain = _bound(engine, rows, standing, False, chunk_size) + log_prior
    best = plain.argmax(1, keepdim=True)
    alive = plain.amax(1) > -torch.inf

    def stands(epsilon: Tensor) -> Tensor:
        lower, upper = (_bound(engine, rows, epsilon, largest, chunk_size) + log_prior for largest in (False, True))
        others = upper.scatter(1, best, -torch.inf).amax(1)
        return alive & (lower.gather(1, best).squeeze(1) > others)

    step = 1.0
    for _ in range(check_count("n_steps", n_steps) + 1):
        further = (standing + step).clamp_max(1.0)
        standing = torch.where(stands(further), further, standing)
        step /= 2.0
    return standing


def _bound(engine: Engine, rows: Tensor, epsilon: Tensor, largest: bool, chunk_size: int | None) -> Tensor:
    """Logarithms (N, C) of the bounds, each row with an epsilon (N,) of its own."""

    def query(start: int, stop: int) -> Tensor:
        return engine.bound(rows[start:stop], epsilon[start:stop], largest=largest)

    return torch.cat(map_chunks(query, rows, engine.entries_per_row, chunk_size))
