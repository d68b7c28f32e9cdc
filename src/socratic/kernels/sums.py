"""The sum-product step as one kernel: products are formed in registers and never written to memory."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.kernels import processor
from socratic.kernels.choice import Digits, padded, precision, rows_in_a_row, rows_of_program, takes_kernel
from socratic.kernels.gradients import differentiable_log_sums_of_pairs
from socratic.kernels.processor import takes_processor_kernel

_SUMS_OF_PROGRAM = 64


def takes_sums(weights: Tensor, left: Tensor, right: Tensor) -> bool:
    """Whether the kernel takes the sums over all pairs of these children; on a processor, also with gradients."""
    sides = weights.shape[1], right.shape[1]
    on_processor = takes_processor_kernel(weights, left, right, gradients=True)
    return on_processor or takes_kernel(weights, left, right, sides=sides)


def log_sums_of_pairs(
    weights: Tensor, left: Tensor, left_scale: Tensor, right: Tensor, right_scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums over all pairs of left and right values.

    Parameters
    ----------
    weights : (F, S, A * B)
    left, right : (F, A, N), (F, B, N)
        Log-values, the largest of each fold and row 0.
    left_scale, right_scale : (F, 1, N)
        What they are relative to.

    Returns
    -------
    tuple of (F, S, N) and (F, 1, N)
        Log-values of the sums and their scale, likewise.
    """
    if processor.computes(weights):
        return differentiable_log_sums_of_pairs(weights, left, left_scale, right, right_scale)
    from socratic.kernels.programs import log_sum_kernel

    weights, left, right = weights.contiguous(), rows_in_a_row(left), rows_in_a_row(right)
    left_scale, right_scale = rows_in_a_row(left_scale), rows_in_a_row(right_scale)
    n_folds, n_sums, _ = weights.shape
    n_left, n_rows = left.shape[1:]
    log_value, log_scale = weights.new_empty(n_folds, n_sums, n_rows), left_scale.new_empty(n_folds, 1, n_rows)
    block = rows_of_program(n_folds, n_rows)
    with torch.cuda.device_of(weights):
        log_sum_kernel[(-(-n_rows // block), n_folds)](
            left,
            right,
            weights,
            left_scale,
            right_scale,
            log_value,
            log_scale,
            n_rows,
            *left.stride()[:2],
            *right.stride()[:2],
            left_scale.stride(0),
            right_scale.stride(0),
            n_sums=n_sums,
            n_left=n_left,
            n_right=right.shape[1],
            sum_side=padded(n_sums),
            right_side=padded(right.shape[1]),
            block=block,
            precision=precision("three"),
            num_warps=2 if block > 64 and n_sums <= 32 else 4,
            num_stages=3,
        )
    return log_value, log_scale


def takes_pair_sums(weights: Tensor, a: Tensor, b: Tensor) -> bool:
    """Whether the kernel takes the sums over all pairs of these values; there may be any number of sums."""
    return takes_processor_kernel(weights, a, b) or takes_kernel(weights, a, b, sides=(b.shape[1],))


def sums_of_pairs(weights: Tensor, a: Tensor, b: Tensor, *, by_row: bool = False, digits: Digits = "all") -> Tensor:
    """Sums over all pairs of values.

    Parameters
    ----------
    weights : (F, T, A * B)
    a, b : (F, A, N), (F, B, N)
        Left and right values.
    by_row : bool
        Put the sums of a row beside each other.
    digits : {"three", "five", "all"}
        How many are needed; see :func:`~socratic.kernels.choice.precision`.

    Returns
    -------
    Tensor (F, T, N), or (F, N, T) by row
    """
    if processor.computes(weights):
        sums = processor.sums_of_pairs(weights, a, b)
        return sums.mT.contiguous() if by_row else sums
    from socratic.kernels.programs import pair_sum_kernel

    weights, a, b = weights.contiguous(), rows_in_a_row(a), rows_in_a_row(b)
    n_folds, n_sums, _ = weights.shape
    n_left, n_rows = a.shape[1:]
    out = weights.new_empty((n_folds, n_rows, n_sums) if by_row else (n_folds, n_sums, n_rows))
    side = min(padded(n_sums), _SUMS_OF_PROGRAM)
    n_blocks = -(-n_sums // side)
    block = rows_of_program(n_folds * n_blocks, n_rows)
    with torch.cuda.device_of(weights):
        pair_sum_kernel[(-(-n_rows // block), n_folds, n_blocks)](
            a,
            b,
            weights,
            out,
            n_rows,
            *a.stride()[:2],
            *b.stride()[:2],
            n_sums=n_sums,
            n_left=n_left,
            n_right=b.shape[1],
            sum_side=side,
            right_side=padded(b.shape[1]),
            block=block,
            by_row=by_row,
            precision=precision(digits),
            num_warps=4,
        )
    return out
