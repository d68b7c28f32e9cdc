"""Kernels in Triton, which has to be installed; :mod:`~socratic.inference.layered.fused` says when they are used."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def log_sum_kernel(
    left,  # (F, A, N) log-values, float32
    right,  # (F, B, N)
    weights,  # (F, S, A * B), contiguous
    left_scale,  # (F, 1, N), float64
    right_scale,  # (F, 1, N)
    log_value,  # out (F, S, N), contiguous
    log_scale,  # out (F, 1, N), contiguous
    n_rows,
    left_fold,  # strides; those of rows are 1
    left_node,
    right_fold,
    right_node,
    left_scale_fold,
    right_scale_fold,
    n_sums: tl.constexpr,
    n_left: tl.constexpr,
    n_right: tl.constexpr,
    block: tl.constexpr,
):
    """Rescaled log-values of the sums of a layer over all pairs: a program for each fold and block of rows.

    Each thread owns some rows and holds all sums of theirs in registers. A product is formed, multiplied with its
    weight in every sum, and forgotten.
    """
    fold = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * block + tl.arange(0, block)
    inside = rows < n_rows
    lefts, rights = left + fold * left_fold + rows, right + fold * right_fold + rows
    weight = weights + fold * (n_sums * n_left * n_right)
    sums = (tl.zeros((block,), tl.float32),) * n_sums
    for i in range(n_left):
        a = tl.load(lefts + i * left_node, mask=inside, other=0.0)
        for j in tl.range(n_right, loop_unroll_factor=4):
            product = tl.exp(a + tl.load(rights + j * right_node, mask=inside, other=0.0))
            added = ()
            for s in tl.static_range(n_sums):
                added = added + (sums[s] + product * tl.load(weight + s * (n_left * n_right)),)  # noqa: RUF005 - which Triton cannot read
            sums = added
            weight += 1
    top = tl.log(sums[0])
    for s in tl.static_range(1, n_sums):
        top = tl.maximum(top, tl.log(sums[s]), propagate_nan=tl.PropagateNan.ALL)
    shift = tl.where(top == float("-inf"), 0.0, top)
    target = log_value + fold * n_sums * n_rows + rows
    for s in tl.static_range(n_sums):
        tl.store(target + s * n_rows, tl.log(sums[s]) - shift, mask=inside)
    scale = tl.load(left_scale + fold * left_scale_fold + rows, mask=inside, other=0.0)
    scale += tl.load(right_scale + fold * right_scale_fold + rows, mask=inside, other=0.0)
    tl.store(log_scale + fold * n_rows + rows, scale + shift.to(tl.float64), mask=inside)
