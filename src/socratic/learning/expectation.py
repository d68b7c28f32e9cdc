"""The two steps of expectation maximisation: expected statistics of rows, and the parameters that fit them best.

The expected number of times a row's probability flows through an edge is the derivative of its log-likelihood in the
log-weight of that edge, and likewise for leaves; automatic differentiation of the plain evaluation gives all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.graph import Graph
from socratic.circuit.leaf_set import LeafSet
from socratic.inference.graph.evaluation import class_values, evaluate
from socratic.inference.layered.algebra import LogAlgebra
from socratic.inference.layered.values import LogValues
from socratic.inference.layered.walk import walk
from socratic.learning.initialise import fit_columns
from socratic.learning.settings import Rows, Source

_ROWS_AT_A_TIME = 1000


@dataclass(frozen=True, eq=False)
class Statistics:
    """Expected statistics of rows.

    Attributes
    ----------
    edges : sequence of Tensor
        How much of the rows flows through each edge, in the shapes of the circuit's weights.
    leaves : sequence of Tensor (P, T, I)
        Statistics of each set of leaves, weighted by what flows through them.
    weight, log_likelihood : float
        Total weight of the rows, and their weighted log-likelihood.
    """

    edges: Sequence[Tensor]
    leaves: Sequence[Tensor]
    weight: float
    log_likelihood: float

    def plus(self, other: Statistics, own: float = 1.0, others: float = 1.0) -> Statistics:
        """A weighted sum of two."""

        def add(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[Tensor]:
            return [own * a + others * b for a, b in zip(first, second, strict=True)]

        return Statistics(
            add(self.edges, other.edges),
            add(self.leaves, other.leaves),
            own * self.weight + others * other.weight,
            own * self.log_likelihood + others * other.log_likelihood,
        )

    def moved_towards(self, batch: Statistics, step: float) -> Statistics:
        """These statistics, a share ``step`` of them replaced by those of a batch that stands for as many rows."""
        return self.plus(batch, 1.0 - step, step * self.weight / batch.weight)


class _Flow(NamedTuple):
    """Log-likelihoods (N,) of rows, and what of them flows through edges and through each set of leaves."""

    values: Tensor
    edges: list[Tensor]
    leaves: list[Tensor]


class Maximiser(ABC):
    """The expectation and the maximisation step of one circuit.

    Parameters
    ----------
    circuit : Circuit or Graph
        Of one class; trained in place.
    rows : Rows
        What the leaves are smoothed towards: the distribution of each column in these rows.
    smoothing : float
        Rows that are added to every leaf, and weight that is spread over the children of every sum.
    """

    def __init__(self, circuit: Circuit | Graph, rows: Rows, smoothing: float) -> None:
        self.circuit, self.smoothing = circuit, smoothing
        # Statistics of different steps can only be added if they are relative to the same values.
        self.centres = [leaves.centres().clone() for leaves in self.leaf_sets()]
        self.columns = [
            _expected_of_columns(leaves, rows, centre)
            for leaves, centre in zip(self.leaf_sets(), self.centres, strict=True)
        ]

    @abstractmethod
    def leaf_sets(self) -> Sequence[LeafSet]:
        """The leaves of the circuit, by family."""

    @abstractmethod
    def _flow(self, rows: Rows) -> _Flow:
        """Evaluate rows and follow them down again."""

    @abstractmethod
    def _set_weights(self, edges: Sequence[Tensor]) -> None:
        """Make the weights proportional to expected counts, smoothed."""

    def expect(self, rows: Source) -> Statistics:
        """Expected statistics of some rows under the present parameters."""
        return reduce(Statistics.plus, map(self._expect, rows.pieces(_ROWS_AT_A_TIME)))

    def _expect(self, rows: Rows) -> Statistics:
        flow = self._flow(rows)
        with torch.no_grad():
            leaves = [
                leaves.total_statistics(rows.x, through, centre)
                for leaves, through, centre in zip(self.leaf_sets(), flow.leaves, self.centres, strict=True)
            ]
        return Statistics(flow.edges, leaves, float(rows.weight.sum()), float((flow.values * rows.weight).sum()))

    @torch.no_grad()
    def maximise(self, statistics: Statistics) -> None:
        """Give the circuit the parameters that fit the statistics best."""
        self._set_weights(statistics.edges)
        for leaves, total, column, centre in zip(
            self.leaf_sets(), statistics.leaves, self.columns, self.centres, strict=True
        ):
            family = leaves.family
            mixed = total + self.smoothing * column
            found = family.from_expectations(mixed / family.mass(mixed), leaves.of_slots(centre))
            for name, value in found.items():
                leaves.values[name].copy_(value)


class CircuitMaximiser(Maximiser):
    """Expectation maximisation of a layered circuit."""

    circuit: Circuit

    def leaf_sets(self) -> Sequence[LeafSet]:
        """One for each family."""
        return self.circuit.leaves.leaf_groups()

    def _flow(self, rows: Rows) -> _Flow:
        with torch.no_grad():
            weights = self.circuit.weights()
            density = self.circuit.leaves.log_density(rows.x)
        flat = [tensor.detach().requires_grad_() for tensor in [*weights.layers, *weights.roots]]
        density.requires_grad_()
        with torch.enable_grad():
            copies = Weights(flat[: len(weights.layers)], flat[len(weights.layers) :])
            roots = walk(self.circuit, LogValues.rescale(density), copies, LogAlgebra())
            values = roots.of_classes(density.dtype).squeeze(1)
        through, *gradients = torch.autograd.grad((values * rows.weight).sum(), [density, *flat])
        edges = [weight.detach() * gradient for weight, gradient in zip(flat, gradients, strict=True)]
        return _Flow(values.detach(), edges, [through] * len(self.leaf_sets()))  # (F, I, N): of whole regions

    def _set_weights(self, edges: Sequence[Tensor]) -> None:
        layers = [*self.circuit.inner_layers(), *self.circuit.root_branches()]
        for layer, total in zip(layers, edges, strict=True):
            _set_logits(layer.logits, total + self.smoothing / layer.n_children)


class GraphMaximiser(Maximiser):
    """Expectation maximisation of a graph."""

    circuit: Graph

    def leaf_sets(self) -> Sequence[LeafSet]:
        """One for each family."""
        return self.circuit.leaves.leaf_batches()

    def _flow(self, rows: Rows) -> _Flow:
        graph = self.circuit
        with torch.no_grad():
            density = graph.leaves.log_density(rows.x)
            log_weights = graph.log_weights()
        density.requires_grad_()
        log_weights.requires_grad_()
        with torch.enable_grad():
            values = class_values(graph, evaluate(graph, density, log_weights), density.dtype).squeeze(1)
        through, edges = torch.autograd.grad((values * rows.weight).sum(), [density, log_weights])
        sizes = [leaves.n_slots for leaves in self.leaf_sets()]
        return _Flow(values.detach(), [edges], list(through.unsqueeze(1).split(sizes)))  # each (P, 1, N)

    def _set_weights(self, edges: Sequence[Tensor]) -> None:
        (total,) = edges
        graph = self.circuit
        n_children = torch.bincount(graph.sum_of_edge, minlength=graph.n_sums)[graph.sum_of_edge]
        _set_logits(graph.logits, total + self.smoothing / n_children)


def maximiser_of(circuit: Circuit | Graph, rows: Rows, smoothing: float) -> Maximiser:
    """The two steps for a kind of circuit."""
    return (GraphMaximiser if isinstance(circuit, Graph) else CircuitMaximiser)(circuit, rows, smoothing)


def _set_logits(logits: Tensor, weights: Tensor) -> None:
    """Set logits to the logarithms of weights; those of minus infinity, which are no edges, stay."""
    logits.copy_(torch.where(logits == -torch.inf, logits, torch.log(weights)))


def _expected_of_columns(leaves: LeafSet, rows: Rows, centres: Tensor) -> Tensor:
    """Statistics (P, T, 1) that the distribution of each slot's column expects."""
    fitted = fit_columns(leaves, rows.x, rows.weight)
    return leaves.family.expectations({n: value.to(centres) for n, value in fitted.items()}, leaves.of_slots(centres))
