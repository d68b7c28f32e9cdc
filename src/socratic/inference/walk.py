"""The walk: bottom up through a circuit's layers, with whatever values a query propagates.

A query says what its values are (a *state*) and how one sum-product layer transforms them (an *algebra*);
the walk knows the wiring. States are named tuples of tensors whose first axis is the fold.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.layers import SumProductLayer
from socratic.circuit.layout import Span

State = TypeVar("State", bound=NamedTuple)
Roots_co = TypeVar("Roots_co", covariant=True)


class Algebra(Protocol[State, Roots_co]):
    """How values pass through a layer, and how the branches of the roots come together."""

    def layer(self, layer: SumProductLayer, weights: Tensor, left: State, right: State | None, *, root: bool) -> State:
        """Values of a layer's sums from those of its children."""

    def join(self, branches: list[State]) -> Roots_co:
        """Values of the class roots, from those of every repetition."""


def walk(circuit: Circuit, leaves: State, weights: Weights, algebra: Algebra[State, Roots_co]) -> Roots_co:
    """Propagate ``leaves`` through all layers and return the values of the class roots."""
    states = [leaves]

    def step(layer: SumProductLayer, layer_weights: Tensor, root: bool) -> State:
        left = _take(states[layer.left.layer], layer.left)
        right = None if layer.right is None else _take(states[layer.right.layer], layer.right)
        return algebra.layer(layer, layer_weights, left, right, root=root)

    for layer, layer_weights in zip(circuit.inner_layers(), weights.layers, strict=True):
        states.append(step(layer, layer_weights, root=False))
    return algebra.join(
        [
            step(branch, branch_weights, root=True)
            for branch, branch_weights in zip(circuit.root_branches(), weights.roots, strict=True)
        ]
    )


def _take(state: State, span: Span) -> State:
    parts = {
        name: part if part is None else part[span.start : span.stop]
        for name, part in zip(state._fields, state, strict=True)
    }
    return state._replace(**parts)
