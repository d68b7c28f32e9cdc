"""Leaves: products with rows of a table that are picked while they are multiplied, and log-values made relative."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.kernels.choice import FLOAT32, padded, rows_of_program, takes_kernel


def takes_picked(natural: Tensor, table: Tensor) -> bool:
    """Whether the kernel takes this product; arguments are those of :func:`picked_product`."""
    return takes_kernel(natural, table, sides=(natural.shape[1],))


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
    from socratic.kernels.programs import picked_product_kernel

    natural, table, picked = natural.contiguous(), table.contiguous(), picked.contiguous()
    n_folds, n_nodes, n_terms = natural.shape
    n_rows = table.shape[2]
    out = natural.new_empty(n_folds, n_nodes, n_rows)
    block = rows_of_program(n_folds, n_rows, most=64)
    with torch.cuda.device_of(natural):
        picked_product_kernel[(-(-n_rows // block), n_folds)](
            natural,
            table,
            picked,
            out,
            n_rows,
            n_terms,
            n_nodes=n_nodes,
            n_statistics=table.shape[1],
            side=padded(n_nodes),
            depth=16,
            block=block,
            precision=FLOAT32,  # log-densities are large numbers: an error of a thousandth of them is not small
            num_warps=2,
        )
    return out


def takes_rescale(log_value: Tensor) -> bool:
    """Whether the kernel takes these log-values."""
    return log_value.ndim == 3 and takes_kernel(log_value, sides=(log_value.shape[1],))


def rescale(log_value: Tensor) -> tuple[Tensor, Tensor]:
    """Log-values (F, S, N) relative to the largest of their fold and row, and that as a scale (F, 1, N) in float64."""
    from socratic.kernels.programs import rescale_kernel

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
