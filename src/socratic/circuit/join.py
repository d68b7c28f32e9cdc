"""Joining: several circuits as one, under a sum over them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.layers import SumProductLayer
from socratic.circuit.layout import LEAVES, Layout, Span, plan_layout
from socratic.circuit.nodes import Node, Sum
from socratic.errors import check_number
from socratic.structure.region_graph import join_repetitions

MOST_EDGES = 3_000_000
"""Edges of the largest layered circuits that are joined as nodes: each is an object of Python's."""
_TOLERANCE = 1e-6
"""How far from 1 weights may add up to."""


@torch.no_grad()
def join_circuits(circuits: Sequence[Circuit | Graph], weights: Sequence[float] | None = None) -> Circuit | Graph:
    """Join circuits as one, whose likelihoods are theirs, mixed: p(x | class) = sum over k of v_k p_k(x | class).

    The circuits keep their structure and stay independent under dropout: the class roots of the joined one are the only
    sums over more than one of them, with the weights of their roots times ``weights``.

    Parameters
    ----------
    circuits : sequence of Circuit or Graph
        Of the same features and classes. They are copied.
    weights : sequence of float, optional
        The share v_k of each circuit, positive and adding up to 1; equal shares by default.

    Returns
    -------
    Circuit or Graph
        A layered circuit with the repetitions of all of them, if they are layered and of equal families, products and
        numbers of sums and leaves; otherwise a graph. It is on the device of the first, and in the most exact of their
        types.

    Raises
    ------
    ValueError
        If the circuits do not fit together, or only as a graph of too many nodes.
    """
    members = tuple(circuits)
    _check_members(members)
    shares = _check_shares(weights, len(members))
    dtype = members[0].dtype
    for member in members:
        dtype = torch.promote_types(dtype, member.dtype)
    layered = [member for member in members if isinstance(member, Circuit)]
    joined: Circuit | Graph | None = None
    if len(layered) == len(members):
        joined = _join_layered(layered, shares, dtype)
    if joined is None:
        _check_size(layered)
        graphs = [member if isinstance(member, Graph) else member.to_graph() for member in members]
        joined = _join_nodes(graphs, shares, dtype)
    return joined.to(members[0].device)


def _check_members(members: Sequence[Circuit | Graph]) -> None:
    if not members:
        raise ValueError("circuits must hold at least one circuit")
    for number, member in enumerate(members):
        if not isinstance(member, Circuit | Graph):
            raise ValueError(f"circuits must hold a Circuit or Graph each; circuits[{number}] is {member!r}")
        for what in ("n_features", "n_classes"):
            first, other = getattr(members[0], what), getattr(member, what)
            if first != other:
                raise ValueError(
                    f"circuits must have equal {what}; circuits[0] has {first} and circuits[{number}] {other}"
                )


def _check_shares(weights: Sequence[float] | None, n_circuits: int) -> list[float]:
    if weights is None:
        return [1.0 / n_circuits] * n_circuits
    shares = [check_number(f"weights[{number}]", weight, minimum=0.0) for number, weight in enumerate(weights)]
    total = math.fsum(shares)
    if len(shares) != n_circuits or 0.0 in shares or not abs(total - 1.0) <= _TOLERANCE:
        raise ValueError(
            f"weights must be one positive number for each of {n_circuits} circuits, adding up to 1; got {weights!r}"
        )
    return [share / total for share in shares]


def _check_size(layered: Sequence[Circuit]) -> None:
    n_edges = sum(layer.logits.numel() for circuit in layered for layer in _all_layers(circuit))
    if n_edges > MOST_EDGES:
        raise ValueError(
            "circuits of different shapes (n_sums, n_leaves, product, leaf), or with graphs among them, are joined as "
            f"nodes, and these would have {n_edges:,} edges, more than {MOST_EDGES:,}; build them all in one shape"
        )


class _Place(NamedTuple):
    """Sums of a circuit: their logits (S, K), and how many nodes their left and right child regions have."""

    logits: Tensor
    widths: tuple[int, int | None]
    all_pairs: bool
    mirrored: bool

    def read(self) -> Tensor:
        """The logits with the children in the order in which this place was asked for."""
        n_left, n_right = self.widths
        if not (self.mirrored and self.all_pairs and n_right is not None):
            return self.logits
        return self.logits.unflatten(-1, (n_left, n_right)).mT.flatten(-2)


