"""Which engine a circuit has."""

from __future__ import annotations

from typing import Any

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.nodes import Leaf, Product, Sum
from socratic.inference.engine import Engine
from socratic.inference.graph.engine import GraphEngine
from socratic.inference.layered.engine import LayeredEngine


def engine_of(circuit: Any) -> Engine:
    """The engine for this kind of circuit, or a ValueError that says what was found instead of a circuit."""
    if isinstance(circuit, Circuit):
        return LayeredEngine(circuit)
    if isinstance(circuit, Graph):
        return GraphEngine(circuit)
    hint = ": wrap it, Graph(node)" if isinstance(circuit, (Leaf, Product, Sum)) else ""
    raise ValueError(f"circuit must be a Circuit or Graph; got a {type(circuit).__name__}{hint}")
