"""Relative covariances of the sums of a layer, from those of its children.

Covariances come as None (zero), variances (F, S, N) (uncorrelated nodes) or matrices (F, N, S, S). Where a
layer's products are all pairs of left and right nodes, the covariance of the K = A * B products is never
built: with ``a``, ``b`` the children's values and weights W_s[l, r],

    R_st = sum W_s[l, r] W_t[l', r'] a_l a_l' b_r b_r' (R_ll' (1 + R_rr') + R_rr') / (s_s s_t) + noise

is a chain of matrix products with weights that the whole batch shares: 6 S^4 operations a row and region
instead of the 2 S^6 of the sum as written.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.inference.layered.noise import SumNoise
from socratic.inference.layered.sum_product import sum_products
from socratic.inference.saturation import saturation
from socratic.kernels.covariance import MaskOdds, holds_parts, pair_covariance, takes_pair_covariance
from socratic.memory import Scratch, map_tiles
from socratic.numerics import pair_products, pair_sums, sqrt_or_zero
from socratic.tracing import holds


class Children(NamedTuple):
    """What the sums of a layer need to know of their children.

    All pairs of left and right nodes are given by the nodes; ``b`` and ``right`` are None where ``a`` and
    ``left`` describe the K children themselves.
    """

    a: Tensor  # (F, A, N) or (F, K, N), values relative to the largest
    b: Tensor | None  # (F, B, N), likewise on the right
    left: Tensor | None  # covariance of the left nodes, or of the children
    right: Tensor | None  # covariance of the right nodes

    def cut(self, folds: slice, rows: slice) -> Children:
        """The children of some folds and rows."""
        b = None if self.b is None else self.b[folds, :, rows]
        return Children(self.a[folds, :, rows], b, _cut(self.left, folds, rows), _cut(self.right, folds, rows))

    @property
    def certain(self) -> bool:
        """Whether no child has any variance."""
        return self.left is None and self.right is None

    @property
    def correlated(self) -> bool:
        """Whether some child has a covariance matrix, not only variances."""
        return any(x is not None and x.ndim == 4 for x in (self.left, self.right))

    def values(self) -> Tensor:
        """Values of the children: (F, K, N)."""
        return self.a if self.b is None else pair_products(self.a, self.b)

    def second_moments(self) -> tuple[Tensor, Tensor | None]:
        """value^2 (1 + R) of the children, or of the left and of the right nodes: those of pairs are their products."""
        left = self.a * self.a * (1.0 + variances(self.left, self.a))
        return left, None if self.b is None else self.b * self.b * (1.0 + variances(self.right, self.b))

    def spread(self) -> Tensor:
        """Relative variances of the children: (F, K, N)."""
        left = variances(self.left, self.a)
        if self.b is None:
            return left
        right = variances(self.right, self.b)
        return pair_sums(left, right) + pair_products(left, right)


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


def multiply(left: Tensor | None, right: Tensor | None, like: Tensor) -> Tensor | None:
    """Covariance of element-wise products of independent nodes: R_l + R_r + R_l R_r."""
    if left is None or right is None:
        return right if left is None else left
    if left.ndim != right.ndim:
        left, right = as_matrix(left, like), as_matrix(right, like)
    return left + right + left * right


def sum_variance(weights: Tensor, children: Children, sums: Tensor, noise: SumNoise, correlated: bool) -> Tensor | None:
    """Variances (F, S, N) of a layer's sums when covariances between children are not tracked.

    Parameters
    ----------
    weights : (F, S, K)
    children : Children
        With variances only.
    sums : (F, S, N)
        The weighted sums of the children's values.
    noise : SumNoise
        How the weights vary.
    correlated : bool
        Take the children as fully correlated (upper bound) instead of uncorrelated (lower bound).
    """
    if noise.certain and children.certain:
        return None

    kept_dtype = sums.dtype
    limit = saturation(kept_dtype)
    weights, children, sums = _wide_enough(weights, children, sums)
    floor = _floored(sums)
    passed = torch.zeros_like(floor)
    if not children.certain:
        spread = _correlated(weights, children, floor) if correlated else _uncorrelated(weights, children, floor)
        passed = spread.clamp_max(limit)
    if not noise.certain:
        every = slice(0, len(weights))
        moments = sum_products(noise.squares(weights, every), *children.second_moments(), digits=noise.digits)
        passed = passed + noise.of_sums(moments / floor / floor, passed, every)
    return passed.clamp_max(limit).to(kept_dtype)


def _uncorrelated(weights: Tensor, children: Children, scale: Tensor) -> Tensor:
    """The relative variance (F, S, N) that children give to sums if they are uncorrelated."""
    squares = weights * weights
    left = children.a * children.a
    spread = left * variances(children.left, left)
    if children.b is None:
        return sum_products(squares, spread, None, digits="five") / scale / scale
    right = children.b * children.b
    right_spread = right * variances(children.right, right)
    # Of pairs, 1 + R is the product of both sides': what is left without the 1 are two products, both positive.
    total = torch.zeros_like(scale)
    if children.left is not None:
        total = sum_products(squares, spread, right + right_spread, digits="five")
    if children.right is not None:
        total = total + sum_products(squares, left, right_spread, digits="five")
    return total / scale / scale


def _correlated(weights: Tensor, children: Children, scale: Tensor) -> Tensor:
    """The same if they are fully correlated."""

    def compute(folds: slice, rows: slice, _: Scratch) -> Tensor:
        part = children.cut(folds, rows)
        deviation = torch.bmm(weights[folds], part.values() * sqrt_or_zero(part.spread())) / scale[folds, :, rows]
        return deviation * deviation

    n_folds, _, n_rows = scale.shape
    entry_bytes = 3 * weights.shape[-1] * scale.element_size()
    return map_tiles(compute, n_folds, n_rows, entry_bytes, scale.device, row_axis=2)


def sum_covariance(weights: Tensor, children: Children, sums: Tensor, noise: SumNoise) -> Tensor | None:
    """Covariance of a layer's sums, exactly. Parameters are those of :func:`sum_variance`."""
    if noise.certain and children.certain:
        return None
    kept_dtype = sums.dtype
    weights, children, sums = _wide_enough(weights, children, sums)
    n_folds, n_sums, n_rows = sums.shape
    child_bytes = weights.shape[-1] * sums.element_size()
    floor = _floored(sums)
    limit = saturation(kept_dtype)
    a, b, left, right = children
    fused = b is not None and takes_pair_covariance(weights, a, b, left, right)

    def own(folds: slice, rows: slice, _: Scratch, spread: Tensor | float = 0.0) -> Tensor:
        """What only a sum's own variance gets from its weights, given that of its children: (F, S, N)."""
        part, scale = children.cut(folds, rows), floor[folds, :, rows]
        moments = sum_products(noise.squares(weights[folds], folds), *part.second_moments(), digits=noise.digits)
        return noise.of_sums(moments / scale / scale, spread, folds)

    def matrix(folds: slice, rows: slice, scratch: Scratch) -> Tensor:
        """The whole covariance: (F, N, S, S)."""
        w, part, scale = weights[folds], children.cut(folds, rows), floor[folds, :, rows]
        if fused and part.b is not None:
            masks = MaskOdds(noise.odds, noise.shared)
            total = pair_covariance(w, part.a, part.b, part.left, part.right, scale, masks, limit, noise.digits)
            if noise.common is not None:  # in place: the rest of the matrix is not touched again
                variance = total.diagonal(dim1=-2, dim2=-1)
                variance += own(folds, rows, scratch, variance.mT).mT
                variance.clamp_max_(limit)
            return total
        total = (
            _propagated(w, part, noise.odds if noise.shared else 0.0, scratch)
            / scale.mT.unsqueeze(-1)
            / scale.mT.unsqueeze(-2)
        )
        if noise.own:
            spread = total.diagonal(dim1=-2, dim2=-1).mT.clamp_max(limit)
            total = total + torch.diag_embed(own(folds, rows, scratch, spread).mT)
        return total.clamp_max(limit).to(kept_dtype)

    untiled = fused and b is not None and not holds_parts(weights, a, b, left, right)
    whole = slice(0, n_folds), slice(0, n_rows), Scratch()
    if children.certain and noise.own:
        entry_bytes = 2 * child_bytes
        total = own(*whole) if untiled else map_tiles(own, n_folds, n_rows, entry_bytes, sums.device, row_axis=2)
        return total.clamp_max(limit).to(kept_dtype)
    if untiled:
        return matrix(*whole)
    width = n_sums if children.correlated else 4
    return map_tiles(matrix, n_folds, n_rows, width * child_bytes, sums.device, row_axis=1)


