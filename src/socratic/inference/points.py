"""Fixed points in many dimensions, and the roots of covariances that carry them to Gaussians."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from socratic.numerics import scale_dtype, sqrt_or_zero
from socratic.tracing import is_exporting, is_recording

_MAX_SOBOL_DIMENSIONS = 21_201
"""The most that torch has a sequence for."""
_ROUNDING = 8.0
"""Multiples of the machine epsilon that are added to the variances, relative to the largest."""
_RESCUE = 1e3
"""Multiples of that for a matrix which is still not positive definite."""
_JITTER = 1e-12
"""Variance added to every logarithm: the root of a covariance of 0 then has a gradient."""


@lru_cache(maxsize=8)
def uniform_points(n_points: int, n_dimensions: int) -> Tensor:
    """Fixed points (n_points, n_dimensions) spread evenly in the unit cube, with their mirror images, in float64.

    A scrambled Sobol sequence; in more dimensions than there is one for, pseudo-random points.
    """
    half = n_points // 2
    if n_dimensions <= _MAX_SOBOL_DIMENSIONS:
        engine = torch.quasirandom.SobolEngine(n_dimensions, scramble=True, seed=0)
        points = engine.draw(half, dtype=torch.float64)
    else:
        points = torch.rand(half, n_dimensions, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = points.clamp(1e-9, 1.0 - 1e-9)
    return torch.cat([points, 1.0 - points])


def common_first(n: int, like: Tensor) -> Tensor:
    """An orthogonal matrix (n, n) whose first row is the common direction (1, ..., 1) / sqrt(n): Helmert's."""
    index = torch.arange(n, dtype=like.dtype, device=like.device)
    row, column = index.unsqueeze(1), index.unsqueeze(0)
    norm = torch.sqrt(row * (row + 1.0)).clamp_min(1.0)
    helmert = torch.where(column < row, 1.0, torch.where(column == row, -row, 0.0)) / norm
    return torch.where(row == 0, 1.0 / math.sqrt(n), helmert)


def covariance_root(covariance: Tensor) -> Tensor:
    """A root L (..., C, C), L L' = V, whose first column moves all classes alike as far as it can.

    The likelihoods of a row move together by many nats, which the posterior hardly sees: that direction gets a
    dimension of its own. Unlike that of an eigenvalue root, the gradient is defined everywhere.
    """
    wide = covariance.to(scale_dtype(covariance))
    rotation = common_first(wide.shape[-1], wide)
    rotated = rotation @ (0.5 * (wide + wide.mT)) @ rotation.mT
    largest = wide.detach().diagonal(dim1=-2, dim2=-1).amax(-1, keepdim=True)
    rounding = torch.diag_embed(
        (_ROUNDING * torch.finfo(covariance.dtype).eps * largest + _JITTER).expand_as(wide[..., 0])
    )
    if is_exporting():
        return rotation.mT @ _cholesky(rotated + rounding)
    factor, failed = torch.linalg.cholesky_ex(rotated + rounding)
    if not is_recording(covariance) and bool(failed.any()):
        # Rounding has left a negative eigenvalue beyond what was added: add as much as it takes.
        safe, lost = torch.linalg.cholesky_ex(rotated + _RESCUE * rounding)
        # Where covariances were cut off at the largest number, no rounding explains them: only variances are left.
        alone = torch.diag_embed(sqrt_or_zero(rotated.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)))
        safe = torch.where((lost > 0)[..., None, None], alone, safe)
        factor = torch.where((failed > 0)[..., None, None], safe, factor)
    return rotation.mT @ factor


def _cholesky(matrix: Tensor) -> Tensor:
    """The lower factor of matrices (..., C, C), written out; a pivot that rounding made negative counts as 0."""
    rows = torch.arange(matrix.shape[-1], device=matrix.device)
    columns = []
    for place in range(matrix.shape[-1]):
        pivot = matrix[..., place, place].unsqueeze(-1)
        below = (rows >= place) & (pivot > 0)
        column = torch.where(below, matrix[..., place] / sqrt_or_zero(pivot).clamp_min(_JITTER), 0.0)
        matrix = matrix - column.unsqueeze(-1) * column.unsqueeze(-2)
        columns.append(column)
    return torch.stack(columns, dim=-1)
