"""Covariances of sums of few nodes on a GPU, where tensor cores would mostly multiply zeros that fill their tiles."""

from __future__ import annotations

from ctypes import Structure, c_float, c_int, c_longlong, c_void_p
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.kernels.choice import padding, rows_in_a_row
from socratic.kernels.compiled import NUMBER_BYTES, compiled_kernel, takes_compiled

_MOST_NODES = 20
"""Of a side: with more, registers have no room for two blocks."""
_MOST_PADDING = 3.0
"""Of tiles, which are faster where they have less."""
_MOST_ROWS = 16
"""Of a block: enough to make up for the reading of weights."""
_ENOUGH_BLOCKS = 1024
"""Several for each place of a large GPU that a block can be in."""
_PART = 4
"""``PART`` of ``pair_covariance.cu``."""
_WARP = 32


class _Values(Structure):
    """``Values`` of ``pair_covariance.cu``: (F, nodes, N), rows last."""

    _fields_ = (("start", c_void_p), ("fold", c_longlong), ("node", c_longlong))

    @classmethod
    def of(cls, values: Tensor | None) -> _Values:
        """Where values lie, or that there are none."""
        return cls(None, 0, 0) if values is None else cls(values.data_ptr(), *values.stride()[:2])


class _Size(NamedTuple):
    """What the kernel is compiled for; see ``pair_covariance.cu``."""

    n_sums: int
    n_left: int
    n_right: int
    certain: bool

    @property
    def n_threads(self) -> int:
        """Of a block."""
        return _padded(_padded(self.n_sums) // _PART * max(self.n_left, self.n_right + 1), _WARP)

    @property
    def room(self) -> int:
        """Numbers that a block shares."""
        sums, left, right = (_padded(n) for n in self[:3])
        width = max(self.n_left, sums) * sums
        step = width if width // _PART % 2 else width + _PART
        of_row = left + right + 2 * sums + _padded(self.n_sums * (self.n_sums + 1) // 2)
        if self.certain:
            return 2 * of_row
        of_row += self.n_left * left + self.n_right * right
        return 2 * of_row + sums * self.n_left * right + (self.n_right + 1) * step

    def named(self) -> tuple[tuple[str, int], ...]:
        """The sizes as the file calls them."""
        return (*((name.upper(), int(size)) for name, size in self._asdict().items()), ("ROOM", self.room))


def takes_small_covariance(weights: Tensor, a: Tensor, b: Tensor, left: Tensor | None, right: Tensor | None) -> bool:
    """Whether the kernel takes a layer: arguments are those of :func:`small_covariance`.

    Either both sides have covariances or neither has any variance. Where there are variances alone, tiles are faster.
    """
    certain = left is None and right is None
    correlated = left is not None and right is not None and left.ndim == right.ndim == 4
    size = _Size(weights.shape[1], a.shape[1], b.shape[1], certain)
    narrow = all(side is None or side.dtype == torch.float32 for side in (left, right))
    small = max(size[:3]) <= _MOST_NODES and (certain or (correlated and padding(*size[:3]) > _MOST_PADDING))
    return small and narrow and takes_compiled(weights.device, size.room)


def small_covariance(
    weights: Tensor,
    a: Tensor,
    b: Tensor,
    left: Tensor | None,
    right: Tensor | None,
    sums: Tensor,
    known: Tensor | None,
    own: Tensor | None,
    limit: float,
) -> Tensor:
    """What :func:`~socratic.kernels.covariance.pair_covariance` gives, but for what masks add.

    Parameters
    ----------
    weights, a, b, left, right, sums, limit
        Those of that function.
    known : (F, N, S (S + 1) / 2), optional
        What is known of the result of s <= t already, times both sums.
    own : (F, S, N), optional
        What is added to the variances.
    """
    weights, out = weights.contiguous(), weights.new_empty(len(weights), a.shape[2], *2 * (weights.shape[1],))
    size, n_rows = _Size(weights.shape[1], a.shape[1], b.shape[1], left is None), a.shape[2]
    a, b, sums = (rows_in_a_row(values) for values in (a, b, sums))
    own = None if own is None else rows_in_a_row(own)
    left, right = (None if covariance is None else _aligned(covariance) for covariance in (left, right))
    rows_of_block = max(1, min(_MOST_ROWS, n_rows * len(weights) // _ENOUGH_BLOCKS))
    shared_bytes = size.room * NUMBER_BYTES
    with torch.cuda.device_of(weights):
        compiled_kernel("pair_covariance", weights.get_device(), shared_bytes, size.named())(
            (-(-n_rows // rows_of_block), len(weights), 1),
            size.n_threads,
            shared_bytes,
            c_void_p(weights.data_ptr()),
            *(_Values.of(part) for part in (a, b)),
            *(_place(part) for part in (left, right)),
            *(_Values.of(part) for part in (sums, own)),
            *(_place(part) for part in (known, out)),
            c_int(n_rows),
            c_int(rows_of_block),
            c_float(limit),
        )
    return out


def _aligned(covariance: Tensor) -> Tensor:
    """Matrices side by side, so that four numbers can be read at once."""
    covariance = covariance.contiguous()
    return covariance.clone() if covariance.data_ptr() % (_PART * NUMBER_BYTES) else covariance


def _place(values: Tensor | None) -> c_void_p:
    return c_void_p(None if values is None else values.data_ptr())


def _padded(number: int, part: int = _PART) -> int:
    return -(-number // part) * part
