"""Sampling: rows drawn from the roots down, with and without evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.leaf_set import LeafValue
from socratic.errors import check_count
from socratic.families import Family, Parameters
from socratic.inference.engine import Engine, Select
from socratic.inference.kinds import engine_of
from socratic.inference.queries.classes import ClassIndex, ClassPrior, log_class_weights
from socratic.inference.queries.randomness import Randomness
from socratic.inference.rows import check_rows, map_chunks
from socratic.memory import rows_at_a_time
from socratic.notebook import of_variables, table_of_rows

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

    def _repr_html_(self) -> str:
        x, classes = self.x.flatten(0, -2), self.classes.flatten()
        note = "Drawn rows." if self.x.ndim == 2 else f"Drawn rows, {self.x.shape[1]:,} for each row of evidence."
        return table_of_rows({**of_variables(x), "class": classes}, note, n_rows=len(x))


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
        Decides all draws: the first are the same however many are asked for.
    """
    engine = engine_of(circuit)
    n_samples = check_count("n_samples", n_samples, minimum=0)
    weights = log_class_weights(circuit, n_samples, class_index, class_prior).unsqueeze(0)
    unknown = torch.full((1, circuit.n_features), torch.nan, dtype=circuit.dtype, device=circuit.device)
    drawn = _draw(engine, unknown, weights, 0, check_count("seed", seed, minimum=0))
    return Samples(drawn.x.flatten(0, 1), drawn.classes.flatten())


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
        Decides all draws: the first of a row are the same however many are asked for, and in chunks of any size
        (but for rounding, which can tip a choice between almost equal chances).
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.
    """
    engine = engine_of(circuit)
    rows = check_rows(circuit, evidence)
    n_samples = check_count("n_samples", n_samples, minimum=0)
    weights = log_class_weights(circuit, len(rows), class_index, class_prior).unsqueeze(1)
    seed = check_count("seed", seed, minimum=0)

    def query(start: int, stop: int) -> Samples:
        of_draws = weights[start:stop].expand(-1, n_samples, -1)
        return _draw(engine, rows[start:stop], of_draws, start, seed)

    parts = map_chunks(query, rows, engine.entries_per_evaluated_row, chunk_size)
    return Samples(torch.cat([part.x for part in parts]), torch.cat([part.classes for part in parts]))


def _draw(engine: Engine, rows: Tensor, weights: Tensor, first_row: int, seed: int) -> Samples:
    """Draw M completions of each of N rows, as many at a time as fit in memory.

    ``weights`` (N, M, C) are those of the classes, and ``first_row`` is the number of the first row among all.
    """
    n_rows, n_draws, _ = weights.shape
    evaluated = engine.evaluate(rows)
    x = rows.repeat_interleave(n_draws, 0)
    classes = torch.full((n_rows * n_draws,), NO_CLASS, device=rows.device)
    for part in torch.arange(len(classes), device=rows.device).split(rows_at_a_time(rows, engine.entries_per_draw)):
        row, number = part // n_draws, part % n_draws
        joint = weights[row, number] + evaluated.log_roots[row]
        possible = (joint > -torch.inf).any(1)
        row, number, draw = row[possible], number[possible], part[possible]
        random = Randomness(seed, first_row + row, number)
        select = select_at_random(random)
        each = torch.arange(len(row), device=row.device)
        classes[draw] = select(joint[possible], each, torch.zeros_like(each))
        x[draw] = evaluated.complete(row, classes[draw], select, sample_leaves(random))
    return Samples(x.unflatten(0, (n_rows, n_draws)), classes.view(n_rows, n_draws))


def select_at_random(random: Randomness) -> Select:
    """Choose one of the terms (M, K) with probabilities in proportion.

    One random number a choice, looked up among the cumulated terms: many times faster than one for each term.
    """

    def select(log_terms: Tensor, draw: Tensor, place: Tensor) -> Tensor:
        terms = torch.softmax(log_terms, dim=1)
        cumulated = terms.cumsum(1)
        # Above 0 and up to the total, so that a term of 0 is never the first to reach it ...
        wanted = random.uniform(draw, place).to(terms.dtype).unsqueeze(1) * cumulated[:, -1:]
        chosen = torch.searchsorted(cumulated, wanted).squeeze(1).clamp_(max=terms.shape[1] - 1)
        if terms.device.type == "cpu":
            return chosen
        # ... unless parallel sums, as on a GPU, were rounded out of order.
        return torch.where(terms.gather(1, chosen.unsqueeze(1)).squeeze(1) > 0, chosen, terms.argmax(1))

    return select


def sample_leaves(random: Randomness) -> LeafValue:
    """Draw a value from each leaf."""

    def value(family: Family, parameters: Parameters, draw: Tensor, variable: Tensor) -> Tensor:
        return family.quantile(parameters, random.uniform(draw, -1 - variable))  # choices have places from 0 on

    return value
