"""Sampling: rows drawn from the roots down, with and without evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_count
from socratic.inference.queries.classes import ClassIndex, ClassPrior, log_class_weights
from socratic.inference.queries.passes import Engine, Select, engine_of
from socratic.inference.rows import check_rows, chunk_rows, map_chunks

NO_CLASS = -1


@dataclass(frozen=True, eq=False)
class Samples:
    """Drawn rows.

    Attributes
    ----------
    x : Tensor (M, V), or (N, M, V) given N rows of evidence
        The rows; where evidence is impossible nothing is drawn, and what was missing stays NaN, as it
        does in columns without leaves.
    classes : Tensor (M,) or (N, M)
        The class that each row was drawn from, -1 where evidence is impossible.
    """

    x: Tensor
    classes: Tensor


@torch.no_grad()
def sample(
    circuit: Circuit | Graph,
    n_samples: int = 1,
    *,
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    seed: int = 0,
) -> Samples:
    """Draw rows.

    Parameters
    ----------
    circuit : Circuit or Graph
    n_samples : int
        Number of rows (M).
    class_index : int or (M,), optional
        The class to draw from, one for all rows or one for each. By default it is drawn, too.
    class_prior : (C,), optional
        Class probabilities to draw it with; uniform by default.
    seed : int
        Equal arguments give equal rows.
    """
    n_samples = check_count("n_samples", n_samples, minimum=0)
    weights = log_class_weights(circuit, n_samples, class_index, class_prior)
    unknown = torch.full((1, circuit.n_features), torch.nan, dtype=circuit.dtype, device=circuit.device)
    engine = engine_of(circuit)
    return _draw(engine, unknown, weights, _block(circuit, engine), _generator(circuit, seed))


@torch.no_grad()
def conditional_sample(
    circuit: Circuit | Graph,
    evidence: Any,
    n_samples: int = 1,
    *,
    class_index: ClassIndex = None,
    class_prior: ClassPrior = None,
    seed: int = 0,
    chunk_size: int | None = None,
) -> Samples:
    """Draw completions of rows: exact samples of what is missing, given what is there.

    Parameters
    ----------
    circuit : Circuit or Graph
    evidence : array-like (N, V)
        Known values; NaN is drawn.
    n_samples : int
        Completions of each row (M).
    class_index : int or (N,), optional
        The class to draw from, one for all rows or one for each. By default it is drawn, too, from
        p(class | evidence).
    class_prior : (C,), optional
        Class probabilities before any evidence; uniform by default.
    seed : int
        Equal arguments give equal rows.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.
    """
    rows = check_rows(circuit, evidence)
    n_samples = check_count("n_samples", n_samples, minimum=0)
    weights = log_class_weights(circuit, len(rows), class_index, class_prior)
    engine, generator = engine_of(circuit), _generator(circuit, seed)

    def query(start: int, stop: int) -> Samples:
        part = rows[start:stop]
        repeated = weights[start:stop].repeat_interleave(n_samples, dim=0)
        drawn = _draw(engine, part, repeated, _block(circuit, engine), generator)
        shape = (stop - start, n_samples)
        return Samples(drawn.x.view(*shape, circuit.n_features), drawn.classes.view(shape))

    parts = map_chunks(query, len(rows), chunk_rows(circuit, engine.entries_per_row, chunk_size))
    return Samples(torch.cat([part.x for part in parts]), torch.cat([part.classes for part in parts]))


def _draw(engine: Engine, rows: Tensor, weights: Tensor, block: int, generator: torch.Generator) -> Samples:
    """Draw D completions of N rows, D / N of each, ``block`` at a time; ``weights`` (D, C) are those of the classes."""
    evaluated = engine.evaluate(rows)
    select = select_at_random(generator)
    row_of = torch.arange(len(weights), device=rows.device) // max(1, len(weights) // max(1, len(rows)))
    x, classes = rows[row_of], torch.full_like(row_of, NO_CLASS)
    for part in torch.arange(len(weights), device=rows.device).split(block):
        joint = weights[part] + evaluated.log_roots[row_of[part]]
        possible = (joint > -torch.inf).any(1)
        draw = part[possible]
        classes[draw] = select(joint[possible])
        x[draw] = evaluated.complete(
            row_of[draw], classes[draw], select, lambda family, parameters: family.sample(parameters, generator)
        )
    return Samples(x, classes)


def select_at_random(generator: torch.Generator) -> Select:
    """Choose one of the terms (M, K) with probabilities in proportion.

    One random number a choice, looked up among the cumulated terms: many times faster than one for each term.
    """

    def select(log_terms: Tensor) -> Tensor:
        terms = torch.softmax(log_terms, dim=1)
        cumulated = terms.cumsum(1)
        place = torch.empty_like(cumulated[:, -1:]).uniform_(generator=generator)
        # Above 0 and up to the total, so that a term of 0 is never the first to reach it ...
        chosen = torch.searchsorted(cumulated, (1.0 - place) * cumulated[:, -1:]).squeeze(1)
        chosen.clamp_(max=terms.shape[1] - 1)
        # ... unless parallel sums were rounded out of order.
        return torch.where(terms.gather(1, chosen.unsqueeze(1)).squeeze(1) > 0, chosen, terms.argmax(1))

    return select


def _generator(circuit: Circuit | Graph, seed: int) -> torch.Generator:
    return torch.Generator(circuit.device).manual_seed(check_count("seed", seed, minimum=0))


def _block(circuit: Circuit | Graph, engine: Engine) -> int:
    return chunk_rows(circuit, engine.entries_per_draw, None)
