"""Circuits that several tests build."""

from __future__ import annotations

import torch

import socratic

Shape = tuple[int, int, int, int, int, int, str]
"""Features, depth, repetitions, sums, leaves, classes and kind of products of a random circuit."""


def peaky_circuit(shape: Shape, seed: int = 0, peak: float = 2.0) -> socratic.Circuit:
    """A random circuit in float64 whose weights are peakier than at the start, as after training."""
    features, depth, repetitions, sums, leaves, classes, product = shape
    circuit = socratic.rat_spn(
        features,
        classes,
        n_sums=sums,
        n_leaves=leaves,
        depth=depth,
        n_repetitions=repetitions,
        product=product,
        seed=seed,
    ).double()
    with torch.no_grad():
        for layer in [*circuit.inner_layers(), *circuit.root_branches()]:
            layer.logits.mul_(peak)
    return circuit
