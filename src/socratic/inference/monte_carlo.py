"""Monte Carlo dropout: the class likelihoods and posterior under sampled dropout masks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.graph import Graph
from socratic.errors import check_choice, check_count, check_rate
from socratic.inference.graph import graph_passes, graph_values_per_row
from socratic.inference.likelihood import LogValues, MaskedAlgebra
from socratic.inference.passes import balanced_passes, independent_passes
from socratic.inference.posterior import Posterior, class_shares, entropy, log_class_prior
from socratic.inference.results import MASK_KINDS, MaskKind
from socratic.inference.rows import check_rows, chunk_rows, map_chunks, values_per_row
from socratic.inference.walk import walk
from socratic.numerics import draw_dropped, scale_dtype, sqrt_or_zero


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
    dropout, leaf_dropout = check_rate("dropout", dropout), check_rate("leaf_dropout", leaf_dropout)
    check_choice("masks", masks, MASK_KINDS)
    check_count("n_passes", n_passes)
    generator = torch.Generator(circuit.device).manual_seed(check_count("seed", seed, minimum=0))
    rows = check_rows(circuit, x)
    if isinstance(circuit, Graph):
        return graph_passes(
            circuit,
            rows,
            dropout=dropout,
            masks=masks,
            n_passes=n_passes,
            leaf_dropout=leaf_dropout,
            root_dropout=root_dropout,
            balanced=balanced,
            generator=generator,
        )

    @torch.no_grad()
    def passes() -> Iterator[Tensor]:
        weights = circuit.weights()
        leaves = LogValues.rescale(circuit.leaves.log_density(rows))
        shapes = _mask_shapes(weights, masks, root_dropout)
        draw = balanced_passes if balanced else independent_passes
        for dropped in draw(shapes, dropout, n_passes, generator):
            values = leaves
            if leaf_dropout > 0.0:
                keep = [
                    (~draw_dropped((group.n_slots, circuit.leaves.n_nodes), leaf_dropout, generator)).to(rows.dtype)
                    for group in circuit.leaves.leaf_groups()
                ]
                values = LogValues.rescale(circuit.leaves.log_density(rows, keep))
            yield walk(circuit, values, _mask_weights(weights, dropped), MaskedAlgebra()).of_classes(rows.dtype)

    return passes()


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
    rows = check_rows(circuit, x)
    log_prior = log_class_prior(class_prior, circuit.n_classes, rows)

    def query(start: int, stop: int) -> Posterior:
        passes = sample_log_likelihoods(
            circuit,
            rows[start:stop],
            dropout=dropout,
            masks=masks,
            n_passes=n_passes,
            leaf_dropout=leaf_dropout,
            root_dropout=root_dropout,
            balanced=balanced,
            seed=seed,
        )
        return summarise_passes((log_value + log_prior for log_value in passes), log_prior)

    entries = graph_values_per_row(circuit) if isinstance(circuit, Graph) else values_per_row(circuit)
    size = chunk_rows(circuit, entries, chunk_size)
    return Posterior.concatenate(map_chunks(query, len(rows), size))


def _mask_shapes(weights: Weights, masks: MaskKind, root_dropout: bool) -> list[tuple[int, int, int]]:
    """Shapes of the masks: of each edge, or of all sums of a region alike."""
    layers = [*weights.layers, *(weights.roots if root_dropout else [])]
    return [(len(layer), layer.shape[1] if masks == "edge" else 1, layer.shape[2]) for layer in layers]


def _mask_weights(weights: Weights, dropped: list[Tensor]) -> Weights:
    """Drop children from sums by zeroing their weights; the roots keep theirs if there are no masks for them."""
    n_layers = len(weights.layers)
    layers = [layer.masked_fill(mask, 0.0) for layer, mask in zip(weights.layers, dropped[:n_layers], strict=True)]
    if len(dropped) == n_layers:
        return Weights(layers, weights.roots)
    return Weights(
        layers, [root.masked_fill(mask, 0.0) for root, mask in zip(weights.roots, dropped[n_layers:], strict=True)]
    )


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
