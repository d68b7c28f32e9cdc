"""Leaves of many rows on a GPU: their log-densities in registers, where tensor cores would take many small products."""

from __future__ import annotations

from ctypes import c_float, c_int, c_void_p

import torch
from torch import Tensor

from socratic.kernels.compiled import NUMBER_BYTES, compiled_kernel, takes_compiled

_MOST_NODES = 24
_MOST_STATISTICS = 4
"""Of a thread, which has a register for each of its rows and nodes."""
_ROWS = (4, 2)
"""Of a thread: many share the reading of parameters, few make enough blocks to keep a large GPU busy."""
_ENOUGH_BLOCKS = 400
_DEPTH = 32
"""Variables that a block takes at a time."""
_THREADS = 128
"""``THREADS`` of ``power_product.cu``."""


def rows_of_thread(natural: Tensor, values: Tensor, n_picked: int) -> int | None:
    """How many rows a thread takes; None if the kernel does not take leaves that are given in this way."""
    n_folds, n_nodes, n_terms = natural.shape
    n_statistics = n_terms // n_picked
    if n_nodes > _MOST_NODES or n_statistics > _MOST_STATISTICS:
        return None
    if not takes_compiled(natural.device, _room(n_nodes, n_statistics)):
        return None
    n_rows = values.shape[1]
    return next((rows for rows in _ROWS if n_folds * (n_rows // (rows * _THREADS)) >= _ENOUGH_BLOCKS), None)


def many_powers(natural: Tensor, values: Tensor, centre: Tensor, picked: Tensor, limit: float, rows: int) -> Tensor:
    """Log-densities (F, I, N), by threads with so many rows; see :func:`socratic.kernels.leaves.power_product`."""
    n_folds, n_nodes, n_terms = natural.shape
    n_picked, n_rows = picked.shape[1], values.shape[1]
    n_statistics = n_terms // n_picked
    shared_bytes = NUMBER_BYTES * _room(n_nodes, n_statistics)
    sizes = (("N_NODES", n_nodes), ("N_STATISTICS", n_statistics), ("ROWS", rows), ("DEPTH", _DEPTH))
    out = natural.new_empty(n_folds, n_nodes, n_rows)
    with torch.cuda.device_of(natural):
        compiled_kernel("power_product", natural.get_device(), shared_bytes, sizes)(
            (-(-n_rows // (rows * _THREADS)), n_folds, 1),
            _THREADS,
            shared_bytes,
            *(c_void_p(part.data_ptr()) for part in (natural, values, centre, picked, out)),
            c_int(n_rows),
            c_int(n_picked),
            c_float(limit),
        )
    return out


def _room(n_nodes: int, n_statistics: int) -> int:
    """Numbers that a block shares: nodes are read four at a time."""
    return _DEPTH * n_statistics * -(-n_nodes // 4) * 4
