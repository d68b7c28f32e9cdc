"""Whether torch computes now, or records what it is to compute later, and what a recording takes for granted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_presumed: ContextVar[list[Tensor] | None] = ContextVar("_presumed", default=None)


def is_exporting() -> bool:
    """Whether ``torch.export`` traces: for any number of rows, and with nothing that looks at values."""
    return hasattr(torch.compiler, "is_exporting") and torch.compiler.is_exporting()


def is_recording(x: Tensor) -> bool:
    """Whether operations are being traced or captured, so that values cannot be looked at."""
    return torch.compiler.is_compiling() or (x.is_cuda and torch.cuda.is_current_stream_capturing())


def holds(like: Tensor, condition: Callable[[], Tensor]) -> bool:
    """Whether a usual condition on values holds, a boolean that is computed on the device of ``like``.

    A recording takes it for granted. Within :func:`presuming` the condition becomes part of the recording, so that
    whoever replays it can ask afterwards.
    """
    if not is_recording(like):
        return bool(condition())
    if not torch.compiler.is_compiling() and (presumed := _presumed.get()) is not None:
        presumed.append(condition())
    return True


@contextmanager
def presuming() -> Iterator[list[Tensor]]:
    """Collect the conditions that a recording takes for granted: booleans without axes."""
    presumed: list[Tensor] = []
    token = _presumed.set(presumed)
    try:
        yield presumed
    finally:
        _presumed.reset(token)
