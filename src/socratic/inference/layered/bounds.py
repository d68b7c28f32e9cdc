"""Bounds of the class likelihoods on layers, a share of every sum's weights being unknown."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.layers import SumProductLayer
from socratic.inference.layered.sum_product import log_sums_with_zeros
from socratic.inference.layered.values import LogValues, Products
from socratic.memory import Scratch, map_tiles
from socratic.numerics import log_or_dead, logsumexp_or_dead, pair_sums


class Bound(NamedTuple):
    """Log-values of a layer's nodes, as in :class:`LogValues`, and of the roots' branches the extreme child of each."""

    log_value: Tensor  # (F, S, N)
    log_scale: Tensor  # (F, 1, N)
    extreme: Tensor | None = None  # (F, C, N), relative to the scale


class BoundAlgebra:
    """Passes bounds through layers: ``(1 - epsilon)`` of a sum, and ``epsilon`` of its smallest or largest child."""

    def __init__(self, epsilon: Tensor, *, largest: bool) -> None:
        self.log_known, self.log_unknown = torch.log1p(-epsilon), log_or_dead(epsilon)  # (N,)
        self.largest = largest

    def layer(self, layer: SumProductLayer, weights: Tensor, left: Bound, right: Bound | None, *, root: bool) -> Bound:
        """Bounds of the sums of one layer; those of the roots, which go on in other branches, are left to the join."""
        products = Products.of(layer, LogValues(*left[:2]), None if right is None else LogValues(*right[:2]))
        sums, extreme = log_sums_with_zeros(weights, products), self._extreme(weights, products)
        if root:
            return Bound(sums, products.log_scale, extreme)
        return Bound(*LogValues.rescale(self._mix(sums, extreme), products.log_scale))

    def join(self, branches: list[Bound]) -> LogValues:
        """Bounds of the class roots, whose weights are those of all repetitions."""
        scale = torch.cat([branch.log_scale for branch in branches])
        top = scale.amax(0, keepdim=True)
        shift = (scale - top).to(branches[0].log_value.dtype)
        sums = torch.cat([branch.log_value for branch in branches]) + shift
        extremes = torch.cat([branch.extreme for branch in branches if branch.extreme is not None]) + shift
        extreme = extremes.amax(0, keepdim=True) if self.largest else extremes.amin(0, keepdim=True)
        return LogValues(self._mix(logsumexp_or_dead(sums, dim=0), extreme), top)

    def _mix(self, sums: Tensor, extreme: Tensor) -> Tensor:
        return torch.logaddexp(self.log_known + sums, self.log_unknown + extreme)

    def _extreme(self, weights: Tensor, products: Products) -> Tensor:
        """Logarithm of the smallest or largest product among those with a weight above 0: (F, S, N)."""
        sign = 1.0 if self.largest else -1.0
        if bool((weights > 0).all()):  # the same for all sums of a region
            best = sum(sign * (sign * side).amax(1, keepdim=True) for side in products[:2] if side is not None)
            assert isinstance(best, Tensor)
            return best.expand(-1, weights.shape[1], -1)
        absent = torch.where(weights > 0, 0.0, -torch.inf).unsqueeze(-1)  # (F, S, K, 1)

        def compute(folds: slice, rows: slice, _scratch: Scratch) -> Tensor:
            terms = products.left[folds, :, rows]
            if products.right is not None:
                terms = pair_sums(terms, products.right[folds, :, rows])
            best = [(absent[folds, node] + sign * terms).amax(1) for node in range(weights.shape[1])]
            return sign * torch.stack(best, dim=1)

        n_folds, _, n_rows = products.left.shape
        entry_bytes = 2 * weights.shape[2] * weights.element_size()
        return map_tiles(compute, n_folds, n_rows, entry_bytes, weights.device, row_axis=2)
