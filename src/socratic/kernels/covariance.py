"""Covariances of sums over all pairs, as one kernel for every row that keeps what is between in registers.

On a GPU there are two: one for few nodes, and one that multiplies tiles on tensor cores.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.kernels import processor
from socratic.kernels.choice import MOST_NODES, Digits, padded, precision, rows_of_program, takes_kernel
from socratic.kernels.processor import takes_processor_kernel
from socratic.kernels.small_covariance import small_covariance, takes_small_covariance
from socratic.kernels.sums import sums_of_pairs


class MaskOdds(NamedTuple):
    """The odds that a child is dropped, from all sums together or from each by itself."""

    odds: float
    shared: bool

    @property
    def of_all(self) -> float:
        """From all sums together."""
        return self.odds if self.shared else 0.0

    @property
    def of_one(self) -> float:
        """From each sum by itself."""
        return 0.0 if self.shared else self.odds


def takes_pair_covariance(weights: Tensor, a: Tensor, b: Tensor, left: Tensor | None, right: Tensor | None) -> bool:
    """Whether the kernel takes a layer of these weights, values and covariances."""
    sides = weights.shape[1], a.shape[1], b.shape[1]
    if takes_processor_kernel(weights, a, b, *(part for part in (left, right) if part is not None)):
        return max(sides) <= MOST_NODES
    return takes_kernel(weights, a, b, sides=sides)


def holds_parts(weights: Tensor, a: Tensor, b: Tensor, left: Tensor | None, right: Tensor | None) -> bool:
    """Whether the kernel that takes a layer holds large parts of the result besides it."""
    return not processor.computes(weights) and not takes_small_covariance(weights, a, b, left, right)


def pair_covariance(
    weights: Tensor,
    a: Tensor,
    b: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    sums: Tensor,
    masks: MaskOdds,
    limit: float,
    digits: Digits = "all",
) -> Tensor:
    """Relative covariance of the sums over all pairs.

    With L and R the covariances of both sides, times the values, the covariance of s and t is

        sum_lr (W_s L R)_lr W_tlr + (a W_s) R (a W_t) + (W_s b) L (W_t b) + odds * sum_lr W_slr W_tlr E[a_l^2] E[b_r^2]

    over the product of both sums; the last term is there where s = t, or for all s and t if they share their masks. All
    terms are positive: nothing cancels. Where L and R are diagonal, the first term is a sum over pairs with weights
    W_s W_t that all rows share, as the last one is.

    Parameters
    ----------
    weights : (F, S, A * B)
    a, b : (F, A, N), (F, B, N)
        Values of the left and of the right nodes.
    left, right : (F, A, N) or (F, N, A, A), or None
        Their relative variances or covariances.
    sums : (F, S, N)
        The sums, all positive.
    masks : MaskOdds
        How likely children are dropped.
    limit : float
        The largest covariance that is kept.
    digits : {"five", "all"}
        How many are needed; see :func:`~socratic.kernels.choice.precision`.

    Returns
    -------
    Tensor (F, N, S, S)
    """
    if processor.computes(weights):
        return processor.pair_covariance(weights, a, b, left, right, sums, masks.of_all, masks.of_one, limit)
    own = _own(weights, a, b, left, right, sums, masks.of_one, digits) if masks.of_one > 0.0 else None
    if takes_small_covariance(weights, a, b, left, right):
        known = _of_masks(weights, a, b, left, right, masks.of_all, digits)
        return small_covariance(weights, a, b, left, right, sums, known, own, limit)
    from socratic.kernels.programs import pair_covariance_kernel

    n_folds, n_sums, _ = weights.shape
    n_left, n_rows = a.shape[1:]
    n_right = b.shape[1]
    if left is not None and right is not None and left.ndim != right.ndim:
        left, right = (x if x.ndim == 4 else torch.diag_embed(x.mT) for x in (left, right))
    start = _shared(weights, a, b, left, right, masks.of_all, digits)
    how = precision(digits)
    of_left, of_right = a.mT.contiguous(), b.mT.contiguous()  # (F, N, A), (F, N, B)
    left, right = _by_row(left, of_left), _by_row(right, of_right)
    parts = _parts(_by_right(weights, n_right), how)
    matrices = left.ndim == right.ndim == 4
    passed = parts  # not read unless both sides have matrices
    if matrices:
        passed = _times_weights(right.flatten(1, 2), parts, how, values=of_right, in_parts=how == "bf16x3")
    out = weights.new_empty(n_folds, n_rows, n_sums, n_sums)
    with torch.cuda.device_of(weights):
        pair_covariance_kernel[(n_rows, n_folds)](
            *parts,
            *passed,
            out if start is None else start,
            of_left,
            of_right,
            left,
            right,
            _times_weights(of_right, parts, how)[0],
            _times_weights(of_left, _parts(_by_left(weights, n_left), how), how)[0],
            sums.mT.contiguous(),
            out,
            n_rows,
            limit,
            n_sums=n_sums,
            n_left=n_left,
            n_right=n_right,
            sum_side=padded(n_sums),
            left_side=padded(n_left),
            right_side=padded(n_right),
            left_matrix=left.ndim == 4,
            right_matrix=right.ndim == 4,
            started=start is not None,
            precision=how,
            num_warps=1 if max(n_left, n_sums) <= 32 else 4,
        )
    if own is not None:  # in place: the rest of the matrix is not touched again
        variance = out.diagonal(dim1=-2, dim2=-1)
        variance += own.mT
        variance.clamp_max_(limit)
    return out


def _own(
    weights: Tensor,
    a: Tensor,
    b: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    sums: Tensor,
    mask_odds: float,
    digits: Digits,
) -> Tensor:
    """What masks of its own add to the relative variance of each sum: (F, S, N)."""
    moments = a * a * (1.0 + _variances(left)), b * b * (1.0 + _variances(right))
    return sums_of_pairs((weights * weights).mul_(mask_odds), *moments, digits=digits) / sums / sums


def marginals(weights: Tensor, left: Tensor, right: Tensor, digits: Digits) -> tuple[Tensor, Tensor]:
    """Weights times the values of one side, for every node of the other.

    Parameters
    ----------
    weights : (F, S, A * B)
    left, right : (F, N, A), (F, N, B)
    digits : {"five", "all"}

    Returns
    -------
    tuple of (F, N, S, A) and (F, N, S, B)
    """
    how, n_sums = precision(digits), weights.shape[1]
    by_right, by_left = _by_right(weights, right.shape[2]), _by_left(weights, left.shape[2])
    of_left = _times_weights(right.contiguous(), _parts(by_right, how), how)[0]
    of_right = _times_weights(left.contiguous(), _parts(by_left, how), how)[0]
    return of_left.unflatten(2, (n_sums, -1)), of_right.unflatten(2, (n_sums, -1))


def _by_left(weights: Tensor, n_left: int) -> Tensor:
    """The weights (F, S, A * B) with the left nodes first: (F, A, S * B)."""
    return weights.unflatten(2, (n_left, -1)).transpose(1, 2).flatten(2).contiguous()


def _by_right(weights: Tensor, n_right: int) -> Tensor:
    """The weights (F, S, A * B) with the right nodes first: (F, B, S * A)."""
    return weights.unflatten(2, (-1, n_right)).permute(0, 3, 1, 2).flatten(2).contiguous()


def _shared(
    weights: Tensor,
    a: Tensor,
    b: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    mask_odds: float,
    digits: Digits,
) -> Tensor | None:
    """The terms with weights that all rows share, of s <= t: (F, N, S (S + 1) / 2); None if there are none."""
    of_masks = _of_masks(weights, a, b, left, right, mask_odds, digits)
    if left is None or right is None or left.ndim != 3 or right.ndim != 3:
        return of_masks
    of_children = sums_of_pairs(_by_pair(weights), a * a * left, b * b * right, by_row=True, digits=digits)
    return of_children if of_masks is None else of_children + of_masks


def _of_masks(
    weights: Tensor,
    a: Tensor,
    b: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    odds: float,
    digits: Digits,
) -> Tensor | None:
    """What masks that all sums share add to s <= t, times both sums: (F, N, S (S + 1) / 2); None without any."""
    if odds == 0.0:
        return None
    moments = odds * a * a * (1.0 + _variances(left)), b * b * (1.0 + _variances(right))
    return sums_of_pairs(_by_pair(weights), *moments, by_row=True, digits=digits)


def _by_pair(weights: Tensor) -> Tensor:
    """Products of the weights of s <= t: (F, S (S + 1) / 2, A * B)."""
    first, last = torch.triu_indices(weights.shape[1], weights.shape[1], device=weights.device)
    return weights[:, first] * weights[:, last]


def _variances(covariance: Tensor | None) -> Tensor | float:
    """Variances (F, A, N) in any form of covariance."""
    if covariance is None:
        return 0.0
    return covariance.diagonal(dim1=-2, dim2=-1).mT if covariance.ndim == 4 else covariance


def _times_weights(
    lines: Tensor, weights: tuple[Tensor, Tensor], how: str, *, values: Tensor | None = None, in_parts: bool = False
) -> tuple[Tensor, Tensor]:
    """Lines (F, M, B) times the parts (F, B, W) of weights: (F, M, W), in parts if those are asked for.

    Lines are those of matrices of relative covariances where ``values`` (F, N, B) are given to multiply them with.
    """
    from socratic.kernels.programs import times_weights_kernel

    n_folds, n_lines, n_nodes = lines.shape
    n_weights = weights[0].shape[-1]
    lead = weights[0].new_empty(n_folds, n_lines, n_weights, dtype=weights[0].dtype if in_parts else lines.dtype)
    rest = torch.empty_like(lead) if in_parts else lead
    block = rows_of_program(n_folds, n_lines, most=64)
    with torch.cuda.device_of(lines):
        times_weights_kernel[(-(-n_lines // block), n_folds)](
            lines,
            lines if values is None else values,
            *weights,
            lead,
            rest,
            n_lines,
            n_nodes=n_nodes,
            n_weights=n_weights,
            side=padded(n_nodes),
            block=block,
            width=64,
            relative=values is not None,
            in_parts=in_parts,
            precision=how,
            num_warps=2,
        )
    return lead, rest


def _parts(values: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """Leading digits of values and the next ones, as kernels multiply them."""
    if how == "bf16x3":
        lead = values.bfloat16()
        return lead, (values - lead).bfloat16()
    lead = ((values.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
    return lead, values - lead


def _by_row(covariance: Tensor | None, like: Tensor) -> Tensor:
    """Variances (F, N, A), zeros if there are none, or matrices (F, N, A, A); ``like`` is (F, N, A)."""
    if covariance is None:
        return torch.zeros_like(like)
    return covariance.contiguous() if covariance.ndim == 4 else covariance.mT.contiguous()
