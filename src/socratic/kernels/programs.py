"""The kernels of sums and of their covariances, in Triton, which has to be installed to import this."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _parts(x, precision: tl.constexpr):
    """What a product takes of a matrix: its leading digits and the next ones, or the matrix itself for "tf32"."""
    lead, rest = x, x
    if precision == "tf32x3":  # eleven bits each
        bits = x.to(tl.int32, bitcast=True)
        lead = ((bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
        rest = x - lead
    if precision == "bf16x3":  # eight bits each
        lead = x.to(tl.bfloat16)
        rest = (x - lead.to(tl.float32)).to(tl.bfloat16)
    return lead, rest


@triton.jit
def _add_product(total, x_lead, x_rest, y_lead, y_rest, precision: tl.constexpr):
    """Add the product of two matrices, which are given by their parts."""
    if precision != "tf32":
        total = tl.dot(x_rest, y_lead, total, input_precision="tf32")
        total = tl.dot(x_lead, y_rest, total, input_precision="tf32")
    return tl.dot(x_lead, y_lead, total, input_precision="tf32")


@triton.jit
def _sum_pairs(
    weights,  # of the fold, (T, A * B), contiguous
    left,  # of the fold, (A, N)
    right,  # of the fold, (B, N)
    left_node,  # strides; those of rows are 1
    right_node,
    rows,
    n_rows,
    sums,
    n_sums: tl.constexpr,
    n_left: tl.constexpr,
    n_right: tl.constexpr,
    sum_side: tl.constexpr,
    right_side: tl.constexpr,
    block: tl.constexpr,
    logarithms: tl.constexpr,
    precision: tl.constexpr,
):
    """Weighted sums over all pairs of values, or of values given by their logarithms: (rows, sums).

    The right values stay in registers. For every left node they are multiplied with its weights, and with its value.
    """
    nodes = tl.arange(0, right_side)
    inside = rows < n_rows
    other = float("-inf") if logarithms else 0.0
    b_at = right + nodes[None, :] * right_node + rows[:, None]
    b = tl.load(b_at, mask=inside[:, None] & (nodes < n_right)[None, :], other=other)
    if logarithms:
        b = tl.exp(b)
    b_lead, b_rest = _parts(b, precision)
    weight = weights + sums[None, :] * (n_left * n_right) + nodes[:, None]
    some = (sums < n_sums)[None, :] & (nodes < n_right)[:, None]
    total = tl.zeros((block, sum_side), tl.float32)
    for node in range(n_left):
        a = tl.load(left + node * left_node + rows, mask=inside, other=0.0)
        if logarithms:
            a = tl.exp(a)
        w_lead, w_rest = _parts(tl.load(weight + node * n_right, mask=some, other=0.0), precision)
        found = _add_product(tl.zeros((block, sum_side), tl.float32), b_lead, b_rest, w_lead, w_rest, precision)
        total += found * a[:, None]
    return total


@triton.jit
def pair_sum_kernel(
    left,  # (F, A, N)
    right,  # (F, B, N)
    weights,  # (F, T, A * B), contiguous
    out,  # (F, T, N), or (F, N, T) if ``by_row``
    n_rows,
    left_fold,  # strides; those of rows are 1
    left_node,
    right_fold,
    right_node,
    n_sums: tl.constexpr,  # T
    n_left: tl.constexpr,
    n_right: tl.constexpr,
    sum_side: tl.constexpr,
    right_side: tl.constexpr,
    block: tl.constexpr,
    by_row: tl.constexpr,
    precision: tl.constexpr,
):
    """Weighted sums over all pairs of values: a program for each fold, block of rows and block of sums."""
    fold = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * block + tl.arange(0, block)
    sums = tl.program_id(2) * sum_side + tl.arange(0, sum_side)
    total = _sum_pairs(
        weights + fold * (n_sums * n_left * n_right),
        left + fold * left_fold,
        right + fold * right_fold,
        left_node,
        right_node,
        rows,
        n_rows,
        sums,
        n_sums,
        n_left,
        n_right,
        sum_side,
        right_side,
        block,
        False,
        precision,
    )
    place = out + fold * n_sums * n_rows
    if by_row:
        place = place + rows[:, None].to(tl.int64) * n_sums + sums[None, :]
    else:
        place = place + sums[None, :].to(tl.int64) * n_rows + rows[:, None]
    tl.store(place, total, mask=(rows < n_rows)[:, None] & (sums < n_sums)[None, :])


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
    """Rescaled log-values of the sums of a layer over all pairs: a program for each fold and block of rows."""
    fold = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * block + tl.arange(0, block)
    sums = tl.arange(0, sum_side)
    inside = rows < n_rows
    total = _sum_pairs(
        weights + fold * (n_sums * n_left * n_right),
        left + fold * left_fold,
        right + fold * right_fold,
        left_node,
        right_node,
        rows,
        n_rows,
        sums,
        n_sums,
        n_left,
        n_right,
        sum_side,
        right_side,
        block,
        True,
        precision,
    )
    value = tl.log(total)
    top = tl.max(tl.where((sums < n_sums)[None, :], value, float("-inf")), 1)
    shift = tl.where(top == float("-inf"), 0.0, top)
    tl.store(
        log_value + (fold * n_sums + sums)[None, :] * n_rows + rows[:, None],
        value - shift[:, None],
        mask=inside[:, None] & (sums < n_sums)[None, :],
    )
    scale = tl.load(left_scale + fold * left_scale_fold + rows, mask=inside, other=0.0)
    scale += tl.load(right_scale + fold * right_scale_fold + rows, mask=inside, other=0.0)
    tl.store(log_scale + fold * n_rows + rows, scale + shift.to(tl.float64), mask=inside)


@triton.jit
def _add_quadratic(total, marginals, covariance, matrix: tl.constexpr, precision: tl.constexpr):
    """Add m C m', for a matrix C or the diagonal of one."""
    lead, rest = _parts(marginals, precision)
    if matrix:
        c_lead, c_rest = _parts(covariance, precision)
        pulled = _add_product(tl.zeros_like(marginals), lead, rest, c_lead, c_rest, precision)
    else:
        pulled = marginals * covariance[None, :]
    x_lead, x_rest = _parts(pulled, precision)
    return _add_product(total, x_lead, x_rest, tl.trans(lead), tl.trans(rest), precision)