def join_variances(shares: Tensor, covariances: list[Tensor | None], like: list[Tensor]) -> Tensor:
    """Variances (1, C, N) of sums over independent repetitions, each with a share (R, C, N) of the mean."""
    stacked = torch.cat([variances(c, x) for c, x in zip(covariances, like, strict=True)])
    return (shares * shares * stacked).sum(0, keepdim=True)


def join_covariances(shares: Tensor, covariances: list[Tensor | None], like: list[Tensor]) -> Tensor:
    """Covariance (1, N, C, C) of sums over independent repetitions, each with a share (R, C, N) of the mean."""
    stacked = torch.cat([as_matrix(c, x) for c, x in zip(covariances, like, strict=True)])
    parts = shares.mT
    return (parts.unsqueeze(-1) * parts.unsqueeze(-2) * stacked).sum(0, keepdim=True)


def less_variance(covariance: Tensor, variance: Tensor) -> Tensor:
    """A covariance (F, N, S, S), or variances (F, S, N), with variances that are smaller by (F, S, 1), at least 0."""
    if covariance.ndim == 3:
        return (covariance - variance).clamp_min(0.0)
    own = (variances(covariance, covariance) - variance).clamp_min(0.0)
    diagonal = torch.eye(covariance.shape[-1], dtype=torch.bool, device=covariance.device)
    return torch.where(diagonal, own.mT.unsqueeze(-1), covariance)


