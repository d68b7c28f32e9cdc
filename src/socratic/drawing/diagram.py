"""Diagrams of circuits: one shape for each node, one line for each edge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from socratic.circuit import Circuit, Graph, Leaf, Sum
from socratic.circuit.nodes import children_of
from socratic.drawing.picture import Picture
from socratic.drawing.summary import summary
from socratic.drawing.values import NodeValues, over_masks, under_one_mask
from socratic.errors import check_count, import_extra
from socratic.inference.dropout import Dropout, MaskKind

MAX_NODES = 200
"""Nodes of the largest circuit that is drawn: beyond, nobody can read it."""
_MAX_NAMES = 6
_TIMES = "\N{MULTIPLICATION SIGN}"
_STYLES = {"Sum": ("ellipse", "#dbe9f6"), "Product": ("ellipse", "#fde9d0"), "Leaf": ("box", "#eeeeee")}
_GREY = {"color": "#aaaaaa", "fontcolor": "#aaaaaa"}


def draw(
    circuit: Circuit | Graph,
    x: Any = None,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    root_dropout: bool = False,
    seed: int | None = None,
    feature_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> Picture:
    """Draw a circuit: nodes with their scopes, weights on edges, leaf distributions in words.

    Parameters
    ----------
    circuit : Circuit or Graph
        Of at most 200 nodes; a :class:`~socratic.Circuit` is drawn as its ``to_graph()``.
    x : array-like (V,) or (1, V), optional
        One row; NaN is a missing value. With it each node shows its value, as mean and standard deviation over
        dropout masks.
    dropout, masks, root_dropout
        What the masks are; see :func:`socratic.tdi`. They matter with ``x`` only.
    seed : int, optional
        Show one pass of Monte Carlo dropout instead, the first that :func:`socratic.sample_log_likelihoods` draws with
        this seed: the values of that pass, what it drops dashed, what no root uses any more grey. Needs ``x``.
    feature_names, class_names : sequences of str, optional
        Names of the V columns and of the C classes.

    Returns
    -------
    Picture
        It has the DOT text as ``source``, shows itself in notebooks, and goes to a file by ``save``.
    """
    graphviz = import_extra("graphviz", "draw", "draw")
    masked = Dropout.check(dropout, masks, root_dropout)
    if seed is not None:
        check_count("seed", seed, minimum=0)
        if x is None:
            raise ValueError("seed draws one pass, which needs a row; pass x")
    n_nodes = summary(circuit, methods=False).n_nodes
    if n_nodes > MAX_NODES:
        raise ValueError(
            f"a picture holds at most {MAX_NODES} nodes, and the circuit has {n_nodes:,}; "
            "socratic.summary(circuit) describes it in words"
        )
    graph = circuit.to_graph() if isinstance(circuit, Circuit) else circuit
    features = _names("feature_names", feature_names, [f"x{number}" for number in range(graph.n_features)])
    classes = _names("class_names", class_names, [f"class {number}" for number in range(graph.n_classes)])
    row = None if x is None else _one_row(x)
    shown = NodeValues() if row is None else _values(graph, row, masked, seed)

    diagram = graphviz.Digraph(
        "circuit",
        graph_attr={"fontname": "Helvetica", "labelloc": "b", "fontsize": "11"},
        node_attr={"fontname": "Helvetica", "fontsize": "11", "style": "filled", "margin": "0.08,0.04"},
        edge_attr={"fontname": "Helvetica", "fontsize": "10", "arrowsize": "0.6"},
    )
    if row is not None:
        named = zip(features, row[0].tolist(), strict=True)
        diagram.attr(label=_label([_listed([name + _value(value) for name, value in named]), *shown.caption]))
    nodes = graph.nodes
    number_of = {id(node): number for number, node in enumerate(nodes)}
    roots = graph.root_numbers.tolist()
    for number, (node, scope) in enumerate(zip(nodes, graph.scopes(), strict=True)):
        own = [name for name, root in zip(classes, roots, strict=True) if root == number]
        lines = [", ".join(own)] if own else []
        if isinstance(node, Leaf):
            value = "" if row is None else _value(row[0, node.variable].item())
            lines += [features[node.variable] + value, node.distribution.describe()]
        else:
            lines += ["+" if isinstance(node, Sum) else _TIMES, _scope_names(scope, features)]
        lines += shown.texts[number : number + 1]  # none without a row
        grey = _GREY if number in shown.unused else {}
        shape, colour = _STYLES[type(node).__name__]
        fill = "white" if grey else colour
        diagram.node(f"n{number}", _label(lines), shape=shape, fillcolor=fill, penwidth="2" if own else "1", **grey)
        for place, child in enumerate(children_of(node)):
            weight = f"{node.weights[place]:.3g}" if isinstance(node, Sum) else None
            style = {**_GREY, "style": "dashed"} if (number, place) in shown.dropped else grey
            diagram.edge(f"n{number}", f"n{number_of[id(child)]}", weight, **style)
    return Picture(str(diagram.source))


def _names(argument: str, given: Sequence[str] | None, default: list[str]) -> list[str]:
    if given is None:
        return default
    if len(given) != len(default):
        raise ValueError(f"{argument} must hold {len(default)} names; got {len(given)}")
    return [str(name) for name in given]


@torch.no_grad()
def _values(graph: Graph, row: torch.Tensor, dropout: Dropout, seed: int | None) -> NodeValues:
    return over_masks(graph, row, dropout) if seed is None else under_one_mask(graph, row, dropout, seed)


def _one_row(x: Any) -> torch.Tensor:
    """One row as (1, V), in float64 unless it is a tensor."""
    row = x if isinstance(x, torch.Tensor) else torch.as_tensor(np.asarray(x, dtype=np.float64))
    row = row.unsqueeze(0) if row.ndim == 1 else row
    if row.ndim != 2 or len(row) != 1:
        raise ValueError(f"x must be one row: a picture shows one value of each node; got {tuple(row.shape)}")
    return row


def _value(value: float) -> str:
    return " missing" if math.isnan(value) else f" = {value:.3g}"


def _scope_names(scope: int, features: Sequence[str]) -> str:
    """The names of the variables of a bit set."""
    return "{" + _listed([name for number, name in enumerate(features) if scope >> number & 1]) + "}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _label(lines: Sequence[str]) -> Any:
    r"""Lines as a label in which names stand for themselves: no ``\N``, no entities, no HTML."""
    import graphviz

    plain = ("".join(character if character.isprintable() else " " for character in line) for line in lines)
    return graphviz.nohtml("\\n".join(graphviz.escape(line.replace("&", "&amp;")) for line in plain))
