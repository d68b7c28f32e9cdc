"""Leaves: products with rows of a table that are picked while they are multiplied, and log-values made relative."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from socratic.kernels import processor
from socratic.kernels.choice import FLOAT32, MOST_LEAVES, padded, rows_of_program, takes_kernel
from socratic.kernels.gradients import differentiable_product
from socratic.kernels.many_powers import many_powers, rows_of_thread
from socratic.kernels.processor import Statistics, takes_processor_kernel


def takes_picked(natural: Tensor, table: Tensor) -> bool:
    """Whether the kernel takes this product; arguments are those of :func:`picked_product`.

    On a processor it has a gradient by the natural parameters, too.
    """
    on_gpu = takes_kernel(natural, table, sides=(natural.shape[1],), most=MOST_LEAVES)
    return on_gpu or (takes_processor_kernel(natural, gradients=True) and takes_processor_kernel(table))


def picked_product(natural: Tensor, table: Tensor, picked: Tensor) -> Tensor:
    """Matrices times rows of a table that all of them share.

    Parameters
    ----------
    natural : (F, I, D * T)
    table : (U, T, N)
    picked : (F, D)
        Which of the U entries each matrix is multiplied with.

    Returns
    -------
    Tensor (F, I, N)
    """
    if processor.computes(natural):
        return differentiable_product(natural, Statistics(table, picked))
    from socratic.kernels.value_programs import picked_product_kernel

    natural, table, picked = natural.contiguous(), table.contiguous(), picked.contiguous()
    return _product(picked_product_kernel, natural, (table, picked), (natural.shape[2],), table.shape[1], _PICKED)


def power_product(natural: Tensor, values: Tensor, centre: Tensor, picked: Tensor, limit: float) -> Tensor:
    """The same where the T statistics are powers of deviations, 1 to begin with, and 0 for missing values.

    Parameters
    ----------
    natural : (F, I, D * T)
    values : (U, N)
        NaN where they are missing.
    centre : (U,)
        What they deviate from.
    picked : (F, D)
        Which of the U entries each matrix is multiplied with.
    limit : float
        The largest deviation that is taken as it is.

    Returns
    -------
    Tensor (F, I, N)
    """
    if processor.computes(natural):
        return differentiable_product(natural, Statistics(values, picked, centre, limit))
    natural, n_picked = natural.contiguous(), picked.shape[1]
    tables = values.contiguous(), centre.contiguous(), picked.contiguous()
    rows = rows_of_thread(natural, values, n_picked)
    if rows is not None:
        return many_powers(natural, *tables, limit, rows)
    from socratic.kernels.value_programs import power_product_kernel

    n_statistics = natural.shape[2] // n_picked
    return _product(power_product_kernel, natural, tables, (n_picked, limit), n_statistics, _POWERS)


def takes_gaussian_natural(mean: Tensor, variance: Tensor, centre: Tensor) -> bool:
    """Whether the kernel takes these parameters: it has no twin on a GPU."""
    return takes_processor_kernel(mean, variance, centre)


def gaussian_natural(mean: Tensor, variance: Tensor, centre: Tensor) -> Tensor:
    """Natural parameters (P, 3, I) of Gaussian leaves, for 1, z and z^2 of deviations z.

    Parameters
    ----------
    mean, variance : (P, I)
    centre : (P,)
        What values deviate from.
    """
    return processor.gaussian_natural(mean, variance, centre)


class _Tiles(NamedTuple):
    """How a kernel cuts its product: what was fastest on an H200."""

    depth: int
    rows: int
    num_warps: int
    num_stages: int


_PICKED = _Tiles(depth=16, rows=64, num_warps=2, num_stages=3)
_POWERS = _Tiles(depth=32, rows=128, num_warps=4, num_stages=1)


def _product(
    kernel: Any, natural: Tensor, tables: tuple[Tensor, ...], sizes: tuple[float, ...], n_statistics: int, tiles: _Tiles
) -> Tensor:
    """Start a kernel that multiplies matrices (F, I, D * T) with T statistics of the rows of its first table."""
    n_folds, n_nodes, _ = natural.shape
    n_rows = tables[0].shape[-1]
    out = natural.new_empty(n_folds, n_nodes, n_rows)
    block = rows_of_program(n_folds, n_rows, most=tiles.rows)
    with torch.cuda.device_of(natural):
        kernel[(-(-n_rows // block), n_folds)](
            natural,
            *tables,
            out,
            n_rows,
            *sizes,
            n_nodes=n_nodes,
            n_statistics=n_statistics,
            side=padded(n_nodes),
            depth=tiles.depth,
            block=block,
            precision=FLOAT32,  # log-densities are large numbers: an error of a thousandth of them is not small
            num_warps=tiles.num_warps,
            num_stages=tiles.num_stages,
        )
    return out


def takes_rescale(log_value: Tensor) -> bool:
    """Whether the kernel takes these log-values."""
    if log_value.ndim != 3:
        return False
    on_gpu = takes_kernel(log_value, sides=(log_value.shape[1],), most=MOST_LEAVES)
    return on_gpu or takes_processor_kernel(log_value)


def rescale(log_value: Tensor) -> tuple[Tensor, Tensor]:
    """Log-values (F, S, N) relative to the largest of their fold and row, and that as a scale (F, 1, N) in float64.

    The memory of ``log_value`` may be taken for the result.
    """
    if processor.computes(log_value):
        return processor.rescale(log_value)
    from socratic.kernels.value_programs import rescale_kernel

    log_value = log_value.contiguous()
    n_folds, n_nodes, n_rows = log_value.shape
    relative = torch.empty_like(log_value)
    log_scale = log_value.new_empty(n_folds, 1, n_rows, dtype=torch.float64)
    block = rows_of_program(n_folds, n_rows)
    with torch.cuda.device_of(log_value):
        rescale_kernel[(-(-n_rows // block), n_folds)](
            log_value, relative, log_scale, n_rows, n_nodes=n_nodes, side=padded(n_nodes), block=block, num_warps=4
        )
    return relative, log_scale
