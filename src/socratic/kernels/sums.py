"""The sum-product step of log-values as one kernel: products are formed in registers and never written to memory."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.kernels.choice import padded, precision, rows_in_a_row, rows_of_program, takes_kernel


def takes_sums(weights: Tensor, left: Tensor, right: Tensor) -> bool:
    """Whether the kernel takes the sums over all pairs of these children."""
    return takes_kernel(weights, left, right, sides=(weights.shape[1], right.shape[1]))


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
            precision=precision(),
            num_warps=2 if block > 64 and n_sums <= 32 else 4,
            num_stages=1 if block > 64 else 4,
        )
    return log_value, log_scale
