"""The walk: bottom up through a circuit's layers, with whatever values a query propagates.

A query says what its values are (a *state*) and how one sum-product layer transforms them (an *algebra*);
the walk knows the wiring. States are named tuples of tensors whose first axis is the fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

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


@dataclass(frozen=True)
class Walked(Generic[State]):
    """The values of every node: of the leaves and the inner layers, by layer number, and of the roots' branches."""

    layers: list[State]
    branches: list[State]
    n_passes: int = 1
    """Folds that every region has, side by side: one for each pass."""

    def children(self, layer: SumProductLayer) -> tuple[State, State | None]:
        """Values of the left and of the right children of a layer's regions."""
        return self._take(layer.left), None if layer.right is None else self._take(layer.right)

    def _take(self, span: Span) -> State:
        state, first, last = self.layers[span.layer], self.n_passes * span.start, self.n_passes * span.stop
        parts = {
            name: part if part is None else part[first:last] for name, part in zip(state._fields, state, strict=True)
        }
        return state._replace(**parts)


Thin = Callable[[list[State]], list[State]]
"""What to go on with of the values of the leaves and of all layers so far, such as those of fewer rows."""


def walk_layers(
    circuit: Circuit,
    leaves: State,
    weights: Weights,
    algebra: Algebra[State, Any],
    *,
    thin: Thin[State] | None = None,
    n_passes: int = 1,
) -> Walked[State]:
    """Propagate ``leaves`` through all layers and keep the values of each.

    Parameters
    ----------
    circuit : Circuit
    leaves : State
    weights : Weights
    algebra : Algebra
    thin : callable, optional
        Is asked after every inner layer.
    n_passes : int
        Folds that every region has, side by side, in the states of leaves and layers.
    """
    walked = Walked([leaves], [], n_passes)
    for layer, layer_weights in zip(circuit.inner_layers(), weights.layers, strict=True):
        walked.layers.append(algebra.layer(layer, layer_weights, *walked.children(layer), root=False))
        if thin is not None:
            walked.layers[:] = thin(walked.layers)
    for branch, branch_weights in zip(circuit.root_branches(), weights.roots, strict=True):
        walked.branches.append(algebra.layer(branch, branch_weights, *walked.children(branch), root=True))
    return walked


def walk(circuit: Circuit, leaves: State, weights: Weights, algebra: Algebra[State, Roots_co]) -> Roots_co:
    """Propagate ``leaves`` through all layers and return the values of the class roots."""
    return algebra.join(walk_layers(circuit, leaves, weights, algebra).branches)


def values_per_row(circuit: Circuit) -> int:
    """Node values of one row held by a walk: the leaves' statistics and the values of all layers."""
    leaves = sum(group.entries_per_row for group in circuit.leaves.leaf_groups())
    nodes = circuit.leaves.n_folds * circuit.leaves.n_nodes
    nodes += sum(layer.n_folds * layer.n_nodes for layer in [*circuit.inner_layers(), *circuit.root_branches()])
    return leaves + 3 * nodes  # products are made a tile at a time
