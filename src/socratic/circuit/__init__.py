"""Circuits: leaves, sum-product layers, class roots, the node view, and model files."""

from socratic.circuit.build import rat_spn, spatial_spn
from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.graph import Graph
from socratic.circuit.join import join_circuits
from socratic.circuit.nodes import Leaf, Node, Product, Sum

__all__ = ["Circuit", "Graph", "Leaf", "Node", "Product", "Sum", "Weights", "join_circuits", "rat_spn", "spatial_spn"]
