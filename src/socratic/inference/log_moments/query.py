"""The query: rows in, the class posterior out."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.inference.leaf_uncertainty import LeafUncertainty
from socratic.inference.likelihood import log_likelihood
from socratic.inference.log_moments.algebra import LogMomentAlgebra, LogMoments, numbers_per_row
from socratic.inference.log_moments.masks import N_SHARES
from socratic.inference.log_moments.root import root_quadrature
from socratic.inference.posterior import Posterior, class_shares, entropy
from socratic.inference.results import MaskKind
from socratic.inference.rows import chunk_rows, map_chunks, values_per_row
from socratic.inference.walk import walk
from socratic.numerics import is_recording

SHARP_CURVATURE = 0.7
"""Curvature, in nats, from which a row is taken again with displaced children: below, the expansion is closer."""


def log_moment_posterior(
    circuit: Circuit,
    rows: Tensor,
    log_prior: Tensor,
    *,
    dropout: float,
    masks: MaskKind,
    root_dropout: bool,
    leaf_uncertainty: LeafUncertainty,
    chunk_size: int | None,
) -> Posterior:
    """The class posterior over dropout masks, by log-moment propagation.

    Every row is taken by expansions first. Where these are far from linear (a row of a sharp circuit), it is taken
    again with displaced children. Whether it is depends on the row alone. Arguments are checked by the caller.
    """
    if dropout == 0.0 and leaf_uncertainty.relative is None:
        return _certain(circuit, rows, log_prior, chunk_size)
    weights = circuit.weights()

    def roots(leaves: LogMoments, displaced: bool) -> LogMoments:
        return walk(circuit, leaves, weights, LogMomentAlgebra(dropout, masks, root_dropout, displaced))

    def query(start: int, stop: int) -> Posterior:
        prior = leaf_uncertainty.of_rows(start, stop, matrix=True)
        leaves = LogMoments.of_leaves(circuit.leaves.log_density(rows[start:stop]), prior)
        found = roots(leaves, displaced=False)
        posterior = root_quadrature(found, log_prior, dropout, masks)
        if is_recording(rows):
            return posterior  # which rows are sharp cannot be looked at
        sharp = (found.curvature.amax(0) > SHARP_CURVATURE).nonzero().squeeze(-1)
        if not len(sharp):
            return posterior
        again = root_quadrature(roots(leaves.of_rows(sharp), displaced=True), log_prior, dropout, masks)
        return _replaced(posterior, sharp, again)

    size = chunk_rows(circuit, _numbers_per_row(circuit), chunk_size)
    return Posterior.concatenate(map_chunks(query, len(rows), size))


def _replaced(posterior: Posterior, places: Tensor, other: Posterior) -> Posterior:
    """The posterior with the rows at ``places`` taken from another one."""
    parts: dict[str, Any] = {}
    for field in fields(Posterior):
        value, new = getattr(posterior, field.name), getattr(other, field.name)
        parts[field.name] = value.index_copy(0, places, new) if isinstance(value, Tensor) else value
    return Posterior(**parts)


def _certain(circuit: Circuit, rows: Tensor, log_prior: Tensor, chunk_size: int | None) -> Posterior:
    """The plain posterior: without dropout there is nothing to average over."""
    log_joint = log_likelihood(circuit, rows, chunk_size=chunk_size) + log_prior
    mean = class_shares(log_joint, log_prior)
    dead = (log_joint == -torch.inf).all(-1).to(mean.dtype)
    doubt = entropy(mean)
    return Posterior(mean, torch.zeros_like(mean), doubt, torch.zeros_like(doubt), dead, "log-moments")


def _numbers_per_row(circuit: Circuit) -> int:
    """Numbers that the walk holds for one row."""
    layers = [*circuit.inner_layers(), *circuit.root_branches()]
    states = sum(numbers_per_row(layer.n_folds, layer.n_nodes, min(N_SHARES, layer.n_children)) for layer in layers)
    return values_per_row(circuit) + 2 * states
