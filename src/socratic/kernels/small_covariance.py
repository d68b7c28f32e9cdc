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
_MATRIX = 2
"""The kind of a side that has covariances; one that has variances alone is 1, one that has neither 0."""


class _Values(Structure):
    """``Values`` of ``pair_covariance.cu``: (F, nodes, N), rows last."""

    _fields_ = (("start", c_void_p), ("fold", c_longlong), ("node", c_longlong))

    @classmethod
    def of(cls, values: Tensor | None) -> _Values:
        """Where values lie, or that there are none."""
        return cls(None, 0, 0) if values is None else cls(values.data_ptr(), *values.stride()[:2])


class _Covariances(Structure):
    """``Covariances`` of ``pair_covariance.cu``: (F, N, nodes, nodes), or variances (F, nodes, N)."""

    _fields_ = (("start", c_void_p), *((name, c_longlong) for name in ("fold", "row", "entry")))

    @classmethod
    def of(cls, covariance: Tensor | None) -> _Covariances:
        """Where any form of covariance lies."""
        if covariance is None:
            return cls(None, 0, 0, 0)
        fold, second = covariance.stride()[:2]
        row_and_entry = (second, 1) if covariance.ndim == 4 else (1, second)
        return cls(covariance.data_ptr(), fold, *row_and_entry)


class _Size(NamedTuple):
    """What the kernel is compiled for; see ``pair_covariance.cu``."""

    n_sums: int
    n_left: int
    n_right: int
    left_kind: int
    right_kind: int

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
        of_left, of_right = (n if kind == _MATRIX else 1 for n, kind in zip(self[1:3], self[3:], strict=True))
        known = _padded(self.n_sums * (self.n_sums + 1) // 2)
        stage = (of_left + 1) * left + (of_right + 1) * right + 2 * sums + known
        return 2 * stage + (0 if self.certain else sums * self.n_left * right + (self.n_right + 1) * step)

    @property
    def certain(self) -> bool:
        """Whether neither side has any variance: all there is to do is to divide by the sums."""
        return self.left_kind == self.right_kind == 0

    def named(self) -> tuple[tuple[str, int], ...]:
        """The sizes as the file calls them."""
        return (*((name.upper(), size) for name, size in self._asdict().items()), ("ROOM", self.room))


def takes_small_covariance(weights: Tensor, a: Tensor, b: Tensor, left: Tensor | None, right: Tensor | None) -> bool:
    """Whether the kernel takes a layer: arguments are those of :func:`small_covariance`.

    Where a side has variances alone, tiles are faster.
    """
    size = _size(weights, a, b, left, right)
    matrices = size.left_kind == size.right_kind == _MATRIX and padding(*size[:3]) > _MOST_PADDING
    small = max(size[:3]) <= _MOST_NODES and (matrices or size.certain)
    return small and takes_compiled(weights.device, size.room)


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
    size, n_rows = _size(weights, a, b, left, right), a.shape[2]
    a, b, sums = (rows_in_a_row(values) for values in (a, b, sums))
    own = None if own is None else rows_in_a_row(own)
    left, right = (x if x is None else x.contiguous() if x.ndim == 4 else rows_in_a_row(x) for x in (left, right))
    rows_of_block = max(1, min(_MOST_ROWS, n_rows * len(weights) // _ENOUGH_BLOCKS))
    shared_bytes = size.room * NUMBER_BYTES
    with torch.cuda.device_of(weights):
        compiled_kernel("pair_covariance", weights.get_device(), shared_bytes, size.named())(
            (-(-n_rows // rows_of_block), len(weights), 1),
            size.n_threads,
            shared_bytes,
            c_void_p(weights.data_ptr()),
            *(_Values.of(part) for part in (a, b)),
            *(_Covariances.of(part) for part in (left, right)),
            *(_Values.of(part) for part in (sums, own)),
            c_void_p(None if known is None else known.data_ptr()),
            c_void_p(out.data_ptr()),
            c_int(n_rows),
            c_int(rows_of_block),
            c_float(limit),
        )
    return out


def _size(weights: Tensor, a: Tensor, b: Tensor, left: Tensor | None, right: Tensor | None) -> _Size:
    kinds = (0 if covariance is None else covariance.ndim - 2 for covariance in (left, right))
    return _Size(weights.shape[1], a.shape[1], b.shape[1], *kinds)


def _padded(number: int, part: int = _PART) -> int:
    return -(-number // part) * part
