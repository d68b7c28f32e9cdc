"""Class roots: summed over all repetitions."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.kernels import processor
from socratic.kernels.choice import padded, rows_of_program, takes_kernel
from socratic.kernels.processor import takes_processor_kernel


def takes_join(log_value: Tensor) -> bool:
    """Whether the kernel takes these log-values (R, C, N)."""
    return takes_processor_kernel(log_value) or takes_kernel(log_value, sides=(log_value.shape[1],))


def join(log_value: Tensor, log_scale: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of values over repetitions.

    Parameters
    ----------
    log_value : (R, C, N)
    log_scale : (R, 1, N)
        What they are relative to, in float64.

    Returns
    -------
    tuple of (1, C, N) and (1, 1, N)
        Logarithms of the sums and their scale, the largest of the repetitions.
    """
    if processor.computes(log_value):
        return processor.join(log_value, log_scale)
    from socratic.kernels.value_programs import join_kernel

    log_value, log_scale = log_value.contiguous(), log_scale.contiguous()
    n_repetitions, n_classes, n_rows = log_value.shape
    relative, shift = log_value.new_empty(1, n_classes, n_rows), log_scale.new_empty(1, 1, n_rows)
    block = rows_of_program(1, n_rows, most=64)
    with torch.cuda.device_of(log_value):
        join_kernel[(-(-n_rows // block),)](
            log_value,
            log_scale,
            relative,
            shift,
            n_rows,
            n_repetitions,
            n_classes=n_classes,
            side=padded(n_classes),
            block=block,
            num_warps=4,
        )
    return relative, shift
