"""Sums and leaves with gradients, on a processor; where none are recorded, as they are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from socratic.kernels import processor
from socratic.kernels.processor import Statistics
from socratic.numerics import log_or_dead, pair_products, weighted_sums


def differentiable_log_sums_of_pairs(
    weights: Tensor, left: Tensor, left_scale: Tensor, right: Tensor, right_scale: Tensor
) -> tuple[Tensor, Tensor]:
    """What :func:`socratic.kernels.sums.log_sums_of_pairs` gives; scales are common shifts and pass no gradient on."""
    compute = _LogPairSums.apply if _recorded(weights, left, right) else processor.log_sums_of_pairs
    return compute(weights, left, left_scale, right, right_scale)


def differentiable_product(natural: Tensor, statistics: Statistics) -> Tensor:
    """Log-densities (F, I, N) from natural parameters (F, I, D * T); statistics have no gradients."""
    return _Product.apply(natural, statistics) if _recorded(natural) else processor.product(natural, statistics)


def _recorded(*tensors: Tensor) -> bool:
    """Whether torch records what is done with some of these tensors."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


class _LogPairSums(torch.autograd.Function):
    """Neither products nor values that are no logarithms are written to memory, for the sums and their gradients."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        log_value, log_scale = processor.log_sums_of_pairs(*inputs)
        ctx.save_for_backward(*inputs, log_value, log_scale)
        ctx.mark_non_differentiable(log_scale)
        ctx.set_materialize_grads(False)
        return log_value, log_scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
        if gradient is None:
            return (None,) * 5
        *inputs, log_value, log_scale = ctx.saved_tensors
        weights, left, _, right, _ = inputs
        needed = tuple(ctx.needs_input_grad[place] for place in (0, 1, 3))
        by_weights, by_left, by_right = (
            _found_by_torch(weights, left, right, gradient, needed)
            if torch.is_grad_enabled()
            else processor.gradients_of_log_pairs(inputs, (log_value, log_scale), gradient, needed)
        )
        return by_weights, by_left, None, by_right, None


def _found_by_torch(
    weights: Tensor, left: Tensor, right: Tensor, gradient: Tensor, needed: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """The gradients where gradients of them are asked for: PyTorch's own have some."""
    parts = [part for part, need in zip((weights, left, right), needed, strict=True) if need]
    log_sums = log_or_dead(weighted_sums(weights, pair_products(torch.exp(left), torch.exp(right))))
    found = iter(torch.autograd.grad(log_sums, parts, gradient, create_graph=True))
    return tuple(next(found) if need else None for need in needed)


class _Product(torch.autograd.Function):
    """Statistics are not written to memory, for the products and their gradients."""

    @staticmethod
    def forward(ctx: Any, natural: Tensor, statistics: Statistics) -> Tensor:
        ctx.statistics, ctx.shape = statistics, natural.shape
        return processor.product(natural, statistics)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _ProductGradient.apply(gradient, ctx.statistics, ctx.shape), None


class _ProductGradient(torch.autograd.Function):
    """The gradient of a product is linear in what it is found from: its own gradient is the product again."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, statistics: Statistics, shape: torch.Size) -> Tensor:
        ctx.statistics = statistics
        return processor.gradient_of_product(gradient, statistics, shape)

    @staticmethod
    def backward(ctx: Any, natural: Tensor) -> tuple[Tensor, None, None]:
        return _Product.apply(natural, ctx.statistics), None, None
