"""The class posterior over what is uncertain: one question, several ways to answer it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_choice
from socratic.inference.doubt import Doubt, check_doubt
from socratic.inference.dropout import Dropout, MaskKind
from socratic.inference.engine import Engine, LogMomentPosterior
from socratic.inference.kinds import engine_of
from socratic.inference.leaf_uncertainty import LeafUncertainty, LeafVariance
from socratic.inference.likelihood import class_log_likelihood
from socratic.inference.moments import class_moments
from socratic.inference.monte_carlo import Passes
from socratic.inference.posterior import Posterior, class_shares, entropy, log_class_prior
from socratic.inference.results import MATCH_KINDS
from socratic.inference.rows import check_rows, map_chunks
from socratic.tracing import is_recording

PosteriorMethod = Literal["auto", "log-moments", "log-normal", "expansion", "monte-carlo"]
POSTERIOR_METHODS: tuple[PosteriorMethod, ...] = ("auto", "log-moments", "log-normal", "expansion", "monte-carlo")

SHARP_CURVATURE = 0.5
"""Curvature of a row's layers, in nats, from which ``"auto"`` takes balanced passes: below, log-moments are closer."""

N_SHARP_PASSES = 73
"""Balanced passes for such rows: as close as 100 and more independent ones. A prime number balances them exactly."""

SHARP_METHOD = "log-moments, balanced monte-carlo where sharp"
"""What a posterior says that was computed by both."""

FAR_CURVATURE = 0.25
"""Curvature of a row, in nats, from which ``"auto"`` samples weights: below, log-moments order rows better."""

N_FAR_PASSES = 256
"""Samples of the weights for such rows."""

FAR_METHOD = "log-moments, monte-carlo where far from linear"
"""What a posterior over weights says that was computed by both."""


def dropout_posterior(
    circuit: Circuit | Graph,
    x: Any,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    method: PosteriorMethod = "auto",
    class_prior: Sequence[float] | Tensor | None = None,
    root_dropout: bool = False,
    n_passes: int = 100,
    balanced: bool = False,
    seed: int = 0,
    leaf_variance: LeafVariance | None = None,
    leaf_covariance: Tensor | None = None,
    chunk_size: int | None = None,
) -> Posterior:
    """Mean, deviation and entropy of the class posterior over all dropout masks.

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
    method : {"auto", "log-moments", "log-normal", "expansion", "monte-carlo"}
        ``"log-moments"``: one deterministic pass that propagates mean and covariance of the log-likelihoods.
        ``"expansion"``: exact moments of the likelihoods and a second-order expansion (:func:`~socratic.tdi`), good
        only where no single child holds much of a sum. ``"log-normal"``: the same moments, the likelihoods taken as
        log-normal. ``"monte-carlo"``: ``n_passes`` sampled masks.
        ``"auto"``: log-moments, except for rows on which that pass found itself far from linear (sharp circuits), or
        that lost a sum (rows far from the data): those take balanced passes. Which they are depends on the row alone.
        A graph, which has no log-moments, takes balanced passes, or expansion if leaves are uncertain. Gradients need a
        method by name.
    class_prior : (C,), optional
        Prior class probabilities; uniform by default.
    root_dropout : bool
        Whether the class roots drop children too.
    n_passes, seed : int
        Number and seed of the sampled masks, for ``"monte-carlo"``.
    balanced : bool
        Whether those are balanced, as in :func:`~socratic.monte_carlo_dropout`.
    leaf_variance, leaf_covariance : optional
        Prior uncertainty of the leaves, as in :func:`~socratic.tdi`; not for ``"monte-carlo"``.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Posterior
        Its ``method`` says which way was taken.
    """
    masked = Dropout.check(dropout, masks, root_dropout)
    sampled = Passes.check(masked, n_passes, 0.0, balanced, seed)
    return _posterior(circuit, x, sampled, method, class_prior, leaf_variance, leaf_covariance, chunk_size)


def class_posterior(
    circuit: Circuit | Graph,
    x: Any,
    doubt: Doubt,
    *,
    method: PosteriorMethod = "auto",
    class_prior: Sequence[float] | Tensor | None = None,
    n_passes: int = 100,
    balanced: bool = False,
    seed: int = 0,
    leaf_variance: LeafVariance | None = None,
    leaf_covariance: Tensor | None = None,
    chunk_size: int | None = None,
) -> Posterior:
    """Mean, deviation and entropy of the class posterior over what is uncertain, and how much log p(x) varies.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    doubt : Dropout or WeightPosterior
        What is uncertain: which children sums keep, or what their weights are.
    method : {"auto", "log-moments", "log-normal", "expansion", "monte-carlo"}
        ``"log-moments"``: one deterministic pass that propagates the covariance of the log-likelihoods.
        ``"log-normal"`` and ``"expansion"``: from the exact moments of the likelihoods (:func:`~socratic.moments`),
        taken as log-normal or by second-order expansion; good where variances are small. ``"monte-carlo"``:
        ``n_passes`` samples. ``"auto"``: log-moments, except for rows on which that pass found itself far from linear,
        which are sampled; of a graph whose moments would cost too much, all of them are. For dropout see
        :func:`~socratic.dropout_posterior`.
    class_prior : (C,), optional
        Prior class probabilities; uniform by default.
    n_passes, seed : int
        Number and seed of the samples, for ``"monte-carlo"``.
    balanced, leaf_variance, leaf_covariance, chunk_size
        As in :func:`~socratic.dropout_posterior`, which is this function for dropout.

    Returns
    -------
    Posterior
        Its ``method`` says which way was taken.
    """
    sampled = Passes.check(check_doubt(doubt), n_passes, 0.0, balanced, seed)
    return _posterior(circuit, x, sampled, method, class_prior, leaf_variance, leaf_covariance, chunk_size)