def _propagated(weights: Tensor, children: Children, mask_odds: float, scratch: Scratch) -> Tensor:
    """What the children's covariance and the masks they share contribute, unnormalised: (F, N, S, S)."""
    terms: list[Tensor] = []
    diagonal = _of_masks(children, mask_odds) if mask_odds > 0.0 else None  # (F, K, N)
    a, b, left, right = children
    if b is None and children.correlated and left is not None:
        terms.append(_sandwich(weights, _scaled(left, a)))
    elif b is None and left is not None:
        diagonal = _plus(diagonal, a * a * left)
    elif b is not None:
        if right is not None:
            terms.append(_quadratic(_right_marginals(weights, a, b), right, b))
        if left is not None and right is not None and children.correlated:
            scaled = _scaled(as_matrix(left, a), a), _scaled(1.0 + as_matrix(right, b), b)
            terms.append(_chain(weights, *scaled, scratch))
        elif left is not None:
            terms.append(_quadratic(_left_marginals(weights, a, b), left, a))
            if right is not None:
                diagonal = _plus(diagonal, pair_products(a * a * left, b * b * right))
    if diagonal is not None:
        terms.append(_gram(weights, diagonal, scratch))
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _of_masks(children: Children, odds: float) -> Tensor:
    """Variances of the children from masks that all sums share: (F, K, N)."""
    left, right = children.second_moments()
    return odds * (left if right is None else pair_products(left, right))


def _plus(x: Tensor | None, y: Tensor) -> Tensor:
    return y if x is None else x + y


def _sandwich(weights: Tensor, matrix: Tensor) -> Tensor:
    """W M W' for every row: (F, S, K), (F, N, K, K) -> (F, N, S, S)."""
    n_rows, n_children = matrix.shape[1:3]
    half = torch.bmm(matrix.flatten(1, 2), weights.mT).unflatten(1, (n_rows, n_children)).mT  # (F, N, S, K)
    return torch.bmm(half.flatten(1, 2), weights.mT).unflatten(1, (n_rows, weights.shape[1]))


