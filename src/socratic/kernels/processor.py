"""Kernels for processors: when they are taken, and what they are given.

Without them (:mod:`~socratic.kernels.library`) PyTorch computes the same. All are for float32, with the rows of a batch
in the lanes of vectors. Their work comes in tasks: a fold and some of its rows, or a line of weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from socratic.kernels.library import MovingSide, Side, count_tasks, kernels, run, target
from socratic.shortcuts import allowed_shortcuts


def built_for() -> str | None:
    """The instructions that the kernels of this process are built for; None where PyTorch computes without them."""
    return None if kernels() is None else target()


def computes(like: Tensor) -> bool:
    """Whether there are kernels where this tensor lies."""
    return like.device.type == "cpu" and kernels() is not None


def takes_processor_kernel(*tensors: Tensor, gradients: bool = False) -> bool:
    """Whether the kernels take these tensors: in float32, and not where torch only records or transforms functions.

    ``gradients`` says of a kernel that it has some.
    """
    return (
        not torch.compiler.is_compiling()
        and allowed_shortcuts().kernels
        and (gradients or not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors))
        and not torch._C._are_functorch_transforms_active()  # whose tensors have no memory of their own
        and all(
            computes(tensor)
            and tensor.dtype == torch.float32
            and type(tensor) in {Tensor, nn.Parameter}  # others, of torch's own and of users, may have no memory
            and tensor.numel() > 0
            for tensor in tensors
        )
        and not torch.is_autocast_enabled("cpu")
    )


def _rows_last(values: Tensor) -> tuple[Tensor, tuple[int, int, int]]:
    """Values (F, nodes, N) whose rows lie side by side, and the arguments that say where they lie."""
    values = values if values.stride(-1) == 1 or values.shape[-1] == 1 else values.contiguous()
    return values, (values.data_ptr(), values.stride(0), values.stride(1))


def sums_of_pairs(weights: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Sums (F, S, N); see :func:`socratic.kernels.sums.sums_of_pairs`."""
    weights = weights.contiguous()
    n_folds, n_sums, n_pairs = weights.shape
    n_rows = a.shape[2]
    (a, of_a), (b, of_b) = _rows_last(a), _rows_last(b)
    out = weights.new_empty(n_folds, n_sums, n_rows)
    sizes = (n_sums, a.shape[1], b.shape[1], n_rows)
    operations = n_folds * n_sums * n_pairs * n_rows
    n_tasks = count_tasks(n_folds, n_rows)
    run("sums_of_pairs", n_tasks, operations, weights.data_ptr(), *of_a, *of_b, out.data_ptr(), *sizes)
    return out


