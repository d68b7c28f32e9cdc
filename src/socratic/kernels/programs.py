"""The kernels themselves, in Triton, which has to be installed to import this."""

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
    sum_side: tl.constexpr,
    right_side: tl.constexpr,
    block: tl.constexpr,
    precision: tl.constexpr,
):
    """Rescaled log-values of the sums of a layer over all pairs: a program for each fold and block of rows.

    The right values stay in registers. For every left node its weights are multiplied with them, and with its value.
    """
    fold = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * block + tl.arange(0, block)
    inside = rows < n_rows
    sums, nodes = tl.arange(0, sum_side)[:, None], tl.arange(0, right_side)
    b_at = right + fold * right_fold + nodes[:, None] * right_node + rows[None, :]
    b = tl.exp(tl.load(b_at, mask=inside[None, :] & (nodes < n_right)[:, None], other=float("-inf")))
    weight = weights + fold * (n_sums * n_left * n_right) + sums * (n_left * n_right) + nodes[None, :]
    some = (sums < n_sums) & (nodes < n_right)[None, :]
    total = tl.zeros((sum_side, block), tl.float32)
    for node in range(n_left):
        a = tl.exp(tl.load(left + fold * left_fold + node * left_node + rows, mask=inside, other=0.0))
        w = tl.load(weight + node * n_right, mask=some, other=0.0)
        total += tl.dot(w, b, input_precision=precision) * a[None, :]
    value = tl.log(total)
    top = tl.max(tl.where(sums < n_sums, value, float("-inf")), 0)
    shift = tl.where(top == float("-inf"), 0.0, top)
    tl.store(
        log_value + (fold * n_sums + sums) * n_rows + rows[None, :],
        value - shift[None, :],
        mask=inside[None, :] & (sums < n_sums),
    )
    scale = tl.load(left_scale + fold * left_scale_fold + rows, mask=inside, other=0.0)
    scale += tl.load(right_scale + fold * right_scale_fold + rows, mask=inside, other=0.0)
    tl.store(log_scale + fold * n_rows + rows, scale + shift.to(tl.float64), mask=inside)


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
        line = entry.to(tl.int64) * n_statistics + term % n_statistics
        values = tl.load(
            table + line[:, None] * n_rows + rows[None, :], mask=known[:, None] & (rows < n_rows)[None, :], other=0.0
        )
        factors = tl.load(
            natural + (fold * n_nodes + nodes) * n_terms + term[None, :],
            mask=(nodes < n_nodes) & known[None, :],
            other=0.0,
        )
        total = tl.dot(factors, values, total, input_precision=precision)
    place = out + (fold * n_nodes + nodes) * n_rows + rows[None, :]
    tl.store(place, total, mask=(nodes < n_nodes) & (rows < n_rows)[None, :])


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
def pair_covariance_kernel(
    weights,  # (F, S, B, A), contiguous
    a,  # (F, A, N), contiguous
    b,  # (F, B, N), contiguous
    left,  # (F, N, A, A) or (F, A, N), contiguous
    right,  # (F, N, B, B) or (F, B, N), contiguous
    passed,  # (F, N, B, S, A): the weights times the right covariance, read only if that is a matrix
    out,  # (F, N, S, B, A)
    n_rows,
    odds,
    n_sums: tl.constexpr,
    n_left: tl.constexpr,
    n_right: tl.constexpr,
    left_side: tl.constexpr,
    right_side: tl.constexpr,
    left_matrix: tl.constexpr,
    right_matrix: tl.constexpr,
    masked: tl.constexpr,
    precision: tl.constexpr,
):
    """The matrices U_t of :func:`~socratic.kernels.covariance.pair_covariance`: a program for each fold and row."""
    fold = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0)
    place = fold * n_rows + row
    l, r = tl.arange(0, left_side), tl.arange(0, right_side)  # noqa: E741 - the nodes of both sides, as the formula has them
    pairs = (r < n_right)[:, None] & (l < n_left)[None, :]
    a_l = tl.load(a + (fold * n_left + l) * n_rows + row, mask=l < n_left, other=0.0)
    b_r = tl.load(b + (fold * n_right + r) * n_rows + row, mask=r < n_right, other=0.0)
    if left_matrix:
        matrix = left + place * (n_left * n_left)
        inside = (l < n_left)[:, None] & (l < n_left)[None, :]
        covariance = tl.load(matrix + l[:, None] * n_left + l[None, :], mask=inside, other=0.0)
        covariance = covariance * a_l[:, None] * a_l[None, :]
        moment = covariance + a_l[:, None] * a_l[None, :]
        left_variance = tl.load(matrix + l * (n_left + 1), mask=l < n_left, other=0.0) * a_l * a_l
    else:
        left_variance = tl.load(left + (fold * n_left + l) * n_rows + row, mask=l < n_left, other=0.0) * a_l * a_l
    if right_matrix:
        right_variance = tl.load(right + (place * n_right + r) * n_right + r, mask=r < n_right, other=0.0) * b_r * b_r
    else:
        right_variance = tl.load(right + (fold * n_right + r) * n_rows + row, mask=r < n_right, other=0.0) * b_r * b_r
    tile = r[:, None] * n_left + l[None, :]
    for t in range(n_sums):
        w = tl.load(weights + (fold * n_sums + t) * (n_right * n_left) + tile, mask=pairs, other=0.0)
        mean = tl.sum(w * b_r[:, None], 0)  # W_t b
        if right_matrix:
            carried_at = passed + ((place * n_right + r[:, None]) * n_sums + t) * n_left + l[None, :]
            carried = tl.load(carried_at, mask=pairs, other=0.0)
        else:
            carried = w * right_variance[:, None]
        if left_matrix:
            found = tl.dot(carried, moment, input_precision=precision)
            pulled = tl.sum(covariance * mean[:, None], 0)
        else:
            found = tl.sum(carried * a_l[None, :], 1)[:, None] * a_l[None, :] + carried * left_variance[None, :]
            pulled = mean * left_variance
        found += b_r[:, None] * pulled[None, :]
        if masked:
            second = (b_r * b_r + right_variance)[:, None] * (a_l * a_l + left_variance)[None, :]
            found += odds * w * second
        tl.store(out + (place * n_sums + t) * (n_right * n_left) + tile, found, mask=pairs)
