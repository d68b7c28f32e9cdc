"""Relative covariances of the sums of a layer, from those of its children.

Covariances come as None (zero), variances (F, S, N) (uncorrelated nodes) or matrices (F, N, S, S). Where a
layer's products are all pairs of left and right nodes, the covariance of the K = A * B products is never
built: with ``a``, ``b`` the children's values and weights W_s[l, r],

    R_st = sum W_s[l, r] W_t[l', r'] a_l a_l' b_r b_r' (R_ll' (1 + R_rr') + R_rr') / (s_s s_t) + mask

is a chain of matrix products with weights that the whole batch shares: 6 S^4 operations a row and region
instead of the 2 S^6 of the sum as written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.numerics import map_tiles, pair_products, pair_sums, sqrt_or_zero

_Block = Callable[[Tensor, "Children"], Tensor]


class Children(NamedTuple):
    """What the sums of a layer need to know of their children."""

    all_pairs: bool
    a: Tensor  # (F, A, N), values of the left nodes relative to the largest
    b: Tensor | None  # (F, B, N), likewise on the right
    left: Tensor | None  # covariance of the left nodes
    right: Tensor | None  # covariance of the right nodes

    def cut(self, folds: slice, rows: slice) -> Children:
        """The children of some folds and rows."""
        b = None if self.b is None else self.b[folds, :, rows]
        return Children(
            self.all_pairs, self.a[folds, :, rows], b, _cut(self.left, folds, rows), _cut(self.right, folds, rows)
        )

    def values(self) -> Tensor:
        """Values of the products: (F, K, N)."""
        return self._combine(self.a, self.b)

    def second_moments(self) -> Tensor:
        """value^2 (1 + R) of the products: (F, K, N)."""
        left = self.a * self.a * (1.0 + variances(self.left, self.a))
        if self.b is None:
            return left
        return self._combine(left, self.b * self.b * (1.0 + variances(self.right, self.b)))

    def product_variances(self) -> Tensor:
        """Relative variances R_l + R_r + R_l R_r of the products: (F, K, N)."""
        left = variances(self.left, self.a)
        if self.b is None:
            return left
        right = variances(self.right, self.b)
        total = pair_sums(left, right) if self.all_pairs else left + right
        return total + self._combine(left, right)

    def _combine(self, left: Tensor, right: Tensor | None) -> Tensor:
        if right is None:
            return left
        return pair_products(left, right) if self.all_pairs else left * right


def saturation(dtype: torch.dtype) -> float:
    """Where relative covariances are cut off, so that products of two stay finite."""
    return float(torch.finfo(dtype).max) ** 0.25


def variances(covariance: Tensor | None, like: Tensor) -> Tensor:
    """The variances (F, S, N) in any form of covariance; ``like`` has the shape for None."""
    if covariance is None:
        return torch.zeros_like(like)
    return covariance.diagonal(dim1=-2, dim2=-1).mT if covariance.ndim == 4 else covariance


def as_matrix(covariance: Tensor | None, like: Tensor) -> Tensor:
    """Matrices (F, N, S, S) from any form of covariance; ``like`` (F, S, N) has the shape for None."""
    if covariance is not None and covariance.ndim == 4:
        return covariance
    return torch.diag_embed(variances(covariance, like).mT)


def sum_variance(weights: Tensor, children: Children, sums: Tensor, odds: float, correlated: bool) -> Tensor | None:
    """Variances (F, S, N) of a layer's sums when covariances between children are not tracked.

    Parameters
    ----------
    weights : (F, S, K)
    children : Children
        With variances only.
    sums : (F, S, N)
        The weighted sums of the children's values.
    odds : float
        p / q of the masks.
    correlated : bool
        Take the children as fully correlated (upper bound) instead of uncorrelated (lower bound).
    """
    if odds == 0.0 and children.left is None and children.right is None:
        return None

    def compute(folds: slice, rows: slice) -> Tensor:
        part, w = children.cut(folds, rows), weights[folds]
        values, spread = part.values(), part.product_variances()
        squares = values * values
        total = odds * torch.bmm(w * w, squares * (1.0 + spread))
        if correlated:
            deviation = torch.bmm(w, values * sqrt_or_zero(spread))
            return total + deviation * deviation
        return total + torch.bmm(w * w, squares * spread)

    n_folds, _, n_rows = sums.shape
    entry_bytes = 3 * weights.shape[-1] * sums.element_size()
    total = map_tiles(compute, n_folds, n_rows, entry_bytes, sums.device, row_axis=2)
    inverse = _inverse(sums)
    return (total * inverse * inverse).clamp_max(saturation(sums.dtype))


def sum_covariance(weights: Tensor, children: Children, sums: Tensor, odds: float, shared_masks: bool) -> Tensor | None:
    """Covariance of a layer's sums, exactly.

    Parameters are those of :func:`sum_variance`; ``shared_masks`` says that one mask per child serves all sums
    (unit masks) instead of one mask per edge.
    """
    if odds == 0.0 and children.left is None and children.right is None:
        return None
    n_folds, n_sums, n_rows = sums.shape
    child_bytes = weights.shape[-1] * sums.element_size()
    inverse = _inverse(sums)

    def tiled(compute: _Block, entry_bytes: int, row_axis: int) -> Tensor:
        def run(folds: slice, rows: slice) -> Tensor:
            return compute(weights[folds], children.cut(folds, rows))

        return map_tiles(run, n_folds, n_rows, entry_bytes, sums.device, row_axis)

    own = None  # (F, S, N): what only a sum's own variance gets
    if odds > 0.0 and not shared_masks:
        own = odds * tiled(lambda w, part: torch.bmm(w * w, part.second_moments()), 2 * child_bytes, 2)
        own = own * inverse * inverse
    if children.left is None and children.right is None and own is not None:
        return own.clamp_max(saturation(own.dtype))

    chained = any(x is not None and x.ndim == 4 for x in (children.left, children.right))
    matrix = tiled(
        lambda w, part: _propagated(w, part, odds if shared_masks else 0.0),
        (n_sums if chained else 4) * child_bytes,
        row_axis=1,
    )
    inverse = inverse.mT  # (F, N, S)
    matrix = matrix * inverse.unsqueeze(-1) * inverse.unsqueeze(-2)
    if own is not None:
        matrix = matrix + torch.diag_embed(own.mT)
    return matrix.clamp_max(saturation(matrix.dtype))


def join_variances(shares: Tensor, covariances: list[Tensor | None], like: list[Tensor]) -> Tensor:
    """Variances (1, C, N) of sums over independent repetitions, each with a share (R, C, N) of the mean."""
    stacked = torch.cat([variances(c, x) for c, x in zip(covariances, like, strict=True)])
    return (shares * shares * stacked).sum(0, keepdim=True)


def join_covariances(shares: Tensor, covariances: list[Tensor | None], like: list[Tensor]) -> Tensor:
    """Covariance (1, N, C, C) of sums over independent repetitions, each with a share (R, C, N) of the mean."""
    stacked = torch.cat([as_matrix(c, x) for c, x in zip(covariances, like, strict=True)])
    parts = shares.mT
    return (parts.unsqueeze(-1) * parts.unsqueeze(-2) * stacked).sum(0, keepdim=True)


def _propagated(weights: Tensor, children: Children, odds: float) -> Tensor:
    """Unnormalised covariance (F, N, S, S): what the children's covariance and shared masks contribute."""
    shared = odds * children.second_moments() if odds > 0.0 else None  # (F, K, N), on the diagonal of children
    if children.all_pairs and children.b is not None:
        terms, uncorrelated = _pair_terms(weights, children, children.b)
    else:
        terms, uncorrelated = _aligned_terms(weights, children)
    on_diagonal = [part for part in (shared, uncorrelated) if part is not None]
    if on_diagonal:
        terms.append(_gram(weights, on_diagonal[0] if len(on_diagonal) == 1 else on_diagonal[0] + on_diagonal[1]))
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _pair_terms(weights: Tensor, children: Children, b: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """Terms of all pairs of left and right nodes; the second result belongs on the children's diagonal."""
    a, left, right = children.a, children.left, children.right
    terms = []
    if right is not None:
        terms.append(_quadratic(_right_marginals(weights, a, b), right))
    if left is None:
        return terms, None
    if right is None or (left.ndim == 3 and right.ndim == 3):
        terms.append(_quadratic(_left_marginals(weights, a, b), left))
        return terms, None if right is None else pair_products(a * a * left, b * b * right)
    return [*terms, _chain(weights, _scaled(as_matrix(left, a), a), _scaled(1.0 + as_matrix(right, b), b))], None


def _aligned_terms(weights: Tensor, children: Children) -> tuple[list[Tensor], Tensor | None]:
    """Terms of element-wise products, whose covariance is no larger than their children's."""
    values = children.values()
    if all(x is None or x.ndim == 3 for x in (children.left, children.right)):
        return [], values * values * children.product_variances()
    matrix = as_matrix(children.left, children.a)
    if children.b is not None:
        other = as_matrix(children.right, children.b)
        matrix = matrix + other + matrix * other
    scaled = _scaled(matrix, values)  # (F, N, K, K)
    n_rows, n_children = scaled.shape[1:3]
    half = torch.bmm(scaled.flatten(1, 2), weights.mT).unflatten(1, (n_rows, n_children)).mT  # (F, N, S, K)
    return [torch.bmm(half.flatten(1, 2), weights.mT).unflatten(1, (n_rows, weights.shape[1]))], None


def _chain(weights: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """sum W_s[l, r] left[l, l'] W_t[l', r'] right[r, r'] for every row: (F, N, A, A), (F, N, B, B) -> (F, N, S, S)."""
    n_folds, n_rows, n_left, _ = left.shape
    n_right, n_sums = right.shape[-1], weights.shape[1]
    pairwise = weights.view(n_folds, n_sums, n_left, n_right)
    by_right = pairwise.permute(0, 3, 1, 2).reshape(n_folds, n_right, n_sums * n_left)  # [r', (t, l')]
    step = torch.bmm(right.reshape(n_folds, n_rows * n_right, n_right), by_right)  # [(n, r), (t, l')]
    step = torch.bmm(step.view(n_folds * n_rows, n_right * n_sums, n_left), left.reshape(-1, n_left, n_left))
    step = step.view(n_folds, n_rows, n_right, n_sums, n_left).transpose(2, 3)  # [n, t, r, l]
    flat = pairwise.permute(0, 3, 2, 1).reshape(n_folds, n_right * n_left, n_sums)  # [(r, l), s]
    return torch.bmm(step.reshape(n_folds, n_rows * n_sums, n_right * n_left), flat).view(
        n_folds, n_rows, n_sums, n_sums
    )


def _gram(weights: Tensor, diagonal: Tensor) -> Tensor:
    """sum_k W_s[k] W_t[k] diagonal[k] for every row: (F, S, K), (F, K, N) -> (F, N, S, S)."""
    n_sums = weights.shape[1]
    first, second = torch.triu_indices(n_sums, n_sums, device=weights.device).unbind()
    half = torch.bmm(weights[:, first] * weights[:, second], diagonal)  # (F, S (S + 1) / 2, N)
    place = torch.empty(n_sums, n_sums, dtype=torch.long, device=weights.device)
    place[first, second] = place[second, first] = torch.arange(len(first), device=weights.device)
    return half[:, place].permute(0, 3, 1, 2)


def _left_marginals(weights: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a_l sum_r W_s[l, r] b_r for every row: (F, N, S, A)."""
    n_folds, n_sums, _ = weights.shape
    inner = torch.bmm(weights.view(n_folds, n_sums * a.shape[1], b.shape[1]), b)
    return (inner.view(n_folds, n_sums, *a.shape[1:]) * a.unsqueeze(1)).permute(0, 3, 1, 2)


def _right_marginals(weights: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """b_r sum_l W_s[l, r] a_l for every row: (F, N, S, B)."""
    n_folds, n_sums, _ = weights.shape
    mirrored = weights.view(n_folds, n_sums, a.shape[1], b.shape[1]).mT.reshape(n_folds, n_sums, -1)
    return _left_marginals(mirrored, b, a)


def _quadratic(marginals: Tensor, covariance: Tensor) -> Tensor:
    """m R m' for every row: (F, N, S, A) and any form of covariance -> (F, N, S, S)."""
    inner = marginals * covariance.mT.unsqueeze(-2) if covariance.ndim == 3 else marginals @ covariance
    return inner @ marginals.mT


def _scaled(matrix: Tensor, values: Tensor) -> Tensor:
    """R_ij x_i x_j for every row: (F, N, S, S), (F, S, N) -> (F, N, S, S)."""
    rows = values.mT
    return matrix * rows.unsqueeze(-1) * rows.unsqueeze(-2)


def _inverse(sums: Tensor) -> Tensor:
    """1 / sums, finite where a sum is 0."""
    return 1.0 / sums.clamp_min(torch.finfo(sums.dtype).tiny)


def _cut(covariance: Tensor | None, folds: slice, rows: slice) -> Tensor | None:
    if covariance is None:
        return None
    return covariance[folds, rows] if covariance.ndim == 4 else covariance[folds, :, rows]
