"""The sum-product step of log-values as one kernel: products are formed in registers and never written to memory."""

from __future__ import annotations

import importlib.util
from functools import cache

import torch
from torch import Tensor

from socratic.inference.layered.values import LogValues
from socratic.shortcuts import allowed_shortcuts

MOST_SUMS = 64
"""Sums of a region that the registers of a GPU's thread hold; more are left to libraries of matrix products."""
_MOST_FOLDS = 65_535
"""Of a grid's second axis."""
_ENOUGH_BLOCKS = 1024
"""That keep a large GPU busy."""


def can_fuse(weights: Tensor, left: LogValues, right: LogValues) -> bool:
    """Whether the kernel takes the sums over all pairs of these children: on a GPU, in float32, without gradients."""
    values = (weights, left.log_value, right.log_value)
    return (
        not torch.compiler.is_compiling()
        and allowed_shortcuts().kernels
        and not torch.is_grad_enabled()
        and all(value.is_cuda and value.dtype == torch.float32 and value.numel() > 0 for value in values)
        and weights.shape[1] <= MOST_SUMS
        and len(weights) <= _MOST_FOLDS
        and _has_triton()
    )


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def log_sum_layer(weights: Tensor, left: LogValues, right: LogValues) -> LogValues:
    """Sums over all pairs of left and right values, as :func:`~socratic.inference.layered.sum_product.log_sums`.

    Parameters
    ----------
    weights : (F, S, A * B)
    left, right : LogValues (F, A, N), (F, B, N)

    Returns
    -------
    LogValues (F, S, N)
        Rescaled.
    """
    from socratic.inference.layered.kernels import log_sum_kernel

    weights = weights.contiguous()
    left, right = (LogValues(*map(_rows_in_a_row, side)) for side in (left, right))
    n_folds, n_sums, _ = weights.shape
    n_left, n_rows = left.log_value.shape[1:]
    shape = (n_folds, n_sums, n_rows)
    found = LogValues(weights.new_empty(shape), left.log_scale.new_empty(n_folds, 1, n_rows))
    block = _block(*shape)
    with torch.cuda.device_of(weights):
        log_sum_kernel[(-(-n_rows // block), n_folds)](
            left.log_value,
            right.log_value,
            weights,
            left.log_scale,
            right.log_scale,
            *found,
            n_rows,
            *left.log_value.stride()[:2],
            *right.log_value.stride()[:2],
            left.log_scale.stride(0),
            right.log_scale.stride(0),
            n_sums=n_sums,
            n_left=n_left,
            n_right=right.log_value.shape[1],
            block=block,
            num_warps=1,
        )
    return found


def _rows_in_a_row(values: Tensor) -> Tensor:
    return values if values.stride(-1) == 1 else values.contiguous()


def _block(n_folds: int, n_sums: int, n_rows: int) -> int:
    """Rows of a program: as many as registers hold, since rows share the reading of weights, if blocks are enough."""
    block = 128 if n_sums <= MOST_SUMS // 2 else 64
    while block > 32 and n_folds * -(-n_rows // block) < _ENOUGH_BLOCKS:
        block //= 2
    return block
