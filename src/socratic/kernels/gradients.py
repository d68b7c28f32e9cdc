"""Sums over all pairs with gradients, on a processor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from socratic.kernels import processor
from socratic.kernels.processor import takes_processor_kernel
from socratic.numerics import pair_products, weighted_sums


def takes_pair_gradients(weights: Tensor, a: Tensor, b: Tensor) -> bool:
    """Whether the kernels take the sums over all pairs of these values, and their gradients."""
    return takes_processor_kernel(weights, a, b, gradients=True)


def differentiable_sums_of_pairs(weights: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Sums (F, S, N) over all pairs of values (F, A, N) and (F, B, N) with weights (F, S, A * B)."""
    return _PairSums.apply(weights, a, b)


class _PairSums(torch.autograd.Function):
    """Products are written to memory neither for the sums nor for their gradients."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(weights, a, b)
        return processor.sums_of_pairs(weights, a, b)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        weights, a, b = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return processor.gradients_of_pairs(weights, a, b, gradient, ctx.needs_input_grad)
        # Gradients of gradients are asked for: those of PyTorch have some.
        needed = [part for part, need in zip((weights, a, b), ctx.needs_input_grad, strict=True) if need]
        sums = weighted_sums(weights, pair_products(a, b))
        found = iter(torch.autograd.grad(sums, needed, gradient, create_graph=True))
        return tuple(next(found) if need else None for need in ctx.needs_input_grad)
