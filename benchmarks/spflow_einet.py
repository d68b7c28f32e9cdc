"""A circuit and SPFlow's ``Einet`` with the same structure and parameters, to compare their speed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from spflow.modules.einsum.einsum_layer import EinsumLayer
from spflow.modules.leaves.normal import Normal
from spflow.modules.sums.repetition_mixing_layer import RepetitionMixingLayer
from spflow.zoo.einet import Einet
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.layout import plan_layout
from socratic.families import Gaussian
from socratic.structure.region_graph import ROOT, RegionGraph, RegionGraphBuilder


class Place(NamedTuple):
    """Where SPFlow keeps a region: its index in its layer, and its repetition."""

    position: int
    repetition: int


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


def region_graph_of(einet: Einet) -> tuple[RegionGraph, dict[int, Place]]:
    """The structure of ``einet`` as a region graph, and the place of each of its regions below the root."""
    builder = RegionGraphBuilder(einet.num_features)
    places: dict[int, Place] = {}

    def grow(parent: int, place: Place, leaves: list[tuple[int, ...]]) -> None:
        # Every einsum layer pairs the neighbours 2k and 2k + 1 of the layer below as left and right child.
        middle = len(leaves) // 2
        halves = [leaves[:middle], leaves[middle:]]
        children = builder.split(parent, *(tuple(chain.from_iterable(half)) for half in halves))
        for side, (child, half) in enumerate(zip(children, halves, strict=True)):
            places[child] = Place(2 * place.position + side, place.repetition)
            if len(half) > 1:
                grow(child, places[child], half)

    scopes = einet.factorize.feature_to_scope  # (leaf regions, repetitions)
    for repetition in range(einet.num_repetitions):
        grow(ROOT, Place(0, repetition), [scope.query for scope in scopes[:, repetition]])
    return builder.build(), places


@torch.no_grad()
def circuit_of(einet: Einet) -> Circuit:
    """A circuit with the structure and the parameters of ``einet``, in its type and on its device."""
    graph, places = region_graph_of(einet)
    circuit = Circuit(
        graph,
        n_classes=einet.num_classes,
        n_sums=einet.num_sums,
        n_leaves=einet.num_leaves,
        leaf=Gaussian(min_variance=0.0, max_variance=None),
    )
    source: Any = einet.leaf_modules[0]
    circuit.to(device=source.loc.device, dtype=source.loc.dtype)
    layout = plan_layout(graph)

    (leaves,) = circuit.leaves.leaf_groups()
    slots = [(v, places[region].repetition) for region in layout.leaf_regions for v in graph.regions[region].scope]
    variables, repetitions = torch.tensor(slots).t()
    leaves.values["mean"].copy_(source.loc[variables, :, repetitions])
    leaves.values["raw_variance"].copy_(2 * source.log_scale[variables, :, repetitions])

    top, *inner = _modules_of(einet, EinsumLayer)  # from the root downwards
    for layer, plan, theirs in zip(circuit.inner_layers(), layout.layers, reversed(inner), strict=True):
        positions, repetitions = torch.tensor([places[region] for region in plan.regions]).t()
        layer.logits.copy_(theirs.log_weights[positions, :, repetitions].flatten(2))

    (root,) = circuit.root_branches()
    logits = top.log_weights[0].transpose(0, 1).flatten(2)  # (R, C, K)
    for mixing in _modules_of(einet, RepetitionMixingLayer):  # none for a single repetition
        # SPFlow mixes the repetitions of a class by weights of their own; here they are part of the root's weights.
        logits = logits + mixing.log_weights[0].t().unsqueeze(-1)
    root.logits.copy_(logits)
    return circuit


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
    return circuit_of(einet), class_log_likelihoods(einet, chunk_size)


def _modules_of(einet: Einet, kind: type) -> list[Any]:
    """The modules of one kind, parents before children."""
    return [module for module in einet.modules() if isinstance(module, kind)]
