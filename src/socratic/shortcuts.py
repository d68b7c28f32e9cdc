"""Which shortcuts queries take. Results are the same without them, to the accuracy of the type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.tracing import is_recording


class Shortcuts(NamedTuple):
    """What may be taken."""

    graphs: bool = True
    kernels: bool = True


_ALL = Shortcuts()
_allowed: ContextVar[Shortcuts] = ContextVar("_allowed", default=_ALL)


def allowed_shortcuts() -> Shortcuts:
    """What may be taken here and now."""
    return _allowed.get()


def may_replay(rows: Tensor) -> bool:
    """Whether a query of these rows may be recorded, or replayed."""
    return (
        not torch.compiler.is_compiling()
        and rows.is_cuda
        and type(rows) is Tensor  # not one that a library or torch itself put in its place
        and len(rows) > 0
        and allowed_shortcuts().graphs
        and not torch.is_grad_enabled()
        and not is_recording(rows)
        and not torch.is_autocast_enabled("cuda")
    )


@contextmanager
def acceleration(*, graphs: bool = True, kernels: bool = True) -> Iterator[None]:
    """Decide which shortcuts the queries of this block of code take: all of them by default.

    Parameters
    ----------
    graphs : bool
        On a CUDA GPU, record a query that comes again with rows of the same shape, and replay it from then on. Only
        log-likelihoods and moments over dropout masks are recorded, of a :class:`~socratic.Circuit`, and only where
        no gradients are. The recordings of a circuit hold at most 4 GB, or an eighth of the GPU's memory.
    kernels : bool
        Evaluate leaves, sums and covariances by kernels of this library, in float32. On a processor they are those
        that were compiled when the library was installed, and sums have gradients, too. On a GPU they need Triton,
        which comes with torch for CUDA, as does the compiler that some of them are compiled by when they are first
        needed, and an NVIDIA GPU of 2020 or later; none of them has gradients. Products of matrices keep float32's
        digits, unless on a GPU ``torch.set_float32_matmul_precision`` allows fewer.
    """
    token = _allowed.set(Shortcuts(graphs, kernels))
    try:
        yield
    finally:
        _allowed.reset(token)
