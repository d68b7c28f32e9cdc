"""Layered circuits under drawn masks, or with drawn weights: one walk takes up several passes.

Every region then has a fold for each pass, side by side, so that a layer of all passes is one step with more folds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.layers import SumProductLayer, join_branches, split_branches
from socratic.inference.dropout import Dropout
from socratic.inference.engine import MaskDraw
from socratic.inference.layered.algebra import LogAlgebra
from socratic.inference.layered.sum_product import log_sums_with_zeros
from socratic.inference.layered.values import LogValues, sum_repetitions
from socratic.inference.layered.walk import values_per_row, walk_layers
from socratic.inference.passes import Shape
from socratic.inference.weight_posterior import WeightPosterior
from socratic.memory import passes_at_a_time
from socratic.numerics import scale_dtype


class PassAlgebra(LogAlgebra):
    """Carries the log-values of several passes up, whose weights are (F P, S, K)."""

    def __init__(self, n_passes: int) -> None:
        super().__init__(log_sums_with_zeros, join=partial(_sum_repetitions, n_passes))
        self.n_passes = n_passes

    def log_likelihood(
        self, circuit: Circuit, leaves: Sequence[LogValues], weights: Weights, dtype: torch.dtype
    ) -> Tensor:
        """Log-likelihoods (P, N, C), from the leaves (F, I, N) of each pass."""
        start = LogValues(*map(_side_by_side, zip(*leaves, strict=True)))
        walked = walk_layers(circuit, start, weights, self, n_passes=self.n_passes)
        return self.join(walked.branches).of_classes(dtype).unflatten(0, (self.n_passes, -1))


class MaskAlgebra(PassAlgebra):
    """The same under masks, of weights (F, S, K) that all passes have in common.

    Parameters
    ----------
    n_passes : int
    dropped : dict
        For each layer that has masks those of all passes, (F, S, K) or (F, 1, K).
    """

    def __init__(self, n_passes: int, dropped: dict[SumProductLayer, Sequence[Tensor]]) -> None:
        super().__init__(n_passes)
        self.dropped = dropped

    def layer(
        self, layer: SumProductLayer, weights: Tensor, left: LogValues, right: LogValues | None, *, root: bool
    ) -> LogValues:
        """Log-values of the sums of one layer: its weights are masked now, and held for no longer."""
        return super().layer(layer, self._masked(layer, weights), left, right, root=root)

    def _masked(self, layer: SumProductLayer, weights: Tensor) -> Tensor:
        """Weights (F P, S, K), 0 for the children that are dropped."""
        if layer not in self.dropped:
            return _side_by_side([weights] * self.n_passes)
        # A product with numbers, which are booleans as they lie in memory, is many times faster than filling in.
        kept = (~_side_by_side(self.dropped[layer])).view(torch.uint8)
        if self.n_passes == 1:
            return weights * kept
        return (weights.unsqueeze(1) * kept.unflatten(0, (-1, self.n_passes))).flatten(0, 1)


class LayeredMaskedEvaluation:
    """A layered circuit under masks; see :class:`~socratic.inference.engine.MaskedEvaluation`."""

    def __init__(self, circuit: Circuit, weights: Weights, rows: Tensor, dropout: Dropout) -> None:
        self.circuit, self.weights, self.rows = circuit, weights, rows
        self.leaves = LogValues.rescale(circuit.leaves.log_density(rows))
        self.masked_layers = [*circuit.inner_layers(), *(circuit.root_branches() if dropout.root else [])]
        self.mask_shapes: Sequence[Shape] = [
            (layer.n_folds, 1 if dropout.shared else layer.n_nodes, layer.n_children) for layer in self.masked_layers
        ]
        self.leaf_mask_shapes: Sequence[Shape] = [
            (group.n_slots, circuit.leaves.n_nodes) for group in circuit.leaves.leaf_groups()
        ]
        # A boolean is a byte, and is there three times: as it is drawn, beside those of other passes, and negated.
        n_masks = sum(math.prod(shape) for shape in self.mask_shapes)
        most_weights = max(layer.numel() for layer in [*weights.layers, *weights.roots])
        self.passes_at_a_time = passes_at_a_time(n_masks + most_weights + _values(circuit, rows), rows)

    def log_likelihood(self, draws: Sequence[MaskDraw]) -> Tensor:
        """Log-likelihoods (P, N, C) under each of these masks."""
        masks = zip(*(draw.dropped for draw in draws), strict=True)
        algebra = MaskAlgebra(len(draws), dict(zip(self.masked_layers, masks, strict=True)))
        leaves = [self._leaves(draw.dropped_leaves) for draw in draws]
        return algebra.log_likelihood(self.circuit, leaves, self.weights, self.rows.dtype)

    def _leaves(self, dropped: Sequence[Tensor] | None) -> LogValues:
        if dropped is None:
            return self.leaves
        layer = self.circuit.leaves
        keep = [(~part).to(self.rows.dtype) for part in dropped]
        return LogValues.rescale(layer.log_density(self.rows, layer.terms(keep)))


class LayeredReweightedEvaluation:
    """A layered circuit with drawn weights; see :class:`~socratic.inference.engine.ReweightedEvaluation`."""

    def __init__(self, circuit: Circuit, rows: Tensor, posterior: WeightPosterior) -> None:
        self.circuit, self.dtype = circuit, rows.dtype
        self.leaves = LogValues.rescale(circuit.leaves.log_density(rows))
        weights = circuit.weights(scale_dtype(rows))
        means = [*weights.layers, join_branches(weights.roots)]
        strengths = posterior.strengths(means[-1])
        self.parameters = [mean * strength.unsqueeze(-1) for mean, strength in zip(means, strengths, strict=True)]
        # Drawn in float64, then weights, then those of all passes.
        n_drawn = 4 * sum(part.numel() for part in self.parameters)
        self.passes_at_a_time = passes_at_a_time(n_drawn + _values(circuit, rows), rows)

    def log_likelihood(self, draws: Sequence[Sequence[Tensor]]) -> Tensor:
        """Log-likelihoods (P, N, C) with each of these weights."""
        *layers, roots = (
            [torch.softmax(part, dim=-1).to(self.dtype) for part in parts] for parts in zip(*draws, strict=True)
        )
        branches = [branch.logits for branch in self.circuit.root_branches()]
        of_branches = zip(*(split_branches(part, branches) for part in roots), strict=True)
        weights = Weights([_side_by_side(parts) for parts in layers], [_side_by_side(parts) for parts in of_branches])
        algebra = PassAlgebra(len(draws))
        return algebra.log_likelihood(self.circuit, [self.leaves] * len(draws), weights, self.dtype)


def _side_by_side(parts: Sequence[Tensor]) -> Tensor:
    """Tensors (F, ...) of several passes, those of a fold beside each other: (F P, ...)."""
    return parts[0] if len(parts) == 1 else torch.stack(list(parts), dim=1).flatten(0, 1)


def _sum_repetitions(n_passes: int, branches: list[LogValues]) -> LogValues:
    """The class roots: a state of one fold, with the rows (P N) of all passes."""

    def as_rows(part: Tensor) -> Tensor:
        return part.unflatten(0, (-1, n_passes)).transpose(1, 2).flatten(2)  # (R P, C, N) -> (R, C, P N)

    if n_passes > 1:
        branches = [LogValues(*map(as_rows, branch)) for branch in branches]
    return sum_repetitions(branches)


def _values(circuit: Circuit, rows: Tensor) -> int:
    """Numbers that a walk holds for the values of all nodes in one pass."""
    return len(rows) * values_per_row(circuit)