def _join_layered(circuits: Sequence[Circuit], shares: Sequence[float], dtype: torch.dtype) -> Circuit | None:
    """A circuit with the repetitions of all of them; None if they differ too much."""
    first = circuits[0]
    alike = {(circuit.leaves.families, circuit.leaves.n_nodes, circuit.product) for circuit in circuits}
    if len(alike) > 1:
        return None
    graph, origin = join_repetitions([circuit.region_graph for circuit in circuits])
    layout = plan_layout(graph)
    places = [_places(circuit, share) for circuit, share in zip(circuits, shares, strict=True)]

    def logits_of(left: Span) -> list[Tensor]:
        """Logits (S, K) of the sums over regions, given by their left children, of one layer or branch."""
        return [places[member][region].read() for member, region in (origin[r] for r in _regions(layout, left))]

    layers = [logits_of(plan.left) for plan in layout.layers]
    widths = [{len(part) for part in parts} for parts in layers]
    if any(len(of_layer) > 1 for of_layer in widths):
        return None
    n_sums = [size for of_layer in widths for size in of_layer]
    joined = Circuit(
        graph,
        n_classes=first.n_classes,
        n_sums=n_sums,
        n_leaves=first.leaves.n_nodes,
        leaf=first.leaves.families,
        product=first.product,
    ).to(dtype)
    for layer, parts in zip(joined.inner_layers(), layers, strict=True):
        layer.logits.copy_(torch.stack(parts))
    for branch, plan in zip(joined.root_branches(), layout.roots, strict=True):
        branch.logits.copy_(torch.stack(logits_of(plan.left)))
    _copy_leaves(joined, circuits, [origin[region] for region in layout.leaf_regions])
    return joined


def _places(circuit: Circuit, share: float) -> dict[int, _Place]:
    """The sums over each region of a circuit and its sibling, by either of the two; roots are weighted by ``share``."""
    layout = plan_layout(circuit.region_graph)
    found: dict[int, _Place] = {}
    plans = [*layout.layers, *layout.roots]
    logits = [*(layer.logits for layer in circuit.inner_layers()), *_root_logits(circuit, share)]
    for plan, layer, values in zip(plans, _all_layers(circuit), logits, strict=True):
        for mirrored, span in enumerate(filter(None, (plan.left, plan.right))):
            for region, part in zip(_regions(layout, span), values.cpu(), strict=True):
                found[region] = _Place(part, layer.widths, layer.all_pairs, bool(mirrored))
    return found


def _root_logits(circuit: Circuit, share: float) -> Iterator[Tensor]:
    """Logarithms (F, C, K) of the weights of each root branch, times ``share``."""
    branches = circuit.root_branches()
    every = torch.cat([branch.logits.transpose(0, 1).flatten(1) for branch in branches], dim=1)
    shift = math.log(share) - torch.logsumexp(every, dim=1, keepdim=True)  # (C, 1)
    return (branch.logits + shift for branch in branches)


def _copy_leaves(joined: Circuit, circuits: Sequence[Circuit], origin: Sequence[tuple[int, int]]) -> None:
    """Give ``joined`` the leaves of leaf regions that come from a circuit and its region."""
    fold_of = [
        {region: fold for fold, region in enumerate(plan_layout(circuit.region_graph).leaf_regions)}
        for circuit in circuits
    ]
    for number, group in enumerate(joined.leaves.leaf_groups()):
        groups = [circuit.leaves.leaf_groups()[number] for circuit in circuits]
        counts = [torch.bincount(part.region_of_slot, minlength=len(part.slot_index)).tolist() for part in groups]
        for name, values in group.values.items():
            parts = [part.values[name].cpu().split(count) for part, count in zip(groups, counts, strict=True)]
            values.copy_(torch.cat([parts[member][fold_of[member][region]] for member, region in origin]))


def _regions(layout: Layout, span: Span) -> tuple[int, ...]:
    layer = layout.leaf_regions if span.layer == LEAVES else layout.layers[span.layer - 1].regions
    return layer[span.start : span.stop]


def _all_layers(circuit: Circuit) -> list[SumProductLayer]:
    return [*circuit.inner_layers(), *circuit.root_branches()]


def _join_nodes(graphs: Sequence[Graph], shares: Sequence[float], dtype: torch.dtype) -> Graph:
    """A graph whose class roots are sums over what the graphs' roots are sums over."""
    # Roots over the same children have one tuple of them, as they share masks then.
    tuples: dict[tuple[int, ...], tuple[Node, ...]] = {}
    roots = []
    for of_class in zip(*(graph.roots for graph in graphs), strict=True):
        children: list[Node] = []
        weights: list[float] = []
        for root, share in zip(of_class, shares, strict=True):
            below = root if isinstance(root, Sum) else Sum((root,), (1.0,))
            total = math.fsum(below.weights)
            children += below.children
            weights += [share * weight / total for weight in below.weights]
        shared = tuples.setdefault(tuple(map(id, children)), tuple(children))
        roots.append(Sum(shared, tuple(weights)))
    return Graph(roots, graphs[0].n_features, dtype=dtype)
