"""Where relative variances are cut off, and the warning that some were."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from socratic.tracing import holds


def saturation(dtype: torch.dtype) -> float:
    """Where relative covariances are cut off, so that products of two stay finite."""
    return float(torch.finfo(dtype).max) ** 0.25


def warn_of_saturation(peaks: list[Tensor], rows: Tensor, kind: str, remedy: str, stacklevel: int) -> None:
    """Warn if the largest variances, ``peaks``, say that some were cut off in what ``rows`` were asked about."""
    if peaks and not holds(rows, lambda: ~(torch.stack(peaks) >= saturation(peaks[0].dtype)).any()):
        warnings.warn(
            f"relative variances above {saturation(rows.dtype):.1g} were cut off there; "
            f"use {kind}.double() or {remedy}",
            RuntimeWarning,
            stacklevel=stacklevel,
        )
