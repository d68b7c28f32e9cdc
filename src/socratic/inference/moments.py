"""Moments of the class likelihoods over what is uncertain; tractable dropout inference is those over dropout masks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.errors import check_choice, check_count
from socratic.inference.doubt import Doubt, check_doubt
from socratic.inference.dropout import Dropout, MaskKind
from socratic.inference.engine import Engine, MomentPlan, MomentsOfRows
from socratic.inference.kinds import engine_of
from socratic.inference.leaf_uncertainty import LeafUncertainty, LeafVariance
from socratic.inference.results import COVARIANCE_KINDS, CovarianceKind, Method, Moments, NodeMoments
from socratic.inference.rows import check_rows, map_chunks
from socratic.inference.saturation import warn_of_saturation
from socratic.numerics import sqrt_or_zero


def tdi(
    circuit: Circuit | Graph,
    x: Any,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    covariance: CovarianceKind = "exact",
    root_dropout: bool = False,
    leaf_variance: LeafVariance | None = None,
    leaf_covariance: Tensor | None = None,
    budget: int | None = None,
    chunk_size: int | None = None,
) -> Moments:
    """Tractable dropout inference: moments of the class likelihoods over all dropout masks, in one pass.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    dropout : float
        Probability p of dropping a child from a sum, in [0, 1).
    masks : {"edge", "unit"}
        One mask for each edge of each sum (the paper's equations), or one for each child, shared by all sums
        of its region (what dropout in a layer does); in a graph, by all sums over the same children.
    covariance : {"exact", "independent", "upper"}
        Exact covariances; none, as if shared nodes were copies (the paper's "copy-paste", a lower bound on
        the variance); or the Cauchy-Schwarz bound (an upper bound on the variance).
    root_dropout : bool
        Whether the class roots drop children too. Without it a root sum keeps its children wherever it occurs.
    leaf_variance : float, Tensor or mapping of int to float, optional
        Prior relative variance (Var / mean^2) of the leaves, broadcast to (N, L, I) with L leaf regions in
        the order of ``circuit.leaves.scopes``; for a graph to (N, L) with L leaves in the order of ``graph.nodes``,
        each independent of the others. By the numbers of columns it is that of the densities of their values: a leaf
        over several columns multiplies the 1 + variance of those that are not missing.
    leaf_covariance : Tensor, optional
        Prior relative covariance between the leaves of a region, broadcast to (N, L, I, I); its diagonal is
        the variance. Give this or ``leaf_variance``. For a graph, (N, L, L) over its leaves, 0 between leaves of
        different variables.
    budget : int, optional
        For graphs: how many terms may be spent on nodes that share randomness before the result is bounds instead;
        200,000 by default.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Moments
    """
    masked = Dropout.check(dropout, masks, root_dropout)
    engine, rows, leaves = _check(circuit, x, covariance, leaf_variance, leaf_covariance)
    return class_moments(engine, rows, masked, leaves, covariance, _check_budget(budget), chunk_size)


def moments(
    circuit: Circuit | Graph,
    x: Any,
    doubt: Doubt,
    *,
    covariance: CovarianceKind = "exact",
    leaf_variance: LeafVariance | None = None,
    leaf_covariance: Tensor | None = None,
    budget: int | None = None,
    chunk_size: int | None = None,
) -> Moments:
    """Mean and covariance of the class likelihoods over what is uncertain, in one pass.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value.
    doubt : Dropout or WeightPosterior
        What is uncertain: which children sums keep, or what their weights are.
    covariance, leaf_variance, leaf_covariance, budget, chunk_size
        As in :func:`~socratic.tdi`, which is this function for dropout.

    Returns
    -------
    Moments
    """
    check_doubt(doubt)
    engine, rows, leaves = _check(circuit, x, covariance, leaf_variance, leaf_covariance)
    return class_moments(engine, rows, doubt, leaves, covariance, _check_budget(budget), chunk_size)


def class_moments(
    engine: Engine,
    rows: Tensor,
    doubt: Doubt,
    leaves: LeafUncertainty,
    covariance: CovarianceKind = "exact",
    budget: int | None = None,
    chunk_size: int | None = None,
    stacklevel: int = 4,
) -> Moments:
    """:func:`moments` of checked arguments; ``stacklevel`` is how far up the user is who may have to be warned."""
    doubt.check_shapes(engine.sum_shapes)
    plan = engine.moments(doubt, covariance, leaves=leaves.relative, budget=budget)
    found = _evaluate(plan, rows, leaves, chunk_size)
    warn_of_saturation(plan.peaks, rows, engine.kind, doubt.remedy, stacklevel=stacklevel)
    return Moments(
        found.log_mean,
        class_matrix(plan.method, found.relative),
        doubt,
        covariance,
        plan.method,
        plan.reason,
        None if found.upper is None else (found.relative, found.upper),
    )


def node_moments(
    graph: Graph,
    x: Any,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    root_dropout: bool = False,
    budget: int | None = None,
) -> NodeMoments:
    """Mean and variance of every node over all dropout masks; those of the roots are those of :func:`socratic.tdi`.

    Parameters
    ----------
    graph : Graph
        Of a circuit pass ``circuit.to_graph()`` and keep it: the result has the order of its ``nodes``.
    x : array-like (N, V)
        Rows; NaN is a missing value.
    dropout, masks, root_dropout, budget
        As in :func:`socratic.tdi`.

    Returns
    -------
    NodeMoments
    """
    masked = Dropout.check(dropout, masks, root_dropout)
    engine = engine_of(graph)
    plan = engine.node_moments(masked, _check_budget(budget))
    rows = check_rows(graph, x)
    found = _evaluate(plan, rows, LeafUncertainty(None), None)
    warn_of_saturation(plan.peaks, rows, engine.kind, masked.remedy, stacklevel=3)
    upper = found.relative if found.upper is None else found.upper  # what is exact is both of its bounds
    bounds = (found.relative, upper)
    return NodeMoments(found.log_mean, bounds, masked.rate, masked.masks, masked.root, plan.method, plan.reason)


def _check(
    circuit: Any, x: Any, covariance: Any, leaf_variance: LeafVariance | None, leaf_covariance: Tensor | None
) -> tuple[Engine, Tensor, LeafUncertainty]:
    """Check what both ways to ask for moments are given."""
    check_choice("covariance", covariance, COVARIANCE_KINDS)
    engine = engine_of(circuit)
    rows = check_rows(circuit, x)
    return engine, rows, LeafUncertainty.check(engine, rows, leaf_variance, leaf_covariance)


def _check_budget(budget: Any) -> int | None:
    return None if budget is None else check_count("budget", budget, minimum=0)


def _evaluate(plan: MomentPlan, rows: Tensor, leaves: LeafUncertainty, chunk_size: int | None) -> MomentsOfRows:
    """The moments of all rows."""

    def query(start: int, stop: int) -> MomentsOfRows:
        return plan.of_rows(rows[start:stop], leaves.of_rows(start, stop))

    parts = map_chunks(query, rows, plan.entries_per_row, chunk_size)
    log_mean, relative, upper = zip(*parts, strict=True)
    return MomentsOfRows(torch.cat(log_mean), torch.cat(relative), None if upper[0] is None else torch.cat(upper))


def class_matrix(method: Method, relative: Tensor) -> Tensor:
    """Relative covariance of the class roots (N, C, C), symmetric to the last digit, from what is known of it."""
    if relative.ndim == 3:
        return 0.5 * (relative + relative.mT)
    if method == "bounds":
        return relative.new_full((*relative.shape, relative.shape[-1]), torch.nan)
    if method == "upper":
        deviation = sqrt_or_zero(relative)
        return deviation.unsqueeze(-1) * deviation.unsqueeze(-2)
    return torch.diag_embed(relative)
