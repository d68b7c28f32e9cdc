"""Log-space numerics: the only place where exponentials and logarithms of densities are taken.

Shape legend, used throughout the library:

====  =======================================================================================
N     rows of a batch
V     variables (features)
C     classes
R     repetitions
F     folds: regions of equal shape that are evaluated together as one layer
A, B  nodes of a left and of a right child region
K     children of a sum: ``A * B`` for all pairs, ``A`` for element-wise products
S     sums of a region
I     leaves of a leaf region
====  =======================================================================================

Inside the queries rows come last, (F, nodes, N), so that every elementwise step runs over contiguous memory;
public arguments and results put rows first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_CACHE_BYTES = 5 * 2**19
_DEVICE_BYTES = 768 * 2**20


def finite_max(x: Tensor, dim: int = -2) -> Tensor:
    """Maximum over the nodes, kept, detached, and 0 where everything is minus infinity.

    Subtracting it never produces ``inf - inf``; its gradient cancels in every use, so it carries none.
    """
    return finite_or_zero(x.detach().amax(dim, keepdim=True))


def finite_or_zero(x: Tensor) -> Tensor:
    """``x`` with minus infinity, the logarithm of something dead, replaced by 0."""
    return x.nan_to_num(nan=math.nan, neginf=0.0, posinf=math.inf)


def scale_dtype(x: Tensor) -> torch.dtype:
    """The type in which common shifts of log-values are accumulated.

    Log-densities of thousands of variables are large, their differences between nodes are not: keeping the
    common shift apart, in float64, leaves float32 its digits for the differences. (Apple's GPUs have no
    float64.)
    """
    return torch.float32 if x.device.type == "mps" else torch.float64


def exp_shifted(log_values: Tensor) -> tuple[Tensor, Tensor]:
    """``exp(log_values - shift)`` and the shift (F, 1, N) that makes each row's largest node 1."""
    shift = finite_max(log_values)
    return torch.exp(log_values - shift), shift


def log_or_dead(x: Tensor) -> Tensor:
    """Logarithm that maps 0 to minus infinity, with a zero (not NaN) gradient there."""
    if not torch.is_grad_enabled():
        return torch.log(x)
    dead = x <= 0  # not the negation of x > 0: what is not a number stays so
    return torch.where(dead, -math.inf, torch.log(torch.where(dead, 1.0, x)))


def logsumexp_or_dead(x: Tensor, dim: int) -> Tensor:
    """Log-sum-exp that stays minus infinity, with zero gradients, where every term is; ``dim`` is kept."""
    top = finite_max(x, dim)
    return log_or_dead(torch.exp(x - top).sum(dim, keepdim=True)) + top


def sqrt_or_zero(x: Tensor) -> Tensor:
    """Square root that is 0 up to 0, with a zero (not infinite) gradient there."""
    zero = x <= 0
    return torch.where(zero, 0.0, torch.sqrt(torch.where(zero, 1.0, x)))


def pair_products(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """All products of a left with a right value: (F, A, N), (F, B, N) -> (F, A * B, N), written to ``out`` if given."""
    pairs = (left.shape[-2], right.shape[-2])
    target = None if out is None else out.unflatten(-2, pairs)
    return torch.mul(left.unsqueeze(-2), right.unsqueeze(-3), out=target).flatten(-3, -2)


def pair_sums(left: Tensor, right: Tensor) -> Tensor:
    """All sums of a left and a right value: (F, A, N), (F, B, N) -> (F, A * B, N)."""
    return (left.unsqueeze(-2) + right.unsqueeze(-3)).flatten(-3, -2)


def draw_dropped(shape: Sequence[int], dropout: float, generator: torch.Generator) -> Tensor:
    """Independent booleans, true with probability ``dropout`` (to the nearest 1 / 65,536), on the generator's device.

    Four are cut from each random word: many times faster than drawing them one by one.
    """
    size = math.prod(shape)
    words = torch.empty(-(-size // 4), dtype=torch.int64, device=generator.device)
    words.random_(-(2**63), None, generator=generator)
    return (words.view(torch.int16)[:size] < round(dropout * 65536) - 32768).view(tuple(shape))


def is_recording(x: Tensor) -> bool:
    """Whether operations are being traced or captured, so that values cannot be looked at."""
    return torch.compiler.is_compiling() or (x.is_cuda and torch.cuda.is_current_stream_capturing())


class Scratch:
    """Memory that the tiles of one layer take turns in: touching fresh memory costs more than the arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def out(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor | None:
        """A tensor to write to, for ``out=`` of torch's functions; None (torch allocates) if it must be kept."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return None
        size = math.prod(shape)
        if name not in self._buffers or self._buffers[name].numel() < size:
            self._buffers[name] = like.new_empty(size)
        return self._buffers[name][:size].view(shape)


def map_tiles(
    compute: Callable[[slice, slice, Scratch], Tensor],
    n_folds: int,
    n_rows: int,
    entry_bytes: int,
    device: torch.device,
    row_axis: int,
) -> Tensor:
    """Join ``compute(folds, rows, scratch)`` over blocks of folds and rows.

    Blocks are chosen so that intermediates fit the cache (CPU) or a bounded memory (GPU).

    Parameters
    ----------
    compute : callable
        Gives the result of some folds (axis 0) and rows (axis ``row_axis``), in memory of its own.
    n_folds, n_rows : int
    entry_bytes : int
        Size of the intermediates of one row of one fold.
    """
    budget = _CACHE_BYTES if device.type == "cpu" else _DEVICE_BYTES
    if torch.compiler.is_compiling():
        budget = n_folds * n_rows * entry_bytes  # the compiler fuses and tiles by itself
    rows = max(1, min(n_rows, budget // entry_bytes))
    folds = max(1, min(n_folds, budget // (entry_bytes * rows)))
    scratch = Scratch()
    parts = []
    for first in range(0, n_folds, folds):
        block = slice(first, min(first + folds, n_folds))
        starts = range(0, max(n_rows, 1), rows)
        pieces = [compute(block, slice(row, min(row + rows, n_rows)), scratch) for row in starts]
        parts.append(pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=row_axis))
    return parts[0] if len(parts) == 1 else torch.cat(parts)