@triton.jit
def _matrix(values, covariance, n_nodes: tl.constexpr, side: tl.constexpr):
    """Covariances of the nodes of one side, from relative ones."""
    node = tl.arange(0, side)
    value = tl.load(values + node, mask=node < n_nodes, other=0.0)
    inside = (node < n_nodes)[:, None] & (node < n_nodes)[None, :]
    place = covariance + node[:, None] * n_nodes + node[None, :]
    return tl.load(place, mask=inside, other=0.0) * value[:, None] * value[None, :]


@triton.jit
def _variances(values, variances, n_nodes: tl.constexpr, side: tl.constexpr):
    """Variances of the nodes of one side, from relative ones."""
    node = tl.arange(0, side)
    value = tl.load(values + node, mask=node < n_nodes, other=0.0)
    return tl.load(variances + node, mask=node < n_nodes, other=0.0) * value * value


@triton.jit
def times_weights_kernel(
    lines,  # (F, M, B), contiguous
    values,  # (F, N, B), contiguous, read only if ``relative``
    weights_lead,  # (F, B, W), contiguous
    weights_rest,
    out_lead,  # (F, M, W)
    out_rest,  # written only if ``in_parts``
    n_lines,  # M
    n_nodes: tl.constexpr,
    n_weights: tl.constexpr,  # W
    side: tl.constexpr,
    block: tl.constexpr,
    width: tl.constexpr,
    relative: tl.constexpr,
    in_parts: tl.constexpr,
    precision: tl.constexpr,
):
    """Lines times weights: a program for each fold and block of lines.

    Lines that are ``relative`` are those of matrices, B of each row: they are multiplied with the values of both nodes.
    """
    fold = tl.program_id(1).to(tl.int64)
    line, node = tl.program_id(0) * block + tl.arange(0, block), tl.arange(0, side)
    known = (line < n_lines)[:, None] & (node < n_nodes)[None, :]
    matrix = tl.load(lines + (fold * n_lines + line[:, None]) * n_nodes + node[None, :], mask=known, other=0.0)
    if relative:
        own = tl.load(values + fold * n_lines + line, mask=line < n_lines, other=0.0)
        others = values + fold * n_lines + (line // n_nodes * n_nodes)[:, None] + node[None, :]
        matrix *= own[:, None] * tl.load(others, mask=known, other=0.0)
    lead, rest = _parts(matrix, precision)
    for start in range(0, n_weights, width):
        column = start + tl.arange(0, width)
        place = (fold * n_nodes + node[:, None]) * n_weights + column[None, :]
        some = (node < n_nodes)[:, None] & (column < n_weights)[None, :]
        w_lead = tl.load(weights_lead + place, mask=some, other=0.0)
        w_rest = tl.load(weights_rest + place, mask=some, other=0.0)
        found = _add_product(tl.zeros((block, width), tl.float32), lead, rest, w_lead, w_rest, precision)
        target = (fold * n_lines + line[:, None]) * n_weights + column[None, :]
        inside = (line < n_lines)[:, None] & (column < n_weights)[None, :]
        if in_parts:
            found_lead, found_rest = _parts(found, precision)
            tl.store(out_lead + target, found_lead, mask=inside)
            tl.store(out_rest + target, found_rest, mask=inside)
        else:
            tl.store(out_lead + target, found, mask=inside)


@triton.jit
def pair_covariance_kernel(
    weights_lead,  # (F, B, S, A), contiguous
    weights_rest,
    passed_lead,  # (F, N, B, S, A): the weights times the right covariance, read only if both sides are matrices
    passed_rest,  # read only if the precision is "bf16x3"
    start,  # (F, N, S (S + 1) / 2): what is known of the result already, of s <= t, read only if ``started``
    a,  # (F, N, A), contiguous
    b,  # (F, N, B), contiguous
    left,  # (F, N, A, A) or (F, N, A), contiguous
    right,  # (F, N, B, B) or (F, N, B), contiguous
    left_marginals,  # (F, N, S, A), contiguous
    right_marginals,  # (F, N, S, B), contiguous
    sums,  # (F, N, S), contiguous
    out,  # (F, N, S, S)
    n_rows,
    limit,
    n_sums: tl.constexpr,
    n_left: tl.constexpr,
    n_right: tl.constexpr,
    sum_side: tl.constexpr,
    left_side: tl.constexpr,
    right_side: tl.constexpr,
    left_matrix: tl.constexpr,
    right_matrix: tl.constexpr,
    started: tl.constexpr,
    precision: tl.constexpr,
):
    """:func:`~socratic.kernels.covariance.pair_covariance`: a program for each fold and row."""
    fold = tl.program_id(1).to(tl.int64)
    place = fold * n_rows + tl.program_id(0)
    s, l, r = tl.arange(0, sum_side), tl.arange(0, left_side), tl.arange(0, right_side)  # noqa: E741 - left nodes
    some = (s < n_sums)[:, None]
    both = some & (s < n_sums)[None, :]
    total = tl.zeros((sum_side, sum_side), tl.float32)
    if started:
        first, last = tl.minimum(s[:, None], s[None, :]), tl.maximum(s[:, None], s[None, :])
        at = first * n_sums - first * (first - 1) // 2 + last - first
        total = tl.load(start + place * (n_sums * (n_sums + 1) // 2) + at, mask=both, other=0.0)
    tile = s[:, None] * n_right + r[None, :]
    if right_matrix:
        covariance = _matrix(b + place * n_right, right + place * (n_right * n_right), n_right, right_side)
    else:
        covariance = _variances(b + place * n_right, right + place * n_right, n_right, right_side)
    marginals = right_marginals + place * (n_sums * n_right) + tile
    marginals = tl.load(marginals, mask=some & (r < n_right)[None, :], other=0.0)
    total = _add_quadratic(total, marginals, covariance, right_matrix, precision)
    if left_matrix:
        covariance = _matrix(a + place * n_left, left + place * (n_left * n_left), n_left, left_side)
    else:
        covariance = _variances(a + place * n_left, left + place * n_left, n_left, left_side)
    tile = s[:, None] * n_left + l[None, :]
    inside = some & (l < n_left)[None, :]
    marginals = tl.load(left_marginals + place * (n_sums * n_left) + tile, mask=inside, other=0.0)
    total = _add_quadratic(total, marginals, covariance, left_matrix, precision)
    if left_matrix and right_matrix:
        l_lead, l_rest = _parts(covariance, precision)
        for node in range(n_right):
            w_at = (fold * n_right + node) * (n_sums * n_left) + tile
            y_at = (place * n_right + node) * (n_sums * n_left) + tile
            w_lead = tl.load(weights_lead + w_at, mask=inside, other=0.0)
            w_rest = tl.load(weights_rest + w_at, mask=inside, other=0.0)
            x = _add_product(tl.zeros((sum_side, left_side), tl.float32), w_lead, w_rest, l_lead, l_rest, precision)
            x_lead, x_rest = _parts(x, precision)
            y = tl.load(passed_lead + y_at, mask=inside, other=0.0)
            if precision == "bf16x3":
                y_lead, y_rest = y, tl.load(passed_rest + y_at, mask=inside, other=0.0)
            else:
                y_lead, y_rest = _parts(y, precision)
            # Tensor cores add without rounding up: a long chain of their sums would be too small.
            none = tl.zeros((sum_side, sum_side), tl.float32)
            total += _add_product(none, x_lead, x_rest, tl.trans(y_lead), tl.trans(y_rest), precision)
    scale = tl.load(sums + place * n_sums + s, mask=s < n_sums, other=1.0)
    total = tl.minimum(total / scale[:, None] / scale[None, :], limit)
    tl.store(out + place * (n_sums * n_sums) + s[:, None] * n_sums + s[None, :], total, mask=both)
