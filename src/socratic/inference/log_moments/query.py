"""The query: rows in, the class posterior out."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.inference.leaf_uncertainty import LeafUncertainty
from socratic.inference.likelihood import log_likelihood
from socratic.inference.log_moments.algebra import LogMomentAlgebra, LogMoments, numbers_per_row
from socratic.inference.log_moments.masks import N_SHARES
from socratic.inference.log_moments.root import root_quadrature, roots_lost
from socratic.inference.posterior import Posterior, class_shares, entropy
from socratic.inference.results import MaskKind
from socratic.inference.rows import chunk_rows, map_chunks, values_per_row
from socratic.inference.walk import walk


class LogMomentPosterior(NamedTuple):
    """The class posterior, and how far from linear each row's layers are."""

    posterior: Posterior
    curvature: Tensor  # (N,), in nats: where it is large, expansions fail; infinite where a sum is lost


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
) -> LogMomentPosterior:
    """The class posterior over dropout masks, by log-moment propagation. Arguments are checked by the caller."""
    if dropout == 0.0 and leaf_uncertainty.relative is None:
        return LogMomentPosterior(_certain(circuit, rows, log_prior, chunk_size), rows.new_zeros(len(rows)))
    weights = circuit.weights()
    algebra = LogMomentAlgebra(dropout, masks, root_dropout)

    def query(start: int, stop: int) -> LogMomentPosterior:
        prior = leaf_uncertainty.of_rows(start, stop, matrix=True)
        leaves = LogMoments.of_leaves(circuit.leaves.log_density(rows[start:stop]), prior)
        roots = walk(circuit, leaves, weights, algebra)
        curvature = roots.curvature.amax(0).masked_fill(roots_lost(roots, dropout, masks), math.inf)
        return LogMomentPosterior(root_quadrature(roots, log_prior, dropout, masks), curvature)

    found = map_chunks(query, len(rows), chunk_rows(circuit, _numbers_per_row(circuit), chunk_size))
    return LogMomentPosterior(
        Posterior.concatenate([part.posterior for part in found]), torch.cat([part.curvature for part in found])
    )


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
