"""The kernels of leaves, weights and class roots, in Triton, which has to be installed to import this."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def picked_product_kernel(
    natural,  # (F, I, D * T), contiguous
    table,  # (U, T, N), contiguous
    picked,  # (F, D), contiguous
    out,  # (F, I, N), contiguous
    n_rows,
    n_terms,  # D * T
    n_nodes: tl.constexpr,
    n_statistics: tl.constexpr,  # T
    side: tl.constexpr,
    depth: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """Matrices times rows of a table, picked as they are needed: a program for each fold and block of rows."""
    fold = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * block + tl.arange(0, block)
    nodes = tl.arange(0, side)[:, None]
    total = tl.zeros((side, block), tl.float32)
    for start in range(0, n_terms, depth):
        term = start + tl.arange(0, depth)
        known = term < n_terms
        entry = tl.load(picked + fold * (n_terms // n_statistics) + term // n_statistics, mask=known, other=0)
        inside = known[:, None] & (rows < n_rows)[None, :]
        line = entry.to(tl.int64) * n_statistics + term % n_statistics
        values = tl.load(table + line[:, None] * n_rows + rows[None, :], mask=inside, other=0.0)
        factors = tl.load(
            natural + (fold * n_nodes + nodes) * n_terms + term[None, :],
            mask=(nodes < n_nodes) & known[None, :],
            other=0.0,
        )
        total = tl.dot(factors, values, total, input_precision=precision)  # statistics may be infinite
    place = out + (fold * n_nodes + nodes) * n_rows + rows[None, :]
    tl.store(place, total, mask=(nodes < n_nodes) & (rows < n_rows)[None, :])


@triton.jit
def power_product_kernel(
    natural,  # (F, I, D * T), contiguous
    values,  # (U, N), contiguous
    centre,  # (U,), contiguous
    picked,  # (F, D), contiguous
    out,  # (F, I, N), contiguous
    n_rows,
    n_picked,  # D
    limit,
    n_nodes: tl.constexpr,
    n_statistics: tl.constexpr,  # T
    side: tl.constexpr,
    depth: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """Matrices times the powers 1, z, ... of deviations z: a program for each fold and block of rows."""
    fold = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * block + tl.arange(0, block)
    nodes = tl.arange(0, side)[:, None]
    total = tl.zeros((side, block), tl.float32)
    for start in range(0, n_picked, depth):
        place = start + tl.arange(0, depth)
        known = place < n_picked
        entry = tl.load(picked + fold * n_picked + place, mask=known, other=0).to(tl.int64)
        inside = known[:, None] & (rows < n_rows)[None, :]
        found = tl.load(values + entry[:, None] * n_rows + rows[None, :], mask=inside, other=float("nan"))
        z = found - tl.load(centre + entry, mask=known, other=0.0)[:, None]
        z = tl.minimum(tl.maximum(z, -limit), limit)
        there = found == found  # noqa: PLR0124 - not missing
        power = tl.where(there, 1.0, 0.0)
        z = tl.where(there, z, 0.0)
        at = natural + ((fold * n_nodes + nodes) * n_picked + place[None, :]) * n_statistics
        for number in tl.static_range(n_statistics):
            factors = tl.load(at + number, mask=(nodes < n_nodes) & known[None, :], other=0.0)
            total = tl.dot(factors, power, total, input_precision=precision)
            power = power * z
    target = out + (fold * n_nodes + nodes) * n_rows + rows[None, :]
    tl.store(target, total, mask=(nodes < n_nodes) & (rows < n_rows)[None, :])


@triton.jit
def rescale_kernel(
    log_value,  # (F, S, N), contiguous
    relative,  # out, the same
    log_scale,  # out (F, 1, N), float64
    n_rows,
    n_nodes: tl.constexpr,
    side: tl.constexpr,
    block: tl.constexpr,
):
    """Move the largest value of each fold and row into the scale."""
    fold = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * block + tl.arange(0, block)
    nodes = tl.arange(0, side)[:, None]
    inside = (nodes < n_nodes) & (rows < n_rows)[None, :]
    place = (fold * n_nodes + nodes) * n_rows + rows[None, :]
    values = tl.load(log_value + place, mask=inside, other=float("-inf"))
    top = tl.max(values, 0)
    shift = tl.where(top == float("-inf"), 0.0, top)
    tl.store(relative + place, values - shift[None, :], mask=inside)
    tl.store(log_scale + fold * n_rows + rows, shift.to(tl.float64), mask=rows < n_rows)


@triton.jit
def softmax_kernel(
    logits,  # (M, K), contiguous
    weights,  # out, the same
    smallest,  # out (M,)
    n_children: tl.constexpr,
    width: tl.constexpr,
):
    """Normalised weights, and the smallest of each sum: a program for each sum."""
    line = tl.program_id(0).to(tl.int64)
    child = tl.arange(0, width)
    known = child < n_children
    value = tl.load(logits + line * n_children + child, mask=known, other=float("-inf"))
    value = tl.exp(value - tl.max(value, 0))
    value = value / tl.sum(value, 0)
    tl.store(weights + line * n_children + child, value, mask=known)
    tl.store(smallest + line, tl.min(tl.where(known, value, 1.0), 0))


@triton.jit
def join_kernel(
    log_value,  # (R, C, N), contiguous
    log_scale,  # (R, 1, N), float64
    relative,  # out (1, C, N)
    shift,  # out (1, 1, N), float64
    n_rows,
    n_repetitions,
    n_classes: tl.constexpr,
    side: tl.constexpr,
    block: tl.constexpr,
):
    """Sums over all repetitions: a program for each block of rows."""
    rows = tl.program_id(0) * block + tl.arange(0, block).to(tl.int64)
    node = tl.arange(0, side).to(tl.int64)
    some = rows < n_rows
    inside = (node < n_classes)[:, None] & some[None, :]
    scale = tl.full((block,), float("-inf"), tl.float64)
    for repetition in range(n_repetitions):
        scale = tl.maximum(scale, tl.load(log_scale + (rows + repetition * n_rows), mask=some, other=0.0))
    top = tl.full((side, block), float("-inf"), tl.float32)
    total = tl.zeros((side, block), tl.float32)
    for repetition in range(n_repetitions):
        own = tl.load(log_scale + (rows + repetition * n_rows), mask=some, other=0.0) - scale
        place = (node + repetition * n_classes)[:, None] * n_rows + rows[None, :]
        value = tl.load(log_value + place, mask=inside, other=float("-inf")) + own.to(tl.float32)[None, :]
        above = tl.maximum(top, value)
        base = tl.where(above == float("-inf"), 0.0, above)
        total = total * tl.exp(top - base) + tl.exp(value - base)
        top = above
    found = tl.where(total > 0.0, tl.log(total) + top, float("-inf"))
    tl.store(relative + node[:, None] * n_rows + rows[None, :], found, mask=inside)
    tl.store(shift + rows, scale, mask=some)
