"""A circuit and SPFlow's ``Einet`` with the same structure and parameters, to compare their speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from spflow.modules.leaves.normal import Normal
from spflow.zoo.einet import Einet
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.interop import from_spflow


def random_einet(
    n_features: int, n_classes: int, n_sums: int, n_leaves: int, depth: int, n_repetitions: int, seed: int
) -> Einet:
    """SPFlow's Einet with all-pairs products and Gaussian leaves, in evaluation mode.

    Seeds the global generators of torch and NumPy, from which SPFlow draws its structure and weights.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1: without a split there is no einsum layer; got {depth}")
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - SPFlow draws the sizes of the leaf regions from it
    shape = (n_features, n_leaves, n_repetitions)
    leaves = Normal(
        scope=list(range(n_features)),
        out_channels=n_leaves,
        num_repetitions=n_repetitions,
        # SPFlow's own initial deviations come arbitrarily close to 0: densities then exceed what float32 resolves.
        loc=torch.randn(shape),
        scale=torch.sqrt(0.1 + 0.9 * torch.rand(shape)),
        validate_args=False,  # torch's checks of every value cost time and are not needed here
    )
    einet = Einet(
        leaf_modules=[leaves],
        num_classes=n_classes,
        num_sums=n_sums,
        num_leaves=n_leaves,
        depth=depth,
        num_repetitions=n_repetitions,
        layer_type="einsum",
    )
    # In evaluation mode and without gradients the einsum layers normalise their weights once and keep them.
    return einet.eval()


def class_log_likelihoods(einet: Einet, chunk_size: int | None = None) -> Callable[[Tensor], Tensor]:
    """SPFlow's evaluation of log p(x | class), (N, V) -> (N, C), in one call or ``chunk_size`` rows at a time."""
    # With several classes the root mixes them by a prior; below it they are still apart, as in Einet.log_posterior.
    head: Any = einet.root_node.inputs if einet.num_classes > 1 else einet.root_node

    def evaluate(x: Tensor) -> Tensor:
        values: Tensor = head.log_likelihood(x)  # (N, 1, C, 1)
        return values.flatten(1)

    if chunk_size is None:
        return evaluate
    size = chunk_size
    return lambda x: torch.cat([evaluate(rows) for rows in x.split(size)])


def matched_pair(
    n_features: int,
    n_classes: int,
    n_sums: int,
    n_leaves: int,
    depth: int,
    n_repetitions: int,
    seed: int = 0,
    *,
    chunk_size: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> tuple[Circuit, Callable[[Tensor], Tensor]]:
    """A circuit, and SPFlow's evaluation of the same model.

    Parameters
    ----------
    n_features, n_classes, n_sums, n_leaves, depth, n_repetitions, seed : int
        As in :func:`socratic.rat_spn`; ``depth`` is at least 1 and ``2**depth`` at most ``n_features``.
    chunk_size : int, optional
        Rows SPFlow evaluates at a time, by default all. It holds several times V * I * R numbers for each row:
        on a CPU large batches spend much of their time on fresh memory, and smaller ones are faster.
    dtype, device
        Of both models.

    Returns
    -------
    circuit : Circuit
        Its :meth:`~socratic.circuit.circuit.Circuit.log_likelihood` equals ``evaluate``.
    evaluate : callable
        Rows (N, V) to log p(x | class) (N, C), computed by SPFlow. Fastest under ``torch.no_grad()``,
        where SPFlow keeps normalised weights from the first call on.
    """
    einet = random_einet(n_features, n_classes, n_sums, n_leaves, depth, n_repetitions, seed)
    einet.to(device=device, dtype=dtype)
    circuit = from_spflow(einet)
    assert isinstance(circuit, Circuit)  # an Einet always is one
    return circuit, class_log_likelihoods(einet, chunk_size)
