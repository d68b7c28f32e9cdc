"""When a kernel takes the place of PyTorch's own on a GPU: it has what is needed, in float32 and without gradients."""

from __future__ import annotations

import importlib.util
import math
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from socratic.shortcuts import allowed_shortcuts

MOST_NODES = 64
"""Of a side of a tile: more are left to libraries of matrix products, which know such sizes best."""
MOST_LEAVES = 128
"""Of a leaf region: a tile has them beside few others."""
Digits = Literal["three", "five", "all"]
"""How many digits of a sum are needed."""
FLOAT32 = "tf32x3"
"""A product with float32's digits: the sum of three of tf32."""
_MOST_FOLDS = 65_535
"""Of a grid's second axis."""
_ENOUGH_PROGRAMS = 264
"""Two for each multiprocessor of a large GPU."""
_SMALLEST_SIDE = 16
"""Of a tile that tensor cores multiply."""


def takes_kernel(*tensors: Tensor, sides: tuple[int, ...] = (), most: int = MOST_NODES) -> bool:
    """Whether a kernel takes these tensors, the first axis of which are folds, in tiles with these sides."""
    return (
        not torch.compiler.is_compiling()
        and allowed_shortcuts().kernels
        and not torch.is_grad_enabled()
        and all(tensor.is_cuda and tensor.dtype == torch.float32 and tensor.numel() > 0 for tensor in tensors)
        and len(tensors[0]) <= _MOST_FOLDS
        and max(sides, default=0) <= most
        and not torch.is_autocast_enabled("cuda")
        and _has_triton()
        and _has_tensor_cores(tensors[0].device)
    )


@cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def _has_tensor_cores(device: torch.device) -> bool:
    """Whether there are tensor cores that know tf32: those of NVIDIA's GPUs since Ampere."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def padded(n_nodes: int) -> int:
    """The side of a tile that holds so many nodes."""
    return max(_SMALLEST_SIDE, 1 << (n_nodes - 1).bit_length())


def padding(*n_nodes: int) -> float:
    """How many times as large as it need be a tile is that holds so many nodes on each of its sides."""
    return math.prod(padded(n) / n for n in n_nodes)


def precision(digits: Digits) -> str:
    """How matrices are multiplied: with float32's digits, or with as many as are needed if torch may drop some.

    One product of tf32 has three digits, which are enough for log-likelihoods; three of bfloat16 have five.
    """
    if digits == "all" or torch.get_float32_matmul_precision() == "highest":
        return FLOAT32
    return "tf32" if digits == "three" else "bf16x3"


def rows_of_program(n_folds: int, n_rows: int, most: int = 128) -> int:
    """Rows of a program: many share the reading of weights, few make enough programs to keep a large GPU busy."""
    rows = most
    while rows > _SMALLEST_SIDE and n_folds * -(-n_rows // rows) < _ENOUGH_PROGRAMS:
        rows //= 2
    return rows


def rows_in_a_row(values: Tensor) -> Tensor:
    """The values with their last axis contiguous."""
    return values if values.stride(-1) == 1 else values.contiguous()
