"""Log-space primitives and their gradients, also where a value is 0 and its logarithm minus infinity.

Shape legend, used throughout the library:

====  =======================================================================================
N     rows of a batch
V     variables (features)
C     classes
R     repetitions
F     folds: regions of equal shape that are evaluated together as one layer
A, B  nodes of a left and of a right child region
K     children of a sum: ``A * B`` for all pairs, ``A`` for element-wise products
S     sums of a region
I     leaves of a leaf region
====  =======================================================================================

Inside the queries rows come last, (F, nodes, N), so that every elementwise step runs over contiguous memory;
public arguments and results put rows first.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from socratic.tracing import is_exporting


def finite_max(x: Tensor, dim: int = -2) -> Tensor:
    """Maximum over the nodes, kept, detached, and 0 where everything is minus infinity.

    Subtracting it never produces ``inf - inf``; its gradient cancels in every use, so it carries none.
    """
    return finite_or_zero(x.detach().amax(dim, keepdim=True))


def finite_or_zero(x: Tensor) -> Tensor:
    """``x`` with minus infinity, the logarithm of something dead, replaced by 0."""
    return x.nan_to_num(nan=math.nan, neginf=0.0, posinf=math.inf)


def scale_dtype(x: Tensor) -> torch.dtype:
    """The type in which common shifts of log-values are accumulated.

    Log-densities of thousands of variables are large, their differences between nodes are not: keeping the
    common shift apart, in float64, leaves float32 its digits for the differences. (Apple's GPUs have no
    float64.)
    """
    return torch.float32 if x.device.type == "mps" else torch.float64


def exp_shifted(log_values: Tensor) -> tuple[Tensor, Tensor]:
    """``exp(log_values - shift)`` and the shift (F, 1, N) that makes each row's largest node 1."""
    shift = finite_max(log_values)
    return torch.exp(log_values - shift), shift


def log_or_dead(x: Tensor) -> Tensor:
    """Logarithm that maps 0 to minus infinity, with a zero (not NaN) gradient there."""
    if not torch.is_grad_enabled():
        return torch.log(x)
    dead = x <= 0  # not the negation of x > 0: what is not a number stays so
    return torch.where(dead, -math.inf, torch.log(torch.where(dead, 1.0, x)))


def logsumexp_or_dead(x: Tensor, dim: int) -> Tensor:
    """Log-sum-exp that stays minus infinity, with zero gradients, where every term is; ``dim`` is kept."""
    top = finite_max(x, dim)
    return log_or_dead(torch.exp(x - top).sum(dim, keepdim=True)) + top


def logsumexp_by(x: Tensor, groups: Tensor, n_groups: int) -> Tensor:
    """Log-sum-exp of the values (P, N) in each of G groups, given by ``groups`` (P,): (G, N).

    Minus infinity where a group is empty, or all of its values are.
    """
    top = x.new_full((n_groups, x.shape[1]), -math.inf)
    top = finite_or_zero(top.scatter_reduce(0, groups.unsqueeze(1).expand_as(x), x.detach(), "amax"))
    return log_or_dead(torch.zeros_like(top).index_add(0, groups, torch.exp(x - top[groups]))) + top


def sqrt_or_zero(x: Tensor) -> Tensor:
    """Square root that is 0 up to 0, with a zero (not infinite) gradient there."""
    zero = x <= 0
    return torch.where(zero, 0.0, torch.sqrt(torch.where(zero, 1.0, x)))


def pair_products(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """All products of a left with a right value: (F, A, N), (F, B, N) -> (F, A * B, N), written to ``out`` if given."""
    pairs = (left.shape[-2], right.shape[-2])
    target = None if out is None else out.unflatten(-2, pairs)
    return torch.mul(left.unsqueeze(-2), right.unsqueeze(-3), out=target).flatten(-3, -2)


_FEW_ROWS = 8
_TILE_SIDE = 128
"""Of what a part of a GPU takes of a product of matrices."""
_ENOUGH_TILES = 256
"""Two for each part of a large GPU."""
_ENOUGH_TERMS = 512
"""Of a sum, to be worth a tile."""


def weighted_sums(weights: Tensor, values: Tensor) -> Tensor:
    """Sums (F, S, N) of values (F, K, N) with weights (F, S, K)."""
    if torch.compiler.is_compiling():
        return torch.bmm(weights, values)
    if values.shape[2] <= _FEW_ROWS and values.device.type == "cpu":
        # On a processor, a product with a few columns takes several times as long as the same one with a few rows.
        return torch.bmm(values.mT, weights.mT).mT
    n_folds, n_sums, n_terms = weights.shape
    n_parts = parts_of_sums(n_folds, n_sums, n_terms, values.shape[2]) if values.is_cuda else 1
    return torch.bmm(weights, values) if n_parts == 1 else sums_in_parts(weights, values, n_parts)


def sums_in_parts(weights: Tensor, values: Tensor, n_parts: int) -> Tensor:
    """The same, the terms of a sum cut into equal parts, each of which is multiplied by itself."""
    return (weights.unflatten(2, (n_parts, -1)).transpose(1, 2) @ values.unflatten(1, (n_parts, -1))).sum(1)


def parts_of_sums(n_folds: int, n_sums: int, n_terms: int, n_rows: int) -> int:
    """Into how many parts sums of many terms are cut: a few of them leave most of a GPU without work."""
    n_tiles = n_folds * -(-n_sums // _TILE_SIDE) * -(-n_rows // _TILE_SIDE)
    most = min(_ENOUGH_TILES // max(1, n_tiles), n_terms // _ENOUGH_TERMS)
    n_parts = 1
    while 2 * n_parts <= most and n_terms % (2 * n_parts) == 0:
        n_parts *= 2
    return n_parts


def pair_sums(left: Tensor, right: Tensor) -> Tensor:
    """All sums of a left and a right value: (F, A, N), (F, B, N) -> (F, A * B, N)."""
    return (left.unsqueeze(-2) + right.unsqueeze(-3)).flatten(-3, -2)


_SHIFT = 6
"""Steps of the recurrences of both functions below, after which their series have eleven digits."""


def log_gamma(x: Tensor) -> Tensor:
    """log Gamma(x) of positive numbers; written out where a program is exported, since ONNX does not know it."""
    if not is_exporting():
        return torch.lgamma(x)
    y = x + _SHIFT
    square = 1.0 / (y * y)
    series = (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0))) / y
    steps = sum(torch.log(x + step) for step in range(_SHIFT))
    return (y - 0.5) * torch.log(y) - y + 0.5 * math.log(2.0 * math.pi) + series - steps


def digamma(x: Tensor) -> Tensor:
    """The derivative of :func:`log_gamma`, likewise."""
    if not is_exporting():
        return torch.digamma(x)
    y = x + _SHIFT
    square = 1.0 / (y * y)
    series = square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square * (1.0 / 240.0))))
    return torch.log(y) - 0.5 / y - series - sum(1.0 / (x + step) for step in range(_SHIFT))