def log_sums_of_pairs(
    weights: Tensor, left: Tensor, left_scale: Tensor, right: Tensor, right_scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-values and their scale; see :func:`socratic.kernels.sums.log_sums_of_pairs`."""
    pairs = _LogPairs(weights, left, left_scale, right, right_scale)
    n_folds, n_sums, n_rows = pairs.shape
    log_value, log_scale = weights.new_empty(n_folds, n_sums, n_rows), left_scale.new_empty(n_folds, 1, n_rows)
    out = log_value.data_ptr(), log_scale.data_ptr()
    run("log_sums_of_pairs", count_tasks(n_folds, n_rows), pairs.operations, *pairs.pointers, *out, *pairs.sizes)
    return log_value, log_scale


def gradients_of_log_pairs(
    inputs: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    outputs: tuple[Tensor, Tensor],
    gradient: Tensor,
    needed: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients by weights and by the log-values of both sides, those that are needed, from that by the log-values.

    ``inputs`` and ``outputs`` are those of :func:`log_sums_of_pairs`.
    """
    pairs, gradient = _LogPairs(*inputs), gradient.contiguous()
    weights, left, _, right, _ = inputs
    by_weights, by_left, by_right = (
        torch.empty_like(part, memory_format=torch.contiguous_format) if need else None
        for part, need in zip((weights, left, right), needed, strict=True)
    )
    found = [None if part is None else part.data_ptr() for part in (by_left, by_right, by_weights)]
    known = [part.data_ptr() for part in (*outputs, gradient)]
    run(
        "gradients_of_log_pairs",
        len(weights),
        2 * pairs.operations,
        *pairs.pointers,
        *known,
        *found,
        *pairs.sizes,
    )
    return by_weights, by_left, by_right


class _LogPairs:
    """The arguments that say where weights and the log-values of both sides lie; holds on to their memory."""

    def __init__(self, weights: Tensor, left: Tensor, left_scale: Tensor, right: Tensor, right_scale: Tensor) -> None:
        weights = weights.contiguous()
        parts = [_rows_last(part) for part in (left, left_scale, right, right_scale)]
        self.memory = [weights, *(part for part, _ in parts)]
        of_left, of_left_scale, of_right, of_right_scale = (where for _, where in parts)
        self.pointers = (weights.data_ptr(), *of_left, *of_left_scale[:2], *of_right, *of_right_scale[:2])
        n_folds, n_sums, n_pairs = weights.shape
        n_rows = left.shape[2]
        self.shape = (n_folds, n_sums, n_rows)
        self.sizes = (n_sums, left.shape[1], right.shape[1], n_rows)
        self.operations = n_folds * n_sums * n_pairs * n_rows


def pair_covariance(
    weights: Tensor,
    a: Tensor,
    b: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    sums: Tensor,
    shared_odds: float,
    own_odds: float,
    limit: float,
) -> Tensor:
    """Covariances (F, N, S, S), rows last in memory; see :func:`socratic.kernels.covariance.pair_covariance`.

    ``own_odds`` are those of masks that a child has for each sum.
    """
    weights = weights.contiguous()
    n_folds, n_sums, n_pairs = weights.shape
    n_rows = a.shape[2]
    (a, left, of_left), (b, right, of_right) = _side(a, left), _side(b, right)
    sums, of_sums = _rows_last(sums)
    out = weights.new_empty(n_folds, n_sums, n_sums, n_rows)
    run(
        "pair_covariance",
        count_tasks(n_folds, n_rows),
        n_folds * n_sums * n_sums * n_pairs * n_rows,
        weights.data_ptr(),
        of_left,
        of_right,
        *of_sums,
        shared_odds,
        own_odds,
        limit,
        out.data_ptr(),
        n_sums,
        n_rows,
    )
    return out.permute(0, 3, 1, 2)


def _side(values: Tensor, covariance: Tensor | None) -> tuple[Tensor, Tensor | None, Side]:
    """One side of pairs: values (F, A, N) and covariances in any form, whose memory the description points to."""
    values, of_values = _rows_last(values)
    where, steps = None, (0, 0, 0)
    if covariance is not None and covariance.ndim == 4:
        covariance = covariance.permute(0, 2, 3, 1)  # (F, A, A, N)
    if covariance is not None:
        covariance, (where, *_) = _rows_last(covariance)
        steps = (covariance.stride(0), covariance.stride(1), covariance.stride(-2))
    kind = 0 if covariance is None else covariance.ndim - 2
    pointer, fold, node = of_values
    return values, covariance, Side(pointer, where, fold, node, *steps, values.shape[1], kind)


def top_shares(
    weights: Tensor, left: Tensor, right: Tensor, inverse: Tensor, n_shares: int, rounding: float
) -> tuple[Tensor, Tensor]:
    """Shares (F, N, M, S) and (F, N, S); see :func:`socratic.kernels.log_moments.top_shares_of_pairs`."""
    inputs = [part.contiguous() for part in (weights, left, right, inverse)]
    n_folds, n_sums, n_pairs = weights.shape
    n_rows = left.shape[1]
    shares, rest = weights.new_empty(n_folds, n_rows, n_shares, n_sums), weights.new_empty(n_folds, n_rows, n_sums)
    pointers = [part.data_ptr() for part in (*inputs, shares, rest)]
    sizes = (n_sums, left.shape[2], right.shape[2], n_shares, n_rows)
    operations = n_folds * n_rows * n_pairs * (n_sums + n_shares)
    run("top_shares", count_tasks(n_folds, n_rows), operations, *pointers, rounding, *sizes)
    return shares, rest


class Moving(NamedTuple):
    """One side of products of all pairs: what moves the logarithms of its nodes."""

    values: Tensor  # (F, N, A)
    shares: Tensor  # (F, N, M, A)
    rest: Tensor  # (F, N, A)
    covariance: Tensor | None  # (F, N, A, A)


def moved_sums(
    weights: Tensor, sides: tuple[Moving, Moving], settings: tuple[float, float, float], *, shared: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums and their moves; see :func:`socratic.kernels.log_moments.moved_sums_of_pairs`, also for the settings."""
    weights = weights.contiguous()
    left, right = (_contiguous(side) for side in sides)
    n_folds, n_sums, n_pairs = weights.shape
    n_rows = left.values.shape[1]
    sums, mean = (weights.new_empty(n_folds, n_rows, n_sums) for _ in range(2))
    covariance, curvature = weights.new_empty(n_folds, n_rows, n_sums, n_sums), weights.new_empty(n_folds, n_rows, 1)
    run(
        "moved_sums",
        count_tasks(n_folds, n_rows),
        4 * n_folds * n_rows * n_sums * n_pairs,
        weights.data_ptr(),
        _moving(left),
        _moving(right),
        *settings,
        shared,
        *(part.data_ptr() for part in (sums, mean, covariance, curvature)),
        n_sums,
        n_rows,
    )
    return sums, mean, covariance, curvature


def _contiguous(side: Moving) -> Moving:
    covariance = None if side.covariance is None else side.covariance.contiguous()
    return Moving(side.values.contiguous(), side.shares.contiguous(), side.rest.contiguous(), covariance)


def _moving(side: Moving) -> MovingSide:
    pointers = [None if part is None else part.data_ptr() for part in side]
    return MovingSide(*pointers, side.values.shape[2], side.shares.shape[2])


class Statistics(NamedTuple):
    """Statistics of variables, some of which each fold has: those of a table, or powers of what values deviate by."""

    table: Tensor  # (U, T, N), or values (U, N)
    picked: Tensor  # (F, D), the variables of each fold
    centre: Tensor | None = None  # (U,), what values deviate from
    limit: float = 0.0  # the largest deviation that is taken as it is


def product(natural: Tensor, statistics: Statistics) -> Tensor:
    """Log-densities (F, I, N) from natural parameters (F, I, D * T)."""
    by_statistic = natural.mT.contiguous()  # no copy of those of a leaf layer
    n_folds, n_nodes, _ = natural.shape
    out = natural.new_empty(n_folds, n_nodes, statistics.table.shape[-1])
    _multiply("product", by_statistic, out, statistics, natural.shape)
    return out


def gradient_of_product(gradient: Tensor, statistics: Statistics, shape: torch.Size) -> Tensor:
    """Gradient by natural parameters of this shape from that by the log-densities."""
    out = gradient.new_empty(shape)
    _multiply("gradient", gradient.contiguous(), out, statistics, shape)
    return out


def _multiply(what: str, given: Tensor, out: Tensor, statistics: Statistics, shape: torch.Size) -> None:
    """Call a kernel that multiplies something with the statistics, given the shape of the natural parameters."""
    table, picked, centre, limit = statistics
    tables = [part.contiguous() for part in (table, centre, picked) if part is not None]
    n_folds, n_nodes, n_numbers = shape
    n_picked, n_rows = picked.shape[1], table.shape[-1]
    pointers = [part.data_ptr() for part in tables]
    name, settings = ("picked", []) if centre is None else ("power", [limit])
    run(
        f"{name}_{what}",
        n_folds if what == "gradient" else count_tasks(n_folds, n_rows),
        shape.numel() * n_rows,
        *pointers,
        *settings,
        given.data_ptr(),
        out.data_ptr(),
        *(n_nodes, n_picked, n_numbers // n_picked, n_rows),
    )


def gaussian_natural(mean: Tensor, variance: Tensor, centre: Tensor) -> Tensor:
    """Natural parameters (P, 3, I); see :func:`socratic.kernels.leaves.gaussian_natural`."""
    mean, variance, centre = mean.contiguous(), variance.contiguous(), centre.contiguous()
    out = mean.new_empty(len(mean), 3, mean.shape[1])
    pointers = [part.data_ptr() for part in (mean, variance, centre, out)]
    run("gaussian_natural", len(mean), 20 * mean.numel(), *pointers, mean.shape[1])
    return out


def join(log_value: Tensor, log_scale: Tensor) -> tuple[Tensor, Tensor]:
    """Log-values of the class roots and their scale; see :func:`socratic.kernels.roots.join`."""
    log_value, log_scale = log_value.contiguous(), log_scale.contiguous()
    n_repetitions, n_classes, n_rows = log_value.shape
    relative, shift = log_value.new_empty(1, n_classes, n_rows), log_scale.new_empty(1, 1, n_rows)
    pointers = [part.data_ptr() for part in (log_value, log_scale, relative, shift)]
    sizes = n_repetitions, n_classes, n_rows
    run("join", count_tasks(1, n_rows), 10 * log_value.numel(), *pointers, *sizes)
    return relative, shift


def softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Weights and the smallest of each sum; see :func:`socratic.kernels.weights.softmax`."""
    logits = logits.contiguous()
    weights, smallest = torch.empty_like(logits), logits.new_empty(logits.shape[:-1])
    pointers = logits.data_ptr(), weights.data_ptr(), smallest.data_ptr()
    run("softmax", smallest.numel(), 4 * logits.numel(), *pointers, logits.shape[-1])
    return weights, smallest


def rescale(log_value: Tensor) -> tuple[Tensor, Tensor]:
    """Log-values and their scale; see :func:`socratic.kernels.leaves.rescale`."""
    log_value = log_value.contiguous()
    n_folds, n_nodes, n_rows = log_value.shape
    log_scale = log_value.new_empty(n_folds, 1, n_rows, dtype=torch.float64)
    pointers = log_value.data_ptr(), log_scale.data_ptr()
    run("rescale", count_tasks(n_folds, n_rows), log_value.numel(), *pointers, n_nodes, n_rows)
    return log_value, log_scale
