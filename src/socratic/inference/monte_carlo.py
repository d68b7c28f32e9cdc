"""Monte Carlo dropout: the class likelihoods and posterior under sampled dropout masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.draws import draw_dropped
from socratic.errors import check_count, check_rate
from socratic.inference.dropout import Dropout, MaskKind
from socratic.inference.engine import Engine
from socratic.inference.kinds import engine_of
from socratic.inference.passes import balanced_passes, independent_passes
from socratic.inference.posterior import Posterior, class_shares, entropy, log_class_prior
from socratic.inference.rows import check_rows, map_chunks
from socratic.numerics import scale_dtype, sqrt_or_zero


@dataclass(frozen=True)
class SampledMasks:
    """Which masks are sampled, and how; see :func:`monte_carlo_dropout`."""

    dropout: Dropout
    n_passes: int
    leaf_dropout: float = 0.0
    balanced: bool = False
    seed: int = 0

    @classmethod
    def check(cls, dropout: Dropout, n_passes: Any, leaf_dropout: Any, balanced: bool, seed: Any) -> SampledMasks:
        """Check what the user gave."""
        rate = check_rate("leaf_dropout", leaf_dropout)
        return cls(dropout, check_count("n_passes", n_passes), rate, balanced, check_count("seed", seed, minimum=0))

    @torch.no_grad()
    def passes(self, engine: Engine, rows: Tensor) -> Iterator[Tensor]:
        """Log-likelihoods (N, C) of checked rows, one pass at a time."""
        generator = torch.Generator(rows.device).manual_seed(self.seed)
        evaluation = engine.masked(rows, self.dropout)
        draw = balanced_passes if self.balanced else independent_passes
        for dropped in draw(evaluation.mask_shapes, self.dropout.rate, self.n_passes, generator):
            leaves = None
            if self.leaf_dropout > 0.0:
                leaves = [draw_dropped(shape, self.leaf_dropout, generator) for shape in evaluation.leaf_mask_shapes]
            yield evaluation.log_likelihood(dropped, leaves)

    def posterior(self, engine: Engine, rows: Tensor, log_prior: Tensor, chunk_size: int | None) -> Posterior:
        """The class posterior of checked rows."""

        def query(start: int, stop: int) -> Posterior:
            log_values = self.passes(engine, rows[start:stop])
            return summarise_passes((log_value + log_prior for log_value in log_values), log_prior)

        return Posterior.concatenate(map_chunks(query, rows, engine.entries_per_row, chunk_size))


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
    sampled = SampledMasks.check(masked, n_passes, leaf_dropout, balanced, seed)
    return sampled.passes(engine_of(circuit), check_rows(circuit, x))


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
    sampled = SampledMasks.check(masked, n_passes, leaf_dropout, balanced, seed)
    engine = engine_of(circuit)
    rows = check_rows(circuit, x)
    return sampled.posterior(engine, rows, log_class_prior(class_prior, circuit.n_classes, rows), chunk_size)


def summarise_passes(log_joints: Iterator[Tensor], log_prior: Tensor) -> Posterior:
    """Moments of the posterior over passes in which a class is alive, from log p(x, class) of each pass."""
    n_passes = 0
    total = square = within = alive_count = torch.zeros((), dtype=scale_dtype(log_prior), device=log_prior.device)
    for log_joint in log_joints:
        living = (log_joint != -torch.inf).any(-1, keepdim=True)
        posterior = class_shares(log_joint, log_prior).to(total.dtype) * living
        total, square = total + posterior, square + posterior * posterior
        within = within + entropy(posterior)
        alive_count = alive_count + living
        n_passes += 1
    count = alive_count.clamp_min(1.0)
    mean = total / count
    std = sqrt_or_zero(square / count - mean * mean)
    alive, dead = alive_count.squeeze(-1) > 0, 1.0 - alive_count.squeeze(-1) / n_passes
    return Posterior.of_masks(mean, std, within / count.squeeze(-1), alive, dead, log_prior, "monte-carlo")