def _chain(weights: Tensor, left: Tensor, right: Tensor, scratch: Scratch) -> Tensor:
    """sum W_s[l, r] left[l, l'] W_t[l', r'] right[r, r'] for every row: (F, N, A, A), (F, N, B, B) -> (F, N, S, S)."""
    n_folds, n_rows, n_left, _ = left.shape
    n_right, n_sums = right.shape[-1], weights.shape[1]
    pairwise = weights.view(n_folds, n_sums, n_left, n_right)
    by_right = pairwise.permute(0, 3, 1, 2).reshape(n_folds, n_right, n_sums * n_left)  # [r', (t, l')]
    flat = pairwise.permute(0, 3, 2, 1).reshape(n_folds, n_right * n_left, n_sums)  # [(r, l), s]

    def out(name: str, *shape: int) -> Tensor | None:
        return scratch.out(name, shape, weights)

    shape = (n_folds, n_rows * n_right, n_sums * n_left)
    step = torch.bmm(right.reshape(n_folds, n_rows * n_right, n_right), by_right, out=out("first", *shape))
    step = step.view(n_folds * n_rows, n_right * n_sums, n_left)  # [n, (r, t), l']
    step = torch.bmm(step, left.reshape(-1, n_left, n_left), out=out("second", *step.shape))
    step = step.view(n_folds, n_rows, n_right, n_sums, n_left).transpose(2, 3)  # [n, t, r, l]
    ordered = out("first", *step.shape)  # the first step is no longer needed
    step = step.contiguous() if ordered is None else ordered.copy_(step)
    total = torch.bmm(step.view(n_folds, n_rows * n_sums, n_right * n_left), flat)
    return total.view(n_folds, n_rows, n_sums, n_sums)


def _gram(weights: Tensor, diagonal: Tensor, scratch: Scratch) -> Tensor:
    """sum_k W_s[k] W_t[k] diagonal[k] for every row: (F, S, K), (F, K, N) -> (F, N, S, S)."""
    n_folds, n_sums, n_children = weights.shape
    shape = (n_folds, n_sums, n_sums, n_children)
    products = torch.mul(weights.unsqueeze(2), weights.unsqueeze(1), out=scratch.out("gram", shape, weights))
    return torch.bmm(diagonal.mT, products.flatten(1, 2).mT).unflatten(2, (n_sums, n_sums))


def _left_marginals(weights: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """sum_r W_s[l, r] b_r for every row: (F, N, S, A)."""
    n_folds, n_sums, _ = weights.shape
    by_right = weights.view(n_folds, n_sums * a.shape[1], b.shape[1]).mT
    return torch.bmm(b.mT, by_right).view(n_folds, b.shape[2], n_sums, a.shape[1])


def _right_marginals(weights: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """sum_l W_s[l, r] a_l for every row: (F, N, S, B)."""
    mirrored = weights.unflatten(2, (a.shape[1], b.shape[1])).mT.flatten(2)
    return _left_marginals(mirrored, b, a)


def _quadratic(marginals: Tensor, covariance: Tensor, values: Tensor) -> Tensor:
    """m C m' with C_ij = R_ij x_i x_j for every row: (F, N, S, B), any form of R, (F, B, N) -> (F, N, S, S)."""
    if covariance.ndim == 3:
        return (marginals * (covariance * values * values).mT.unsqueeze(-2)) @ marginals.mT
    return marginals @ _scaled(covariance, values) @ marginals.mT


def _scaled(matrix: Tensor, values: Tensor) -> Tensor:
    """R_ij x_i x_j for every row: (F, N, S, S), (F, S, N) -> (F, N, S, S)."""
    rows = values.mT
    return matrix * rows.unsqueeze(-1) * rows.unsqueeze(-2)


def _wide_enough(weights: Tensor, children: Children, sums: Tensor) -> tuple[Tensor, Children, Tensor]:
    """The same in float64 where squares of the smallest sum would leave the range of the type."""
    if sums.dtype == torch.float64 or not sums.numel() or sums.device.type == "mps":
        return weights, children, sums
    smallest = torch.finfo(sums.dtype).tiny ** 0.5 / torch.finfo(sums.dtype).eps ** 0.5
    if holds(sums, lambda: sums.detach().amin() > smallest):
        return weights, children, sums
    b, left, right = (None if part is None else part.double() for part in children[1:])
    wide, widened = weights.double(), Children(children.a.double(), b, left, right)

    return wide, widened, sum_products(wide, widened.a, widened.b)


def _floored(sums: Tensor) -> Tensor:
    """The sums to divide by, positive where a sum is 0."""
    return sums.clamp_min(torch.finfo(sums.dtype).tiny)


def _cut(covariance: Tensor | None, folds: slice, rows: slice) -> Tensor | None:
    if covariance is None:
        return None
    return covariance[folds, rows] if covariance.ndim == 4 else covariance[folds, :, rows]
