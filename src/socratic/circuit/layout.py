"""Layout: which regions of a region graph are evaluated together, and where their children lie.

Regions of the same shape (all the way down) form one layer, so every tensor operation treats them as the
folds of one batch and nothing is padded. Within a layer the regions are ordered by their parents: the left
children of a layer's regions are then a contiguous span of one earlier layer, and so are the right ones.
Reading them costs a view, never a gather.
"""

from __future__ import annotations

from dataclasses import dataclass

from socratic.structure.region_graph import ROOT, Partition, RegionGraph

LEAVES = 0
"""Number of the leaf layer; the sum-product layers follow from 1."""


@dataclass(frozen=True)
class Span:
    """The folds ``start`` to ``stop`` of layer number ``layer``."""

    layer: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class LayerPlan:
    """The regions of one layer and the spans of their children; ``right`` is None for single children."""

    regions: tuple[int, ...]
    left: Span
    right: Span | None


@dataclass(frozen=True)
class Layout:
    """Leaf regions in evaluation order, inner layers bottom up, and the branches of the class roots.

    A branch holds the root's partitions (repetitions) of one shape; its ``regions`` are all the root.
    """

    leaf_regions: tuple[int, ...]
    layers: tuple[LayerPlan, ...]
    roots: tuple[LayerPlan, ...]


def plan_layout(graph: RegionGraph) -> Layout:
    """Group the regions of ``graph`` into layers."""
    partition_of = {p.parent: p for p in graph.partitions if p.parent != ROOT}
    root_partitions = [p for p in graph.partitions if p.parent == ROOT]
    layer_of = _number_shapes(graph, partition_of)

    # A parent's children, the one from the higher layer first: mirror images then share a layer.
    def children(partition: Partition) -> list[int]:
        return sorted(partition.children, key=lambda region: -layer_of[region])

    members: dict[int, list[int]] = {number: [] for number in layer_of.values()}
    members.setdefault(LEAVES, [])

    def append(regions: list[int]) -> Span:
        layer = members[layer_of[regions[0]]]
        start = len(layer)
        layer.extend(regions)
        return Span(layer_of[regions[0]], start, len(layer))

    def plan(partitions: list[Partition]) -> LayerPlan:
        ordered = [children(partition) for partition in partitions]
        left, *rest = ([row[side] for row in ordered] for side in range(len(ordered[0])))
        spans = [append(left), *(append(right) for right in rest)]
        parents = tuple(partition.parent for partition in partitions)
        return LayerPlan(parents, spans[0], spans[1] if len(spans) == 2 else None)

    branches: dict[tuple[int, ...], list[Partition]] = {}
    for partition in root_partitions:
        branches.setdefault(tuple(layer_of[region] for region in children(partition)), []).append(partition)
    roots = tuple(plan(partitions) for partitions in branches.values())
    # Parents come first: when a layer's turn comes, the order of its regions is settled.
    layers = {
        number: plan([partition_of[region] for region in members[number]])
        for number in sorted(members, reverse=True)
        if number != LEAVES
    }
    return Layout(tuple(members[LEAVES]), tuple(layers[number] for number in sorted(layers)), roots)


def _number_shapes(graph: RegionGraph, partition_of: dict[int, Partition]) -> dict[int, int]:
    """Layer number of each region below the root: equal for equal shapes, larger than its children's."""
    numbers: dict[int, int] = {}
    shapes: dict[tuple[int, ...], int] = {}
    stack = [region for p in graph.partitions if p.parent == ROOT for region in p.children]
    while stack:
        region = stack[-1]
        if region not in partition_of:
            numbers[stack.pop()] = LEAVES
            continue
        waiting = [child for child in partition_of[region].children if child not in numbers]
        if waiting:
            stack.extend(waiting)
            continue
        shape = tuple(sorted(numbers[child] for child in partition_of[region].children))
        numbers[stack.pop()] = shapes.setdefault(shape, len(shapes) + 1)
    return numbers
