"""Down through a circuit: after the values have been carried up, each query follows them back to the leaves.

Sampling and most probable rows select one child of every sum they meet (:data:`Select`); expectations split
their share among all children. Either way ends at leaves, which give the values of the missing variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol

from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.families import Family, Parameters
from socratic.inference.rows import check_circuit

Kind = Literal["marginal", "max", "bound"]
"""What goes up: missing values integrated out; the best tree with missing values at their leaves' modes; or, as
a bound of every completion, all trees with missing values at their leaves' modes."""

Select = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Chooses one of K terms, given as logarithms (M, K), for each of M sums: (M,).

It is also given the draw (M,) that each choice belongs to and its place (M,) in the circuit, a number above 0 that no
other choice of that draw has.
"""

LeafValue = Callable[[Family, Parameters, Tensor, Tensor], Tensor]
"""A value (M,) for each of M leaves of a family, from their parameters, their draws (M,) and their variables (M,)."""

_CACHE_TERMS, _DEVICE_TERMS = 2**18, 2**26
"""Terms looked at together: what a processor's cache holds, and what keeps a GPU busy."""


class Pass(Protocol):
    """A circuit evaluated on some rows, with the values of all nodes kept for the way down."""

    log_roots: Tensor
    """Values (N, C) of the class roots, as logarithms."""

    def complete(self, row: Tensor, classes: Tensor, select: Select, value: LeafValue) -> Tensor:
        """Walk down from chosen classes and fill in what is missing.

        Parameters
        ----------
        row, classes : Tensor (D,)
            Number of the row, and the class to start from; its root must not be dead in that row.
        select : callable
            Which child a sum passes on to.
        value : callable
            What a leaf fills in.

        Returns
        -------
        Tensor (D, V)
        """

    def leaf_shares(self, class_shares: Tensor) -> Tensor:
        """Split each row's ``class_shares`` (N, C) from the roots down: the probability of each leaf to be used."""

    def moments(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (N, V) of all variables under leaves with these shares."""

    def table(self, shares: Tensor, variable: int) -> Tensor:
        """Probabilities (N, Y) of the values of a discrete variable under leaves with these shares."""


class Engine(Protocol):
    """What queries need to know of a circuit: one engine for each kind of circuit."""

    entries_per_row: int
    """Numbers that a pass holds for each row."""
    entries_per_draw: int
    """Numbers that :meth:`Pass.complete` holds for each draw."""

    def evaluate(self, rows: Tensor, kind: Kind = "marginal") -> Pass:
        """Carry the values of checked rows (N, V) up."""

    def is_deterministic(self) -> bool:
        """Whether it is certain that no complete row gives a positive value to two children of one sum."""


def engine_of(circuit: Circuit | Graph) -> Engine:
    """The engine for this kind of circuit."""
    from socratic.inference.queries.circuit_pass import CircuitEngine
    from socratic.inference.queries.graph_pass import GraphEngine

    check_circuit(circuit)
    return GraphEngine(circuit) if isinstance(circuit, Graph) else CircuitEngine(circuit)


def split_terms(sums: Tensor, n_terms: int) -> Iterable[Tensor]:
    """Cut a list (M, ...) of sums with ``n_terms`` each into pieces whose terms are looked at together."""
    at_once = (_CACHE_TERMS if sums.device.type == "cpu" else _DEVICE_TERMS) // n_terms
    return sums.split(max(1, at_once))
