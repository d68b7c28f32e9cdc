"""The kernels of log-moments, in Triton, which has to be installed to import this."""

from __future__ import annotations

import triton
import triton.language as tl

from socratic.kernels.programs import _add_product, _parts

_TINY = tl.constexpr(1.1754943508222875e-38)
_N_ATOMS = tl.constexpr(8)
_ATOM_SIDE = tl.constexpr(16)
_SHARE_SIDE = tl.constexpr(16)


@triton.jit
def top_shares_kernel(
    score,  # (F, N, A * B), contiguous
    by_pair,  # the weights, (F, A * B, S), contiguous
    left,  # (F, N, A), contiguous
    right,  # (F, N, B), contiguous
    inverse,  # (F, N, S), contiguous
    shares,  # out (F, N, M, S)
    rest,  # out (F, N, S)
    n_rows,
    rounding,
    n_sums: tl.constexpr,
    n_left: tl.constexpr,
    n_right: tl.constexpr,
    n_shares: tl.constexpr,  # M
    sum_side: tl.constexpr,
    share_side: tl.constexpr,
    width: tl.constexpr,
):
    """:func:`~socratic.kernels.log_moments.top_shares_of_pairs`: a program for each fold and row."""
    fold = tl.program_id(1).to(tl.int64)
    place = fold * n_rows + tl.program_id(0)
    pair = tl.arange(0, width)
    known = pair < n_left * n_right
    left, right = left + place * n_left, right + place * n_right
    value = tl.load(left + pair // n_right, mask=known, other=0.0) * tl.load(
        right + pair % n_right, mask=known, other=0.0
    )
    found = tl.load(score + place * (n_left * n_right) + pair, mask=known, other=0.0) * value
    found = tl.where(known, found, -1.0)
    m, s = tl.arange(0, share_side), tl.arange(0, sum_side)
    top = tl.zeros((share_side,), tl.int32)
    for number in range(n_shares):
        best = tl.argmax(found, 0)
        top = tl.where(m == number, best, top)
        found = tl.where(pair == best, -2.0, found)
    inside = (m < n_shares)[:, None] & (s < n_sums)[None, :]
    weight = tl.load(by_pair + (fold * (n_left * n_right) + top[:, None]) * n_sums + s[None, :], mask=inside, other=0.0)
    value = tl.load(left + top // n_right) * tl.load(right + top % n_right)
    scale = tl.load(inverse + place * n_sums + s, mask=s < n_sums, other=0.0)
    share = weight * value[:, None] * scale[None, :]
    tl.store(shares + (place * n_shares + m[:, None]) * n_sums + s[None, :], share, mask=inside)
    others = 1.0 - tl.sum(share, 0)
    tl.store(rest + place * n_sums + s, tl.where(others < rounding, 0.0, others), mask=s < n_sums)


@triton.jit
def _kept(atom, mask: tl.constexpr):
    """Whether the atom, one of eight, keeps what this one of three masks covers."""
    return ((atom >> mask) & 1) == 0


@triton.jit
def _shared_atoms(share, rest, relevance, m, a, rate, negligible, n_nodes: tl.constexpr, n_shares: tl.constexpr):
    """Factors (atoms, nodes) relative to their mean, probabilities, residual covariance, and whether a sum is lost."""
    keep = 1.0 - rate
    score = tl.where(m < n_shares, tl.sum(share * relevance[None, :], 1), -1.0)
    atom = tl.arange(0, _ATOM_SIDE)
    probability = tl.where(atom < _N_ATOMS, 1.0, 0.0)
    factor = tl.zeros((_ATOM_SIDE, a.shape[0]), tl.float32)
    others = share
    for mask in tl.static_range(3):
        chosen = tl.argmax(score, 0)
        score = tl.where(m == chosen, -2.0, score)
        first = tl.sum(tl.where((m == chosen)[:, None], share, 0.0), 0)
        others = tl.where((m == chosen)[:, None], 0.0, others)
        kept = _kept(atom, mask)
        factor += tl.where(kept[:, None], first[None, :], 0.0)
        probability *= tl.where(kept, keep, rate)
    total = tl.sum(others, 0) + rest
    factor += keep * total[None, :]
    dies = (factor <= 0.0) & (atom < _N_ATOMS)[:, None] & (a < n_nodes)[None, :]
    n_dead = tl.sum(dies.to(tl.int32), 1)
    possible = n_dead < n_nodes
    counts = dies & (relevance > negligible)[None, :]
    if n_shares <= 3:
        counts = counts & possible[:, None]
    lost = tl.max(tl.max(counts.to(tl.int32), 1), 0) > 0
    probability = tl.where(possible, probability, 0.0)
    probability = probability / tl.maximum(tl.sum(probability, 0), _TINY)
    # A sum that is dead in one atom only is taken as it is in the worst atom that it survives.
    alive = (factor > 0.0) & (atom < _N_ATOMS)[:, None]
    smallest = tl.min(tl.where(alive, factor, float("inf")), 0)
    smallest = tl.where(smallest == float("inf"), 1.0, smallest)
    factor = tl.where(alive, factor, smallest[None, :])
    part = others / tl.maximum(total, _TINY)[None, :]
    inverse = total[None, :] / factor
    return factor / keep, probability, part, inverse, lost


@triton.jit
def _own_atoms(share, rest, relevance, m, a, rate, negligible, n_nodes: tl.constexpr):
    """The same where every sum has masks of its own; the residual is then one of variances."""
    keep = 1.0 - rate
    odds = rate / keep
    best = tl.max(share, 0)
    others = tl.where(m[:, None] == tl.argmax(share, 0)[None, :], 0.0, share)
    total = tl.sum(others, 0) + rest
    relative = others / tl.maximum(total, _TINY)[None, :]
    kept = best + keep * total
    kept = tl.where(kept <= 0.0, 1.0, kept)
    fallen = tl.where(total <= 0.0, kept, keep * total)
    inverse = total / kept
    within = tl.sum(relative * relative, 0) * (keep * keep * rate * inverse * inverse + rate * odds)
    residual = odds * tl.sum(share * share, 0)
    lost = tl.max(((total <= 0.0) & (relevance > negligible) & (a < n_nodes)).to(tl.int32), 0) > 0
    score = tl.where(a < n_nodes, relevance * residual, -1.0)
    atom = tl.arange(0, _ATOM_SIDE)
    probability = tl.where(atom < _N_ATOMS, 1.0, 0.0)
    factor = tl.full((_ATOM_SIDE, a.shape[0]), 1.0, tl.float32)
    for mask in tl.static_range(3):
        chosen = tl.argmax(score, 0)
        score = tl.where(a == chosen, -2.0, score)
        residual = tl.where(a == chosen, within, residual)
        stays = _kept(atom, mask)
        state = tl.where(stays[:, None], kept[None, :], fallen[None, :]) / keep
        factor = tl.where((a == chosen)[None, :], state, factor)
        probability *= tl.where(stays, keep, rate)
    return factor, probability, residual, lost


@triton.jit
def _diagonal(matrix, a):
    """Of a square tile."""
    return tl.sum(tl.where(a[:, None] == a[None, :], matrix, 0.0), 1)


@triton.jit
def _product(x, y, precision: tl.constexpr):
    """x y' for tiles."""
    x_lead, x_rest = _parts(x, precision)
    y_lead, y_rest = _parts(y, precision)
    none = tl.zeros((x.shape[0], y.shape[0]), tl.float32)
    return _add_product(none, x_lead, x_rest, tl.trans(y_lead), tl.trans(y_rest), precision)


@triton.jit
def _moved(
    rho,  # (S, A)
    shares,  # of the fold and row, (M, A)
    rest,  # (A,)
    covariance,  # (A, A), read only if ``matrices``
    s,
    a,
    rate,
    negligible,
    deep_fall,
    n_sums: tl.constexpr,
    n_nodes: tl.constexpr,
    n_shares: tl.constexpr,
    matrices: tl.constexpr,
    shared: tl.constexpr,
    precision: tl.constexpr,
):
    """What one side does to the sums: mean, covariance, curvature, and whether one is lost."""
    m = tl.arange(0, _SHARE_SIDE)
    known = a < n_nodes
    share = tl.load(
        shares + m[:, None] * n_nodes + a[None, :], mask=(m < n_shares)[:, None] & known[None, :], other=0.0
    )
    left_over = tl.load(rest + a, mask=known, other=0.0)
    relevance = tl.sum(rho * rho, 0) / n_sums
    if shared:
        factor, probability, part, inverse, lost = _shared_atoms(
            share, left_over, relevance, m, a, rate, negligible, n_nodes, n_shares
        )
        spread = _product(tl.trans(part), tl.trans(part), precision)
        spread *= _product(tl.trans(inverse * probability[:, None]), tl.trans(inverse), precision)
        spread *= rate * (1.0 - rate)
        residual = _diagonal(spread, a)
    else:
        factor, probability, residual, lost = _own_atoms(share, left_over, relevance, m, a, rate, negligible, n_nodes)
        spread = tl.where(a[:, None] == a[None, :], residual[:, None], 0.0)
    if matrices:
        inside = known[:, None] & known[None, :]
        spread += tl.load(covariance + a[:, None] * n_nodes + a[None, :], mask=inside, other=0.0)
    # The atoms, at which the sums are evaluated as they are.
    changed = tl.log(tl.maximum(_product(factor, rho, precision), _TINY))  # (atoms, S)
    atom = tl.arange(0, _ATOM_SIDE)
    changed = tl.where((atom < _N_ATOMS)[:, None] & (s < n_sums)[None, :], changed, 0.0)
    mean = tl.sum(changed * probability[:, None], 0)
    centred = changed - mean[None, :]
    total = _product(tl.trans(centred * probability[:, None]), tl.trans(centred), precision)
    top = tl.max(tl.where((s < n_sums)[None, :], changed, float("-inf")), 1)
    fall = tl.where((atom < _N_ATOMS)[:, None] & (s < n_sums)[None, :], changed - top[:, None], 0.0)
    lost = lost | (tl.min(tl.min(fall, 1), 0) < -deep_fall)
    # Gaussian logarithms, to second order.
    if matrices or shared:
        passed = _product(_product(rho, spread, precision), rho, precision)  # the spread is symmetric
    else:
        passed = _product(rho * residual[None, :], rho, precision)
    bend = 0.5 * (tl.sum(rho * _diagonal(spread, a)[None, :], 1) - _diagonal(passed, s))
    mean += bend - 0.5 * tl.sum(rho * residual[None, :], 1)
    return mean, total + passed, bend, lost


@triton.jit
def moved_kernel(
    by_left,  # (F, N, S, A), contiguous
    left,  # (F, N, A), contiguous
    left_share,  # (F, N, M, A), contiguous
    left_rest,  # (F, N, A), contiguous
    left_covariance,  # (F, N, A, A), contiguous, read only if ``matrices``
    by_right,  # the same of the right side
    right,
    right_share,
    right_rest,
    right_covariance,
    sums,  # out (F, N, S)
    mean,  # out (F, N, S)
    covariance,  # out (F, N, S, S)
    curvature,  # out (F, N)
    n_rows,
    rate,
    negligible,
    deep_fall,
    n_sums: tl.constexpr,
    n_left: tl.constexpr,
    n_right: tl.constexpr,
    left_shares: tl.constexpr,
    right_shares: tl.constexpr,
    sum_side: tl.constexpr,
    left_side: tl.constexpr,
    right_side: tl.constexpr,
    matrices: tl.constexpr,
    shared: tl.constexpr,
    precision: tl.constexpr,
):
    """:func:`~socratic.kernels.log_moments.moved_sums_of_pairs`: a program for each fold and row."""
    fold = tl.program_id(1).to(tl.int64)
    place = fold * n_rows + tl.program_id(0)
    s, a, b = tl.arange(0, sum_side), tl.arange(0, left_side), tl.arange(0, right_side)
    some = s < n_sums
    of_left = tl.load(
        by_left + place * (n_sums * n_left) + s[:, None] * n_left + a[None, :],
        mask=some[:, None] & (a < n_left)[None, :],
        other=0.0,
    )
    of_left *= tl.load(left + place * n_left + a, mask=a < n_left, other=0.0)[None, :]
    total = tl.sum(of_left, 1)
    tl.store(sums + place * n_sums + s, total, mask=some)
    scale = 1.0 / tl.maximum(total, _TINY)
    moved, spread, bend, lost = _moved(
        of_left * scale[:, None],
        left_share + place * (left_shares * n_left),
        left_rest + place * n_left,
        left_covariance + place * (n_left * n_left),
        s,
        a,
        rate,
        negligible,
        deep_fall,
        n_sums,
        n_left,
        left_shares,
        matrices,
        shared,
        precision,
    )
    of_right = tl.load(
        by_right + place * (n_sums * n_right) + s[:, None] * n_right + b[None, :],
        mask=some[:, None] & (b < n_right)[None, :],
        other=0.0,
    )
    of_right *= tl.load(right + place * n_right + b, mask=b < n_right, other=0.0)[None, :] * scale[:, None]
    also_moved, also_spread, also_bend, also_lost = _moved(
        of_right,
        right_share + place * (right_shares * n_right),
        right_rest + place * n_right,
        right_covariance + place * (n_right * n_right),
        s,
        b,
        rate,
        negligible,
        deep_fall,
        n_sums,
        n_right,
        right_shares,
        matrices,
        shared,
        precision,
    )
    tl.store(mean + place * n_sums + s, moved + also_moved, mask=some)
    tile = place * (n_sums * n_sums) + s[:, None] * n_sums + s[None, :]
    tl.store(covariance + tile, spread + also_spread, mask=some[:, None] & some[None, :])
    bent = tl.sum(tl.where(some, bend + also_bend, 0.0), 0) / n_sums
    tl.store(curvature + place, tl.where(lost | also_lost, float("inf"), bent))
