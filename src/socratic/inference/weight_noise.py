"""The noise of Dirichlet weights in the logarithm of their sum."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.numerics import digamma

_SMALL = 0.1
"""Relative variance up to which a series has all digits."""


def log_noise(relative: Tensor) -> Tensor:
    """Variance that the weights of a sum S give to log S, from the relative variance v that they give to S.

    A sum of Dirichlet weights is nearly a gamma variate, of shape 1 / v. This is the variance of the log-normal with
    the same mean and the same E[S log S], which is what the information in a class depends on: nearly v where that is
    small, and 2 log v where it is large, as for a child that was hardly ever used and has a sum to itself.
    """
    small, large = relative.clamp(0.0, _SMALL), relative.clamp_min(_SMALL)
    series = small * (1.0 - small / 6.0 + small**3 / 60.0)
    return torch.where(relative < _SMALL, series, 2.0 * (digamma(1.0 + 1.0 / large) + torch.log(large)))
