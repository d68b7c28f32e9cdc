"""The library of kernels for processors (``kernels/cpp``): found, told what its functions take, and called in threads.

It is built when the package is installed, where there is a compiler (``hatch_build.py``).
"""

from __future__ import annotations

import ctypes
import platform
from ctypes import POINTER, Structure, c_float, c_int, c_size_t, c_void_p
from functools import cache
from typing import Any

import torch

from socratic.kernels.sources import library_path
from socratic.memory import keep_freed_memory

_OPERATIONS_OF_THREAD = 200_000
"""Fewer are done before another thread has begun."""


class Side(Structure):
    """``Side`` of ``covariance.cpp``."""

    _fields_ = (
        ("values", c_void_p),
        ("covariance", c_void_p),
        *((name, c_size_t) for name in ("fold_step", "node_step")),
        *((name, c_size_t) for name in ("covariance_fold", "covariance_line", "covariance_node", "n_nodes")),
        ("kind", c_int),
    )


class MovingSide(Structure):
    """``Moving`` of ``log_moments.cpp``."""

    _fields_ = (
        *((name, c_void_p) for name in ("values", "shares", "rest", "covariance")),
        *((name, c_size_t) for name in ("n_nodes", "n_shares")),
    )


_VALUES: list[Any] = [c_void_p, c_size_t, c_size_t]
"""A tensor with its rows last, and the steps between folds and between nodes."""
_SCALE: list[Any] = [c_void_p, c_size_t]
_ARGUMENTS: dict[str, list[Any]] = {
    "sums_of_pairs": [c_void_p, *_VALUES, *_VALUES, c_void_p, *[c_size_t] * 4],
    "log_sums_of_pairs": [c_void_p, *_VALUES, *_SCALE, *_VALUES, *_SCALE, *[c_void_p] * 2, *[c_size_t] * 4],
    "gradients_of_log_pairs": [c_void_p, *_VALUES, *_SCALE, *_VALUES, *_SCALE, *[c_void_p] * 6, *[c_size_t] * 4],
    "pair_covariance": [c_void_p, *[POINTER(Side)] * 2, *_VALUES, *[c_float] * 3, c_void_p, *[c_size_t] * 2],
    "top_shares": [*[c_void_p] * 6, c_float, *[c_size_t] * 5],
    "moved_sums": [
        *(c_void_p, POINTER(MovingSide), POINTER(MovingSide), *[c_float] * 3, c_int),
        *(*[c_void_p] * 4, *[c_size_t] * 2),
    ],
    "power_product": [*[c_void_p] * 3, c_float, *[c_void_p] * 2, *[c_size_t] * 4],
    "power_gradient": [*[c_void_p] * 3, c_float, *[c_void_p] * 2, *[c_size_t] * 4],
    "picked_product": [*[c_void_p] * 4, *[c_size_t] * 4],
    "picked_gradient": [*[c_void_p] * 4, *[c_size_t] * 4],
    "gaussian_natural": [*[c_void_p] * 4, c_size_t],
    "join": [*[c_void_p] * 4, *[c_size_t] * 3],
    "softmax": [*[c_void_p] * 3, c_size_t],
    "rescale": [*[c_void_p] * 2, *[c_size_t] * 2],
}
"""Of each kernel, before the numbers of its tasks and of threads."""


@cache
def kernels() -> Any:
    """The kernels for this processor; None where there are none."""
    path = library_path(target())
    if not path.exists():
        return None
    try:
        found = ctypes.CDLL(str(path))
    except OSError:  # built for another system
        return None
    for name, arguments in _ARGUMENTS.items():
        function = getattr(found, name)
        function.argtypes, function.restype = [*arguments, c_size_t, c_size_t], c_int
    found.rows_of_task.restype = c_size_t
    found.take_threads_of.argtypes = [c_void_p]
    found.take_threads_of(_openmp())
    keep_freed_memory()
    return found


def _openmp() -> Any:
    """What runs a function in the threads that torch's own steps run in; None where it cannot be had."""
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, c_void_p)
    except (AttributeError, OSError):
        return None


def target() -> str:
    """The instructions that kernels are built for: the widest of those that torch takes, too."""
    if platform.machine() in {"arm64", "aarch64"}:
        return "arm64"
    return torch.backends.cpu.get_cpu_capability().lower()


def run(name: str, n_tasks: int, operations: int, *arguments: Any) -> None:
    """Call a kernel for all of its tasks, in as many threads as torch may take and the work is worth."""
    n_threads = max(1, min(torch.get_num_threads(), n_tasks, operations // _OPERATIONS_OF_THREAD))
    if getattr(kernels(), name)(*arguments, n_tasks, n_threads):
        raise MemoryError(f"not enough memory for the rows that {name} takes at a time")


def count_tasks(n_folds: int, n_rows: int) -> int:
    """Of a kernel whose tasks are a fold and some of its rows."""
    return n_folds * -(-n_rows // kernels().rows_of_task())
