"""Passes: the class likelihoods and posterior under sampled dropout masks, or with sampled weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.draws import draw_dropped, draw_log_gammas
from socratic.errors import check_count, check_rate
from socratic.inference.doubt import Doubt, check_doubt
from socratic.inference.dropout import Dropout, MaskKind
from socratic.inference.engine import Engine, MaskDraw, MaskedEvaluation
from socratic.inference.kinds import engine_of
from socratic.inference.passes import balanced_passes, independent_passes
from socratic.inference.posterior import Posterior, class_shares, entropy, log_class_prior
from socratic.inference.rows import check_rows, map_chunks
from socratic.numerics import finite_or_zero, scale_dtype, sqrt_or_zero


@dataclass(frozen=True)
class Passes:
    """What is sampled, and how; see :func:`monte_carlo_dropout`."""

    doubt: Doubt
    n_passes: int
    leaf_dropout: float = 0.0
    balanced: bool = False
    seed: int = 0

    @classmethod
    def check(cls, doubt: Doubt, n_passes: Any, leaf_dropout: Any, balanced: bool, seed: Any) -> Passes:
        """Check what the user gave."""
        rate = check_rate("leaf_dropout", leaf_dropout)
        if not isinstance(doubt, Dropout) and (balanced or rate > 0.0):
            raise ValueError("balanced and leaf_dropout are for dropout; a weight posterior has no masks to drop by")
        return cls(doubt, check_count("n_passes", n_passes), rate, balanced, check_count("seed", seed, minimum=0))

    @torch.no_grad()
    def of_rows(self, engine: Engine, rows: Tensor) -> Iterator[Tensor]:
        """Log-likelihoods (P, N, C) of checked rows, as many passes as are evaluated at a time."""
        generator = torch.Generator(rows.device).manual_seed(self.seed)
        if isinstance(self.doubt, Dropout):
            masked = engine.masked(rows, self.doubt)
            masks = self._masks(masked, self.doubt.rate, generator)
            while draws := list(islice(masks, masked.passes_at_a_time)):
                yield masked.log_likelihood(draws)
            return
        reweighted = engine.reweighted(rows, self.doubt)
        weights = ([draw_log_gammas(part, generator) for part in reweighted.parameters] for _ in range(self.n_passes))
        while drawn := list(islice(weights, reweighted.passes_at_a_time)):
            yield reweighted.log_likelihood(drawn)

    def _masks(self, evaluation: MaskedEvaluation, rate: float, generator: torch.Generator) -> Iterator[MaskDraw]:
        draw = balanced_passes if self.balanced else independent_passes
        for dropped in draw(evaluation.mask_shapes, rate, self.n_passes, generator):
            leaves = None
            if self.leaf_dropout > 0.0:
                leaves = [draw_dropped(shape, self.leaf_dropout, generator) for shape in evaluation.leaf_mask_shapes]
            yield MaskDraw(dropped, leaves)

    def posterior(self, engine: Engine, rows: Tensor, log_prior: Tensor, chunk_size: int | None) -> Posterior:
        """The class posterior of checked rows."""

        def query(start: int, stop: int) -> Posterior:
            log_values = self.of_rows(engine, rows[start:stop])
            return summarise_passes((log_value + log_prior for log_value in log_values), log_prior)

        return Posterior.concatenate(map_chunks(query, rows, engine.entries_per_row, chunk_size))


def passes(
    circuit: Circuit | Graph,
    x: Any,
    doubt: Doubt,
    *,
    n_passes: int = 100,
    leaf_dropout: float = 0.0,
    balanced: bool = False,
    seed: int = 0,
) -> Iterator[Tensor]:
    """Log-likelihoods (N, C) in ``n_passes`` samples of what is uncertain, one pass at a time.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    doubt : Dropout or WeightPosterior
        What is sampled: masks, or weights from their Dirichlet distributions. A pass has one sample for all rows.
    n_passes, seed : int
        Number and seed of the samples. They depend on nothing else, so a row's values do not depend on other rows.
    leaf_dropout, balanced
        For dropout, as in :func:`~socratic.monte_carlo_dropout`.
    """
    sampled = Passes.check(check_doubt(doubt), n_passes, leaf_dropout, balanced, seed)
    engine = engine_of(circuit)
    doubt.check_shapes(engine.sum_shapes)
    return chain.from_iterable(sampled.of_rows(engine, check_rows(circuit, x)))


def sample_log_likelihoods(
    circuit: Circuit | Graph,
    x: Any,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    n_passes: int = 100,
    leaf_dropout: float = 0.0,
    root_dropout: bool = False,
    balanced: bool = False,
    seed: int = 0,
) -> Iterator[Tensor]:
    """Log-likelihoods (N, C) under ``n_passes`` sampled masks, one pass at a time.

    A pass draws one set of masks for all rows, from the seed alone. A class that lost everything has minus
    infinity. See :func:`monte_carlo_dropout` for the parameters.
    """
    masked = Dropout.check(dropout, masks, root_dropout)
    return passes(circuit, x, masked, n_passes=n_passes, leaf_dropout=leaf_dropout, balanced=balanced, seed=seed)


def monte_carlo_dropout(
    circuit: Circuit | Graph,
    x: Any,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    n_passes: int = 100,
    leaf_dropout: float = 0.0,
    root_dropout: bool = False,
    balanced: bool = False,
    class_prior: Sequence[float] | Tensor | None = None,
    seed: int = 0,
    chunk_size: int | None = None,
) -> Posterior:
    """The class posterior over dropout masks, by sampling.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    dropout : float
        Probability of dropping a child from a sum, in [0, 1).
    masks : {"edge", "unit"}
        One mask for each edge of each sum, or one for each child, shared by all sums of its region; see
        :func:`~socratic.tdi`.
    n_passes : int
        Number of sampled masks.
    leaf_dropout : float
        Probability of marginalising a univariate leaf.
    root_dropout : bool
        Whether the class roots drop children too.
    balanced : bool
        Whether each child is dropped in its share of the passes, as nearly as whole numbers allow, instead of
        independently in each pass. As fast, and on trained circuits as close to the truth as two to four times as many.
    class_prior : (C,), optional
        Prior class probabilities; uniform by default.
    seed : int
        Seed of the masks. They depend on nothing else, so a row's answer does not depend on the other rows.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Posterior
        Conditional on at least one class root being alive; ``dead`` is the share of passes where none was.
        A row that is dead in every pass gets the prior.
    """
    masked = Dropout.check(dropout, masks, root_dropout)
    sampled = Passes.check(masked, n_passes, leaf_dropout, balanced, seed)
    engine = engine_of(circuit)
    rows = check_rows(circuit, x)
    return sampled.posterior(engine, rows, log_class_prior(class_prior, circuit.n_classes, rows), chunk_size)


def summarise_passes(log_joints: Iterator[Tensor], log_prior: Tensor) -> Posterior:
    """Moments of the posterior over passes in which a class is alive, from log p(x, class) (P, N, C) of some at a time.

    What they give is not kept: many small results between large blocks that are freed break up the memory.
    """
    n_passes = 0
    total = square = within = alive_count = torch.zeros((), dtype=scale_dtype(log_prior), device=log_prior.device)
    density = density_square = total
    centre = None  # squares of log-densities, relative to 0, would lose digits
    for log_joint in log_joints:
        living = (log_joint != -torch.inf).any(-1, keepdim=True)
        posterior = class_shares(log_joint, log_prior).to(total.dtype) * living
        total, square = total + posterior.sum(0), square + (posterior * posterior).sum(0)
        within = within + entropy(posterior).sum(0)
        log_density = finite_or_zero(torch.logsumexp(log_joint.to(total.dtype), dim=-1, keepdim=True))
        centre = log_density[0] if centre is None else centre
        deviation = (log_density - centre) * living
        density, density_square = density + deviation.sum(0), density_square + (deviation * deviation).sum(0)
        alive_count = alive_count + living.sum(0)
        n_passes += len(log_joint)
    count = alive_count.clamp_min(1.0)
    mean = total / count
    std = sqrt_or_zero(square / count - mean * mean)
    spread = sqrt_or_zero((density_square / count - (density / count) ** 2).squeeze(-1))
    alive, dead = alive_count.squeeze(-1) > 0, 1.0 - alive_count.squeeze(-1) / n_passes
    return Posterior.of_masks(mean, std, within / count.squeeze(-1), alive, dead, log_prior, "monte-carlo", spread)
