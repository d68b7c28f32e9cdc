"""Covariances of sums over all pairs: what lies between two products with the weights, as one kernel for every row."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.kernels.choice import padded, precision, takes_kernel


def takes_pair_covariance(weights: Tensor, a: Tensor, b: Tensor) -> bool:
    """Whether the kernel takes a layer of these weights and values."""
    return takes_kernel(weights, a, b, sides=(weights.shape[1], a.shape[1], b.shape[1]))


def pair_covariance(
    weights: Tensor, a: Tensor, b: Tensor, left: Tensor | None, right: Tensor | None, mask_odds: float
) -> Tensor:
    """Covariance of the sums over all pairs, before it is made relative.

    With L and R the covariances of both sides, times the values, every sum t has a matrix over its pairs

        U_t = (L + a a') W_t R + (L W_t b) b' + odds * W_t * (a^2 + L_ll) (b^2 + R_rr)'

    and the covariance of s and t is the sum of W_s * U_t. All of its terms are positive: nothing cancels.

    Parameters
    ----------
    weights : (F, S, A * B)
    a, b : (F, A, N), (F, B, N)
        Values of the left and of the right nodes.
    left, right : (F, A, N) or (F, N, A, A), or None
        Their relative variances or covariances.
    mask_odds : float
        Odds that a child is dropped from all sums together.

    Returns
    -------
    Tensor (F, N, S, S)
    """
    from socratic.kernels.programs import pair_covariance_kernel

    n_folds, n_sums, n_pairs = weights.shape
    n_left, n_rows = a.shape[1:]
    n_right = b.shape[1]
    mirrored = weights.view(n_folds, n_sums, n_left, n_right).mT.contiguous()  # [t, r, l]
    a, b = a.contiguous(), b.contiguous()
    left, right = _dense(left, a), _dense(right, b)
    passed = mirrored  # not read where the right nodes have no covariances
    if right.ndim == 4:
        scaled = right * b.mT.unsqueeze(-1) * b.mT.unsqueeze(-2)
        by_right = mirrored.transpose(1, 2).reshape(n_folds, n_right, n_sums * n_left)  # [r', (t, l)]
        passed = torch.bmm(scaled.flatten(1, 2), by_right)  # [n, r, t, l]
    out = weights.new_empty(n_folds, n_rows, n_sums, n_pairs)  # [n, t, r, l]
    with torch.cuda.device_of(weights):
        pair_covariance_kernel[(n_rows, n_folds)](
            mirrored,
            a,
            b,
            left,
            right,
            passed,
            out,
            n_rows,
            mask_odds,
            n_sums=n_sums,
            n_left=n_left,
            n_right=n_right,
            left_side=padded(n_left),
            right_side=padded(n_right),
            left_matrix=left.ndim == 4,
            right_matrix=right.ndim == 4,
            masked=mask_odds > 0.0,
            precision=precision(),
            num_warps=1 if max(n_left, n_right) <= 32 else 4,
        )
    return torch.bmm(out.flatten(1, 2), mirrored.flatten(2).mT).unflatten(1, (n_rows, n_sums))


def _dense(covariance: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if covariance is None else covariance.contiguous()
