"""Diagrams of circuits: one shape for each node, one line for each edge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import torch

from socratic.circuit import Circuit, Graph, Leaf, Sum
from socratic.circuit.nodes import children_of
from socratic.drawing.picture import Picture
from socratic.drawing.summary import summary
from socratic.errors import check_choice, check_rate
from socratic.inference import NodeMoments, node_moments
from socratic.inference.dropout import MASK_KINDS, MaskKind

MAX_NODES = 200
"""Nodes of the largest circuit that is drawn: beyond, nobody can read it."""
_MAX_NAMES = 6
_TIMES = "\N{MULTIPLICATION SIGN}"
_STYLES = {"Sum": ("ellipse", "#dbe9f6"), "Product": ("ellipse", "#fde9d0"), "Leaf": ("box", "#eeeeee")}


def draw(
    circuit: Circuit | Graph,
    x: Any = None,
    *,
    dropout: float = 0.2,
    masks: MaskKind = "edge",
    root_dropout: bool = False,
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
    feature_names, class_names : sequences of str, optional
        Names of the V columns and of the C classes.

    Returns
    -------
    Picture
        It has the DOT text as ``source``, shows itself in notebooks, and goes to a file by ``save``.
    """
    try:
        import graphviz
    except ImportError as error:
        raise ImportError('draw needs graphviz; install it with: pip install "socratic[draw]"') from error

    check_choice("masks", masks, MASK_KINDS)
    dropout = check_rate("dropout", dropout)
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
    moments = None
    if row is not None:
        with torch.no_grad():
            moments = node_moments(graph, row, dropout=dropout, masks=masks, root_dropout=root_dropout)

    diagram = graphviz.Digraph(
        "circuit",
        graph_attr={"fontname": "Helvetica", "labelloc": "b", "fontsize": "11"},
        node_attr={"fontname": "Helvetica", "fontsize": "11", "style": "filled", "margin": "0.08,0.04"},
        edge_attr={"fontname": "Helvetica", "fontsize": "10", "arrowsize": "0.6"},
    )
    if moments is not None and row is not None:
        diagram.attr(label=_label(caption(moments, row[0], features)))
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
        if moments is not None:
            lines.append(moments_of(moments, number))
        shape, colour = _STYLES[type(node).__name__]
        outline = "2" if own else "1"
        diagram.node(f"n{number}", _label(lines), shape=shape, fillcolor=colour, penwidth=outline)
        for place, child in enumerate(children_of(node)):
            weight = f"{node.weights[place]:.3g}" if isinstance(node, Sum) else None
            diagram.edge(f"n{number}", f"n{number_of[id(child)]}", weight)
    return Picture(str(diagram.source))


def _names(argument: str, given: Sequence[str] | None, default: list[str]) -> list[str]:
    if given is None:
        return default
    if len(given) != len(default):
        raise ValueError(f"{argument} must hold {len(default)} names; got {len(given)}")
    return [str(name) for name in given]


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


def caption(moments: NodeMoments, row: torch.Tensor, features: Sequence[str]) -> list[str]:
    """The lines below a picture: the row, and how the moments were computed."""
    values = _listed([name + _value(value) for name, value in zip(features, row.tolist(), strict=True)])
    roots = ", roots too" if moments.root_dropout else ""
    kind = "bounds of the deviation" if moments.method == "bounds" else "exact"
    return [
        values,
        f"mean ± standard deviation over masks: dropout {moments.dropout:g}, {moments.masks} masks{roots}",
        f"{moments.method}: {kind}",
    ]


def moments_of(moments: NodeMoments, number: int) -> str:
    """Mean and standard deviation of a node; of bounds the range of the deviation."""
    log_mean = moments.log_mean[0, number].item()
    lower, upper = (
        _exp(log_mean + 0.5 * math.log(variance)) if (variance := side[0, number].item()) > 0.0 else "0"
        for side in moments.variance_bounds
    )
    if upper == "0":
        return _exp(log_mean)
    return f"{_exp(log_mean)} ± {lower if lower == upper else f'({lower} to {upper})'}"


def _exp(logarithm: float) -> str:
    """Three digits of a number of any size, from its logarithm."""
    if logarithm == -math.inf:
        return "0"
    if abs(logarithm) < 700:
        return f"{math.exp(logarithm):.3g}"
    # Beyond, the exponent would be longer than the rest, and too large for decimals.
    return f"{Decimal(logarithm).exp():.3g}" if abs(logarithm) < 1e6 else f"exp({logarithm:.3g})"


def _label(lines: Sequence[str]) -> Any:
    r"""Lines as a label in which names stand for themselves: no ``\N``, no entities, no HTML."""
    import graphviz

    plain = ("".join(character if character.isprintable() else " " for character in line) for line in lines)
    return graphviz.nohtml("\\n".join(graphviz.escape(line.replace("&", "&amp;")) for line in plain))
