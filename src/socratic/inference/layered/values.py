"""Log-values of the nodes of a layer, and the products that its sums are taken over.

Values travel as logarithms relative to the largest node of their region and row, with that scale apart: the
differences between nodes keep their digits however small the densities are.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.layers import SumProductLayer
from socratic.kernels.leaves import rescale, takes_rescale
from socratic.kernels.roots import join, takes_join
from socratic.numerics import finite_max, logsumexp_or_dead, scale_dtype


class LogValues(NamedTuple):
    """Logarithms of the values of a layer's nodes, ``log_value + log_scale``.

    The largest ``log_value`` of a region and row is 0, unless all of them are minus infinity.
    """

    log_value: Tensor  # (F, S, N)
    log_scale: Tensor  # (F, 1, N), in the type of numerics.scale_dtype

    @classmethod
    def rescale(cls, log_value: Tensor, log_scale: Tensor | float = 0.0) -> LogValues:
        """Move the largest value of each region and row into the scale; the memory of ``log_value`` may be reused."""
        if takes_rescale(log_value):
            relative, shift = rescale(log_value)
            return cls(relative, log_scale + shift)
        shift = finite_max(log_value)
        return cls(log_value - shift, log_scale + shift.to(scale_dtype(shift)))

    def of_classes(self, dtype: torch.dtype) -> Tensor:
        """The log-values of the class roots, a state of one fold, as (N, C)."""
        return (self.log_value + self.log_scale).to(dtype).squeeze(0).t()


class Products(NamedTuple):
    """The products a layer sums over, ready to be multiplied by weights.

    All pairs are never built here: ``right`` then holds the values of the right nodes. Otherwise ``left`` holds
    the products themselves and ``right`` is None.
    """

    left: Tensor  # (F, A, N) or (F, K, N), logarithms; the best product of each row is about 0
    right: Tensor | None  # (F, B, N), logarithms
    log_scale: Tensor  # (F, 1, N)

    @classmethod
    def of(cls, layer: SumProductLayer, left: LogValues, right: LogValues | None) -> Products:
        """Combine the children of a layer."""
        if right is None:
            return cls(left.log_value, None, left.log_scale)
        log_scale = left.log_scale + right.log_scale
        if layer.all_pairs:
            return cls(left.log_value, right.log_value, log_scale)
        # The best left and the best right node need not meet: relative to both, every product could underflow.
        products = LogValues.rescale(left.log_value + right.log_value, log_scale)
        return cls(products.log_value, None, products.log_scale)

    def exp(self) -> tuple[Tensor, Tensor | None]:
        """The values whose products are summed."""
        return torch.exp(self.left), None if self.right is None else torch.exp(self.right)

    def log_terms(self, log_weights: Tensor, fold: Tensor, node: Tensor, row: Tensor) -> Tensor:
        """The terms (M, K) of M sums, each given by its fold, node and row: log-weights plus log-values of children."""
        terms = self.left[fold, :, row]
        if self.right is not None:
            terms = (terms.unsqueeze(2) + self.right[fold, :, row].unsqueeze(1)).flatten(1)
        return log_weights[fold, node] + terms


def all_repetitions(branches: list[LogValues]) -> tuple[Tensor, Tensor]:
    """Log-values (R, C, N) of the class roots and their scales (R, 1, N), over all repetitions."""
    if len(branches) == 1:
        return branches[0].log_value, branches[0].log_scale
    return torch.cat([state.log_value for state in branches]), torch.cat([state.log_scale for state in branches])


def sum_repetitions(branches: list[LogValues]) -> LogValues:
    """Sum the class roots' values over folds and branches: a state of one fold."""
    log_value, log_scale = all_repetitions(branches)
    if takes_join(log_value):
        return LogValues(*join(log_value, log_scale))
    shift = log_scale.detach().amax(0, keepdim=True)  # (1, 1, N)
    relative = log_value + (log_scale - shift).to(log_value.dtype)
    return LogValues(logsumexp_or_dead(relative, dim=0), shift)


def best_repetition(branches: list[LogValues]) -> LogValues:
    """The largest of the class roots' values over folds and branches: a state of one fold."""
    log_value, log_scale = all_repetitions(branches)
    best = (log_value + log_scale).amax(0, keepdim=True)
    return LogValues(best, torch.zeros_like(best[:, :1]))
