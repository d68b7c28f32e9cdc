"""Weights: normalised, and the smallest of each sum found at the same time."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.kernels import processor
from socratic.kernels.choice import takes_kernel
from socratic.kernels.processor import takes_processor_kernel

_MOST_WEIGHTS = 16_384
"""Of a sum: a program holds them all."""

_OF_A_WARP = 512
"""Weights that a warp takes."""


def takes_softmax(logits: Tensor) -> bool:
    """Whether the kernel takes these logits."""
    on_gpu = takes_kernel(logits, sides=(logits.shape[-1],), most=_MOST_WEIGHTS)
    return on_gpu or takes_processor_kernel(logits)


def softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax over the last axis, and the smallest value of each: (..., K) -> (..., K), (...)."""
    if processor.computes(logits):
        return processor.softmax(logits)
    from socratic.kernels.value_programs import softmax_kernel

    logits = logits.contiguous()
    weights, smallest = torch.empty_like(logits), logits.new_empty(logits.shape[:-1])
    width = 1 << (logits.shape[-1] - 1).bit_length()
    with torch.cuda.device_of(logits):
        softmax_kernel[(smallest.numel(),)](
            logits,
            weights,
            smallest,
            n_children=logits.shape[-1],
            width=width,
            num_warps=max(1, min(8, width // _OF_A_WARP)),
        )
    return weights, smallest
