"""Expectation maximisation for densities: no learning rate to choose, every full step raises the likelihood.

The expected number of times a row's probability flows through an edge is the derivative of its log-likelihood in the
log-weight of that edge, and likewise for leaves; automatic differentiation of the plain walk gives all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from socratic.circuit.circuit import Circuit, Weights
from socratic.inference.layered.algebra import LogAlgebra
from socratic.inference.layered.values import LogValues
from socratic.inference.layered.walk import walk
from socratic.learning.settings import Epoch, History, Rows

_SMOOTHING = 1e-3


class Counts:
    """Expected counts: of each layer's edges, and of each leaf group's statistics."""

    def __init__(self, circuit: Circuit) -> None:
        weights = circuit.weights()
        self.edges = [torch.zeros_like(tensor) for tensor in [*weights.layers, *weights.roots]]
        self.leaves = [
            self.edges[0].new_zeros(group.n_slots, group.family.n_statistics, circuit.leaves.n_nodes)
            for group in circuit.leaves.leaf_groups()
        ]


def fit_em(
    circuit: Circuit,
    rows: Rows,
    *,
    n_epochs: int,
    batch_size: int = 1000,
    validation: Rows | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> History:
    """Raise the likelihood of ``rows`` under a circuit of one class, in place, and keep the best epoch's parameters.

    Every epoch is one full expectation step over all rows (in batches, to bound memory) and one maximisation step.
    Its ``loss`` is that of the rows before the maximisation, its ``validation_loss`` that of the validation rows
    after it. The best epoch is the one after which the validation rows (the rows themselves, without any) are most
    likely. Stops early when their mean log-likelihood rises by less than 1e-4 nats per variable.
    """
    if circuit.n_classes != 1:
        raise ValueError(f"expectation maximisation trains densities, circuits of one class; got {circuit.n_classes}")
    epochs: list[Epoch] = []
    best = _Best(circuit)
    for number in range(n_epochs):
        counts = Counts(circuit)
        total = 0.0
        for start in range(0, len(rows), batch_size):
            total += _accumulate(circuit, rows.take(torch.arange(start, min(start + batch_size, len(rows)))), counts)
        loss = -total / float(rows.weight.sum()) / circuit.n_features
        if validation is None and number > 0:
            best.offer(number - 1, loss)
        _maximise(circuit, counts)
        validation_loss = torch.nan
        if validation is not None:
            validation_loss = _mean_loss(circuit, validation)
            best.offer(number, validation_loss)
        epochs.append(Epoch(number, loss, validation_loss))
        if progress is not None:
            progress(epochs[-1])
        watched = [epoch.loss if validation is None else epoch.validation_loss for epoch in epochs[-2:]]
        if len(watched) == 2 and watched[0] - watched[1] < 1e-4:
            break
    if validation is None:
        best.offer(len(epochs) - 1, _mean_loss(circuit, rows))
    return History(tuple(epochs), best.restore())


class _Best:
    """The parameters of the best epoch so far."""

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit
        self._epoch, self._loss, self._state = 0, math.inf, circuit.state_dict()

    def offer(self, epoch: int, loss: float) -> None:
        """Keep the circuit's present parameters, those after ``epoch``, if their ``loss`` is the lowest."""
        if loss < self._loss:
            self._epoch, self._loss = epoch, loss
            self._state = {name: value.clone() for name, value in self._circuit.state_dict().items()}

    def restore(self) -> int:
        """Give the circuit the best parameters; return the number of their epoch."""
        self._circuit.load_state_dict(self._state)
        return self._epoch


@torch.no_grad()
def _mean_loss(circuit: Circuit, rows: Rows) -> float:
    """Mean negative log-likelihood of the rows, per variable."""
    values = circuit.log_likelihood(rows.x).squeeze(1)
    return -float((values * rows.weight).sum() / rows.weight.sum()) / circuit.n_features


def _accumulate(circuit: Circuit, rows: Rows, counts: Counts) -> float:
    """Add the expected counts of some rows; return their weighted log-likelihood."""
    with torch.no_grad():
        weights = circuit.weights()
        density = circuit.leaves.log_density(rows.x)
    density.requires_grad_()
    flat = [tensor.detach().requires_grad_() for tensor in [*weights.layers, *weights.roots]]
    copies = Weights(flat[: len(weights.layers)], flat[len(weights.layers) :])
    with torch.enable_grad():
        roots = walk(circuit, LogValues.rescale(density), copies, LogAlgebra())
        values = roots.of_classes(density.dtype).squeeze(1) * rows.weight
    gradients = torch.autograd.grad(values.sum(), [density, *flat])
    flow = gradients[0]  # (F, I, N): how much of a row passes through a leaf of a region
    for total, weight, gradient in zip(counts.edges, flat, gradients[1:], strict=True):
        total.add_(weight.detach() * gradient)
    with torch.no_grad():
        for total, group in zip(counts.leaves, circuit.leaves.leaf_groups(), strict=True):
            total.add_(group.total_statistics(rows.x, flow))
    return float(values.detach().sum())


@torch.no_grad()
def _maximise(circuit: Circuit, counts: Counts) -> None:
    layers = [*circuit.inner_layers(), *circuit.root_branches()]
    for layer, total in zip(layers, counts.edges, strict=True):
        layer.logits.copy_(torch.log(total + _SMOOTHING / layer.n_children))
    for group, total in zip(circuit.leaves.leaf_groups(), counts.leaves, strict=True):
        centre = group.slot_centres()
        observed = group.family.mass(total)
        start = group.family.expectations(group.parameter_values(), centre)
        # Leaves that no row reaches stay as they are.
        mixed = (total + _SMOOTHING * start) / (observed + _SMOOTHING)
        for name, value in group.family.from_expectations(mixed, centre).items():
            group.values[name].copy_(value)
