"""From blocks to a layered circuit, wherever their regions form one tree for each repetition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.layers import ProductKind
from socratic.circuit.layout import LayerPlan, plan_layout
from socratic.families import Family
from socratic.interop.blocks import Block, Joined, Leaves, Products, Sums
from socratic.structure.region_graph import ROOT, RegionGraph, RegionGraphBuilder

T = TypeVar("T")


class NotLayeredError(Exception):
    """Blocks that do not fit a layered circuit, and why."""


@torch.no_grad()
def as_circuit(root: Block) -> Circuit:
    """The circuit whose class roots are the nodes of ``root``.

    Raises
    ------
    NotLayeredError
        If it is none of the shapes that tensors hold. Say so by nodes (:func:`socratic.interop.nodes.as_nodes`).
    """
    if not isinstance(root, Sums):
        raise NotLayeredError("the root is no sum")
    tree = _Tree(root)
    layout = plan_layout(tree.graph)
    widths = [
        _one(
            {tree.sums[region].width for region in plan.regions}, "regions of one shape have different numbers of sums"
        )
        for plan in layout.layers
    ]
    leaf_regions = [tree.leaves[region] for region in layout.leaf_regions]
    n_leaves = _one(
        {leaves.width for region in leaf_regions for leaves in region.values()},
        "leaf regions have different numbers of leaves",
    )
    circuit = Circuit(
        tree.graph,
        n_classes=root.width,
        n_sums=widths,
        n_leaves=n_leaves,
        leaf=_families(leaf_regions, tree.graph.n_features),
        product=tree.product,
    ).to(root.log_weights)
    _fill_leaves(circuit, leaf_regions)
    members = [layout.leaf_regions, *(plan.regions for plan in layout.layers)]
    for layer, plan in zip(circuit.inner_layers(), layout.layers, strict=True):
        layer.logits.copy_(tree.log_weights(plan, members))
    for branch, plan in zip(circuit.root_branches(), layout.roots, strict=True):
        branch.logits.copy_(tree.log_weights(plan, members))
    return circuit


class _Tree:
    """The regions of blocks: which leaves and which weights each of them has."""

    def __init__(self, root: Sums) -> None:
        n_features = len(root.scope)
        if root.scope != frozenset(range(n_features)):
            raise NotLayeredError("the variables are not numbered from 0 without gaps")
        self._builder = RegionGraphBuilder(n_features)
        self._kinds: set[ProductKind] = set()
        self._mixed: set[int] = set()
        self.leaves: dict[int, dict[int, Leaves]] = {}
        self.sums: dict[int, Sums] = {}
        # For each region: the log-weights above it, whether it is its partition's first, and the partition's widths.
        self._weights: dict[int, tuple[Tensor, bool, tuple[int, ...]]] = {}
        for block, log_weights in _branches(root.child, root.log_weights):
            self._grow(ROOT, block, log_weights)
        kinds: set[ProductKind] = self._kinds or {"all-pairs"}
        self.product: ProductKind = _one(kinds, "products of all pairs and by index are mixed")
        self.graph: RegionGraph = self._builder.build()

    def _grow(self, parent: int, block: Block, log_weights: Tensor) -> None:
        """Add the partition of ``parent`` whose products are ``block``, and all that lies below."""
        waiting = [(parent, block, log_weights)]
        while waiting:
            region, products, weights = waiting.pop()
            if id(products) in self._mixed:  # sums over the same nodes share their masks, here they would not
                raise NotLayeredError("sums in several places mix the same nodes")
            self._mixed.add(id(products))
            factors = self._factors(products)
            widths = tuple(factor.width for factor in factors)
            children = self._builder.split(region, *(tuple(factor.scope) for factor in factors))
            for child, factor in zip(children, factors, strict=True):
                self._weights[child] = (weights, child == children[0], widths)
                if isinstance(factor, Sums):
                    self.sums[child] = factor
                    waiting.append((child, factor.child, factor.log_weights))
                else:
                    self.leaves[child] = _leaf_region(factor)

    def _factors(self, block: Block) -> tuple[Block, ...]:
        """The child regions of a partition with these products."""
        if isinstance(block, Sums) or _is_leaf_region(block):
            return (block,)
        if not isinstance(block, Products):
            raise NotLayeredError("inner sums mix several blocks")
        if len(block.children) != 2 or not all(isinstance(c, Sums) or _is_leaf_region(c) for c in block.children):
            raise NotLayeredError("products have more than two factors")
        if not block.all_pairs:
            _one({child.width for child in block.children}, "products by index of different widths")
        self._kinds.add("all-pairs" if block.all_pairs else "element-wise")
        return block.children

    def log_weights(self, plan: LayerPlan, members: Sequence[Sequence[int]]) -> Tensor:
        """Log-weights (F, S, K) of a layer; ``members`` are the regions of every layer, the leaf layer first."""
        rows = []
        for region in members[plan.left.layer][plan.left.start : plan.left.stop]:
            log_weights, is_first, widths = self._weights[region]
            if not is_first and self.product == "all-pairs":  # the layout has put the children the other way round
                log_weights = log_weights.unflatten(1, widths).transpose(1, 2).flatten(1)
            rows.append(log_weights)
        return torch.stack(rows)


def _branches(block: Block, log_weights: Tensor) -> list[tuple[Block, Tensor]]:
    """What the roots with these log-weights (C, K) sum over, repetition by repetition.

    Roots that only weigh repetitions, each taking its own node of every block, become one with the sums below.
    """
    if isinstance(block, Joined):
        parts = log_weights.split([child.width for child in block.children], dim=1)
        return [branch for child, part in zip(block.children, parts, strict=True) for branch in _branches(child, part)]
    if isinstance(block, Sums) and _is_diagonal(log_weights):
        return _branches(block.child, log_weights.diagonal().unsqueeze(1) + block.log_weights)
    return [(block, log_weights)]


def _is_diagonal(log_weights: Tensor) -> bool:
    n_rows, n_columns = log_weights.shape
    others = ~torch.eye(n_rows, n_columns, dtype=torch.bool, device=log_weights.device)
    return n_rows == n_columns and bool((log_weights[others] == -torch.inf).all())


def _is_leaf_region(block: Block) -> bool:
    """Whether the nodes are leaves, or products by index of equally many leaves."""
    if isinstance(block, Products) and not block.all_pairs:
        return all(_is_leaf_region(child) and child.width == block.width for child in block.children)
    return isinstance(block, Leaves)


def _leaf_region(block: Block) -> dict[int, Leaves]:
    """The leaves of a leaf region, by variable."""
    if isinstance(block, Leaves):
        return {block.variable: block}
    assert isinstance(block, Products)
    return {variable: leaves for child in block.children for variable, leaves in _leaf_region(child).items()}


def _families(leaf_regions: Sequence[dict[int, Leaves]], n_features: int) -> list[Family]:
    found: list[set[Family]] = [set() for _ in range(n_features)]
    for region in leaf_regions:
        for variable, leaves in region.items():
            found[variable].add(leaves.family)
    return [_one(families, "a variable has leaves of different families") for families in found]


def _fill_leaves(circuit: Circuit, leaf_regions: Sequence[dict[int, Leaves]]) -> None:
    for group in circuit.leaves.leaf_groups():
        slots = [
            region[variable]
            for region in leaf_regions
            for variable in sorted(region)
            if region[variable].family == group.family
        ]
        for name, parameter in group.values.items():
            parameter.copy_(torch.stack([leaves.parameters[name] for leaves in slots]))


def _one(values: Iterable[T], problem: str) -> T:
    """The only value."""
    found = set(values)
    if len(found) != 1:
        raise NotLayeredError(problem)
    return found.pop()
