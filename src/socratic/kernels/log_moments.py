"""Log-moments of sums over all pairs: the children that matter most, and what moving children do to the sums."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.kernels import processor
from socratic.kernels.choice import padded, precision, takes_kernel
from socratic.kernels.covariance import marginals
from socratic.kernels.processor import Moving, takes_processor_kernel

_MOST_OF_A_WARP = 1024
"""Children of a row that one warp looks through."""


def takes_top_shares(weights: Tensor, left: Tensor, right: Tensor) -> bool:
    """Whether the kernel takes the sums over all pairs of these values (F, N, A) and (F, N, B)."""
    sides = weights.shape[1], left.shape[2], right.shape[2]
    return takes_processor_kernel(weights, left, right) or takes_kernel(weights, left, right, sides=sides)


def top_shares_of_pairs(
    weights: Tensor, left: Tensor, right: Tensor, inverse: Tensor, n_shares: int, rounding: float
) -> tuple[Tensor, Tensor]:
    """Shares of the pairs that matter most to the sums over all of them.

    Parameters
    ----------
    weights : (F, S, A * B)
    left, right : (F, N, A), (F, N, B)
        Values.
    inverse : (F, N, S)
        One over the sums, 0 for those that are 0.
    n_shares : int
        How many are chosen, M.
    rounding : float
        What the others share is 0 below this.

    Returns
    -------
    tuple of (F, N, M, S) and (F, N, S)
        Shares of those pairs, and of all others together.
    """
    if processor.computes(weights):
        return processor.top_shares(weights, left, right, inverse, n_shares, rounding)
    from socratic.kernels.log_programs import top_shares_kernel

    n_folds, n_sums, n_pairs = weights.shape
    n_rows = left.shape[1]
    shares = weights.new_empty(n_folds, n_rows, n_shares, n_sums)
    rest = weights.new_empty(n_folds, n_rows, n_sums)
    width = 1 << (n_pairs - 1).bit_length()
    with torch.cuda.device_of(weights):
        top_shares_kernel[(n_rows, n_folds)](
            torch.bmm(inverse, weights),
            weights.mT.contiguous(),
            left.contiguous(),
            right.contiguous(),
            inverse.contiguous(),
            shares,
            rest,
            n_rows,
            rounding,
            n_sums=n_sums,
            n_left=left.shape[2],
            n_right=right.shape[2],
            n_shares=n_shares,
            sum_side=padded(n_sums),
            share_side=padded(n_shares),
            width=width,
            num_warps=max(1, min(8, width // _MOST_OF_A_WARP)),
        )
    return shares, rest


def takes_moved(weights: Tensor, left: Moving, right: Moving) -> bool:
    """Whether the kernel takes sums over all pairs of nodes that move in these ways."""
    alike = (left.covariance is None) == (right.covariance is None)
    matrices = all(side.covariance is None or side.covariance.ndim == 4 for side in (left, right))
    # With fewer, not all of three masks would be there to be enumerated.
    enough = all(min(side.shares.shape[2:]) > 3 and side.shares.shape[2] <= 16 for side in (left, right))
    parts = [part for side in (left, right) for part in side if part is not None]
    sides = weights.shape[1], left.values.shape[2], right.values.shape[2]
    taken = takes_processor_kernel(weights, *parts) or takes_kernel(weights, *parts, sides=sides)
    return alike and matrices and enough and taken


def moved_sums_of_pairs(
    weights: Tensor,
    sides: tuple[Moving, Moving],
    rate: float,
    negligible: float,
    deep_fall: float,
    *,
    shared: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the moves of both sides' nodes do to the sums over all pairs of them.

    Parameters
    ----------
    weights : (F, S, A * B)
    sides : two of Moving
    rate : float
        Of dropout.
    negligible, deep_fall : float
        When it does not matter that a sum is lost, and when one is: see the module of the masks and that of the sums.
    shared : bool
        Whether the sums of a region share their masks.

    Returns
    -------
    tuple of (F, N, S), (F, N, S), (F, N, S, S) and (F, N, 1)
        The sums, by how much the means of their logarithms move, the covariance of those, and the mean curvature,
        infinite where a sum is lost.
    """
    if processor.computes(weights):
        return processor.moved_sums(weights, sides, (rate, negligible, deep_fall), shared=shared)
    from socratic.kernels.log_programs import moved_kernel

    left, right = sides
    of_sides = marginals(weights, left.values, right.values, "five")
    like = of_sides[0]
    n_folds, n_rows, n_sums, n_left = like.shape
    n_right = right.values.shape[2]
    sums, mean = (like.new_empty(n_folds, n_rows, n_sums) for _ in range(2))
    covariance, curvature = (like.new_empty(n_folds, n_rows, n, n) for n in (n_sums, 1))
    with torch.cuda.device_of(like):
        moved_kernel[(n_rows, n_folds)](
            *(
                like if part is None else part.contiguous()
                for of_side, side in zip(of_sides, sides, strict=True)
                for part in (of_side, side.values, side.shares, side.rest, side.covariance)
            ),
            sums,
            mean,
            covariance,
            curvature,
            n_rows,
            rate,
            negligible,
            deep_fall,
            n_sums=n_sums,
            n_left=n_left,
            n_right=n_right,
            left_shares=left.shares.shape[2],
            right_shares=right.shares.shape[2],
            sum_side=padded(n_sums),
            left_side=padded(n_left),
            right_side=padded(n_right),
            matrices=left.covariance is not None,
            shared=shared,
            precision=precision("five"),
            num_warps=1 if max(n_left, n_right, n_sums) <= 32 else 4,
        )
    return sums, mean, covariance, curvature.squeeze(-1)
