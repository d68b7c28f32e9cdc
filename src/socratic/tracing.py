"""Whether torch computes now, or records what it is to compute later."""

from __future__ import annotations

import torch
from torch import Tensor


def is_recording(x: Tensor) -> bool:
    """Whether operations are being traced or captured, so that values cannot be looked at."""
    return torch.compiler.is_compiling() or (x.is_cuda and torch.cuda.is_current_stream_capturing())
