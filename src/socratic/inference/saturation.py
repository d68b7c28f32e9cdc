"""Where relative variances are cut off, and the warning that some were."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from socratic.tracing import is_recording


def saturation(dtype: torch.dtype) -> float:
    """Where relative covariances are cut off, so that products of two stay finite."""
    return float(torch.finfo(dtype).max) ** 0.25


def warn_of_saturation(peaks: list[Tensor], rows: Tensor, kind: str, remedy: str, stacklevel: int) -> None:
    """Warn if the largest variances, ``peaks``, say that some were cut off in what ``rows`` were asked about."""
    if not is_recording(rows) and any(bool(peak >= saturation(peak.dtype)) for peak in peaks):
        warnings.warn(
            f"relative variances above {saturation(rows.dtype):.1g} were cut off there; "
            f"use {kind}.double() or {remedy}",
            RuntimeWarning,
            stacklevel=stacklevel,
        )