def _posterior(
    circuit: Circuit | Graph,
    x: Any,
    sampled: Passes,
    method: PosteriorMethod,
    class_prior: Sequence[float] | Tensor | None,
    leaf_variance: LeafVariance | None,
    leaf_covariance: Tensor | None,
    chunk_size: int | None,
) -> Posterior:
    """:func:`class_posterior`; to be called by what users call, for them to be warned where they are."""
    check_choice("method", method, POSTERIOR_METHODS)
    engine, doubt = engine_of(circuit), sampled.doubt
    doubt.check_shapes(engine.sum_shapes)
    rows = check_rows(circuit, x)
    log_prior = log_class_prior(class_prior, circuit.n_classes, rows)
    leaves = LeafUncertainty.check(engine, rows, leaf_variance, leaf_covariance)
    if method == "monte-carlo" and leaves.uncertain:
        raise ValueError(
            "method='monte-carlo' samples masks or weights only; leaf_variance and leaf_covariance need "
            "method='log-moments' or 'expansion'"
        )
    if method == "monte-carlo":
        return sampled.posterior(engine, rows, log_prior, chunk_size)
    few_passes = _passes_of_auto(doubt, sampled.seed)
    if method == "auto" and engine.no_log_moments(doubt, leaves=leaves.relative) is not None:
        method = "expansion"
        if not leaves.uncertain:
            return few_passes.posterior(engine, rows, log_prior, chunk_size)
    if method in MATCH_KINDS:
        found = class_moments(engine, rows, doubt, leaves, chunk_size=chunk_size, stacklevel=5)
        return found.posterior(class_prior, method=method)
    if method == "log-moments" or leaves.uncertain or is_recording(rows):
        return log_moment_posterior(engine, rows, doubt, leaves, log_prior, chunk_size).posterior
    limit, name = (SHARP_CURVATURE, SHARP_METHOD) if isinstance(doubt, Dropout) else (FAR_CURVATURE, FAR_METHOD)
    posterior, curvature = log_moment_posterior(engine, rows, doubt, leaves, log_prior, chunk_size, limit)
    sharp = (curvature > limit).nonzero().squeeze(-1)
    if not len(sharp):
        return posterior
    return posterior.with_rows(sharp, few_passes.posterior(engine, rows[sharp], log_prior, chunk_size), name)


def _passes_of_auto(doubt: Doubt, seed: int) -> Passes:
    """The samples of rows on which log-moments are not to be trusted."""
    if isinstance(doubt, Dropout):
        return Passes(doubt, N_SHARP_PASSES, balanced=True, seed=seed)
    return Passes(doubt, N_FAR_PASSES, seed=seed)


def log_moment_posterior(
    engine: Engine,
    rows: Tensor,
    doubt: Doubt,
    leaves: LeafUncertainty,
    log_prior: Tensor,
    chunk_size: int | None,
    limit: float | None = None,
) -> LogMomentPosterior:
    """The class posterior of checked rows by log-moment propagation, and the curvature of each.

    Rows whose curvature is above the limit may be left out; see :meth:`Engine.log_moments`.
    """
    plan = engine.log_moments(doubt, leaves=leaves.relative, limit=limit)
    if isinstance(doubt, Dropout) and doubt.rate == 0.0 and not leaves.uncertain:
        return LogMomentPosterior(_certain(engine, rows, log_prior, chunk_size), rows.new_zeros(len(rows)))

    def query(start: int, stop: int) -> LogMomentPosterior:
        return plan.of_rows(rows[start:stop], leaves.of_rows(start, stop), log_prior)

    posteriors, curvatures = zip(*map_chunks(query, rows, plan.entries_per_row, chunk_size), strict=True)
    return LogMomentPosterior(Posterior.concatenate(list(posteriors)), torch.cat(curvatures))


def _certain(engine: Engine, rows: Tensor, log_prior: Tensor, chunk_size: int | None) -> Posterior:
    """The plain posterior: where nothing is random there is nothing to average over."""
    log_joint = class_log_likelihood(engine, rows, rows.dtype, chunk_size) + log_prior
    mean = class_shares(log_joint, log_prior)
    dead = (log_joint == -torch.inf).all(-1).to(mean.dtype)
    doubt = entropy(mean)
    nothing = torch.zeros_like(doubt)
    return Posterior(mean, torch.zeros_like(mean), doubt, nothing, dead, "log-moments", nothing)
