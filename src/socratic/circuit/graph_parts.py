"""A graph as tensors and plain data, for model files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.circuit.graph_leaves import distributions_of
from socratic.circuit.nodes import Leaf, Node, Product, Sum
from socratic.families import family_from_dict

_WIRING = ("variables", "arity", "children", "roots")


def graph_parts(graph: Graph) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors (parameters and wiring) and configuration of a graph.

    The wiring is the leaves' ``variables`` (L,), the ``arity`` of each inner node, negative for products, the numbers
    of all their ``children``, and the numbers of the ``roots`` (C,).
    """
    batches = graph.leaves.leaf_batches()
    arity = [torch.full((block.n_nodes,), block.arity if block.is_sum else -block.arity) for block in graph.blocks]
    wiring = {
        "variables": torch.cat([batch.variables for batch in batches]),
        "arity": torch.cat([torch.zeros(0, dtype=torch.long), *arity]),
        "children": graph.child_numbers,
        "roots": graph.root_numbers,
    }
    config = {
        "n_features": graph.n_features,
        "families": [batch.family.to_dict() for batch in batches],
        "n_leaves": [len(batch.variables) for batch in batches],
    }
    return {**graph.state_dict(), **{f"wiring.{name}": tensor for name, tensor in wiring.items()}}, config


def graph_from_parts(tensors: Mapping[str, Tensor], config: dict[str, Any]) -> Graph:
    """Rebuild the graph of :func:`graph_parts`, with all checks of a graph built by hand."""
    wiring: dict[str, list[int]] = {}
    for name in _WIRING:
        tensor = tensors[f"wiring.{name}"]
        if tensor.dtype != torch.long or tensor.ndim != 1:
            raise ValueError(f"'wiring.{name}' must be whole numbers in one row; it is {tensor.dtype}")
        wiring[name] = tensor.tolist()
    parameters = {name: tensor for name, tensor in tensors.items() if not name.startswith("wiring.")}
    kinds = {tensor.dtype for tensor in parameters.values()}
    if len(kinds) != 1 or not next(iter(kinds)).is_floating_point:
        raise ValueError(f"its parameters are of the types {sorted(map(str, kinds))}")
    nodes = _leaves(wiring["variables"], parameters, config)
    _add_inner(nodes, wiring["arity"], wiring["children"], parameters["logits"])
    if not wiring["roots"] or min(wiring["roots"]) < 0:
        raise ValueError("it has no roots")
    roots = [nodes[number] for number in wiring["roots"]]
    graph = Graph(roots, config["n_features"], dtype=next(iter(kinds)))
    if graph.n_nodes != len(nodes):
        raise ValueError(f"{len(nodes) - graph.n_nodes} of its nodes are below no root")
    graph.load_state_dict(parameters)
    return graph


def _leaves(variables: list[int], parameters: Mapping[str, Tensor], config: dict[str, Any]) -> list[Node]:
    nodes: list[Node] = []
    for number, (data, count) in enumerate(zip(config["families"], config["n_leaves"], strict=True)):
        family = family_from_dict(data)
        prefix = f"leaves.batches.{number}.values."
        own = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
        here = variables[len(nodes) : len(nodes) + count]
        if not own or any(len(value) != count for value in own.values()) or len(here) != count:
            raise ValueError(f"there are not {count} {family.name} leaves")
        # The nearest leaves that a graph can be built with: it is given the stored parameters once it is built.
        found = distributions_of(family, own)
        nodes += [Leaf(variable, distribution) for variable, distribution in zip(here, found, strict=True)]
    if len(nodes) != len(variables):
        raise ValueError(f"{len(variables)} variables for {len(nodes)} leaves")
    return nodes


def _add_inner(nodes: list[Node], arities: list[int], children: list[int], logits: Tensor) -> None:
    """Append the inner nodes; weights are normalised as the graph does it."""
    if sum(abs(arity) for arity in arities) != len(children) or sum(a for a in arities if a > 0) != len(logits):
        raise ValueError("the numbers of children, weights and nodes do not fit together")
    tuples: dict[tuple[int, ...], tuple[Node, ...]] = {}
    logits = logits.double()
    child = edge = 0
    for arity in arities:
        numbers = tuple(children[child : child + abs(arity)])
        if not numbers or not 0 <= min(numbers) <= max(numbers) < len(nodes):
            raise ValueError(f"node {len(nodes)} has children that are not below it")
        below = tuples.setdefault(numbers, tuple(nodes[number] for number in numbers))
        if arity > 0:
            weights = torch.softmax(logits[edge : edge + arity], dim=0).tolist()
            if math.isnan(weights[0]):  # as all of them then are
                raise ValueError(f"the weights of node {len(nodes)} are not finite, or all 0")
            nodes.append(Sum(below, tuple(weights)))
            edge += arity
        else:
            nodes.append(Product(below))
        child += abs(arity)
