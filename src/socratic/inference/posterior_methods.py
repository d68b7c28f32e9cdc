"""The class posterior over dropout masks: one question, several ways to answer it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_choice, check_count, check_rate
from socratic.inference.leaf_uncertainty import LeafUncertainty
from socratic.inference.log_moments import log_moment_posterior
from socratic.inference.moments import tdi
from socratic.inference.monte_carlo import monte_carlo_dropout
from socratic.inference.posterior import Posterior, log_class_prior
from socratic.inference.results import MASK_KINDS, MaskKind
from socratic.inference.rows import check_rows
from socratic.numerics import is_recording

PosteriorMethod = Literal["auto", "log-moments", "expansion", "monte-carlo"]
POSTERIOR_METHODS: tuple[PosteriorMethod, ...] = ("auto", "log-moments", "expansion", "monte-carlo")

SHARP_CURVATURE = 0.5
"""Curvature of a row's layers, in nats, from which ``"auto"`` takes balanced passes: below, log-moments are closer."""

N_SHARP_PASSES = 73
"""Balanced passes for such rows: as close as 100 and more independent ones. A prime number balances them exactly."""

SHARP_METHOD = "log-moments, balanced monte-carlo where sharp"
"""What a posterior says that was computed by both."""


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
    leaf_variance: float | Tensor | None = None,
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
    method : {"auto", "log-moments", "expansion", "monte-carlo"}
        ``"log-moments"``: one deterministic pass that propagates mean and covariance of the log-likelihoods.
        ``"expansion"``: exact moments of the likelihoods and a second-order expansion (:func:`~socratic.tdi`), good
        only where no single child holds much of a sum. ``"monte-carlo"``: ``n_passes`` sampled masks.
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
    dropout = check_rate("dropout", dropout)
    check_choice("masks", masks, MASK_KINDS)
    check_choice("method", method, POSTERIOR_METHODS)
    check_count("n_passes", n_passes)
    check_count("seed", seed, minimum=0)
    rows = check_rows(circuit, x)
    log_prior = log_class_prior(class_prior, circuit.n_classes, rows)
    if isinstance(circuit, Graph) and method == "log-moments":
        raise ValueError("method='log-moments' needs a Circuit; for a Graph use 'expansion', 'monte-carlo' or 'auto'")
    uncertain_leaves = leaf_variance is not None or leaf_covariance is not None

    def sampled(some: Tensor, n_passes: int, *, balanced: bool) -> Posterior:
        return monte_carlo_dropout(
            circuit,
            some,
            dropout=dropout,
            masks=masks,
            n_passes=n_passes,
            root_dropout=root_dropout,
            balanced=balanced,
            class_prior=class_prior,
            seed=seed,
            chunk_size=chunk_size,
        )

    if method == "monte-carlo":
        if uncertain_leaves:
            raise ValueError(
                "method='monte-carlo' samples masks only; leaf_variance and leaf_covariance need "
                "method='log-moments' or 'expansion'"
            )
        return sampled(rows, n_passes, balanced=balanced)
    if isinstance(circuit, Graph) and method == "auto" and not uncertain_leaves:
        return sampled(rows, N_SHARP_PASSES, balanced=True)
    if isinstance(circuit, Graph) or method == "expansion":
        moments = tdi(
            circuit,
            rows,
            dropout=dropout,
            masks=masks,
            root_dropout=root_dropout,
            leaf_variance=leaf_variance,
            leaf_covariance=leaf_covariance,
            chunk_size=chunk_size,
        )
        return moments.posterior(class_prior)
    posterior, curvature = log_moment_posterior(
        circuit,
        rows,
        log_prior,
        dropout=dropout,
        masks=masks,
        root_dropout=root_dropout,
        leaf_uncertainty=LeafUncertainty.check(circuit, rows, leaf_variance, leaf_covariance),
        chunk_size=chunk_size,
    )
    if method == "log-moments" or uncertain_leaves or is_recording(rows):
        return posterior
    sharp = (curvature > SHARP_CURVATURE).nonzero().squeeze(-1)
    if not len(sharp):
        return posterior
    return posterior.with_rows(sharp, sampled(rows[sharp], N_SHARP_PASSES, balanced=True), SHARP_METHOD)
