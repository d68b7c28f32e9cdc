"""Region graphs: which variables a circuit splits where, as plain data.

A *region* is a set of variables (its scope). A *partition* splits a region into two child regions of
disjoint scope, or passes it on whole to a single child. The root region holds every variable and has one
partition per repetition; every other region belongs to exactly one partition and has at most one partition
of its own, so each repetition is a binary tree. Regions without a partition are leaf regions.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from socratic.errors import check_count

ROOT = 0
"""Index of the root region in :attr:`RegionGraph.regions`."""


@dataclass(frozen=True)
class Region:
    """A set of variables, as a tuple of column indices in increasing order."""

    scope: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", _whole_numbers("scope", self.scope))


@dataclass(frozen=True)
class Partition:
    """A split of the region ``parent`` into the regions ``children`` (indices into the graph's regions).

    Two children split the parent's scope between them. A single child has the parent's whole scope: the
    parent's sums are then mixtures of the child's nodes.
    """

    parent: int
    children: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parent", *_whole_numbers("parent", (self.parent,)))
        object.__setattr__(self, "children", _whole_numbers("children", self.children))


@dataclass(frozen=True)
class RegionGraph:
    """Regions and partitions over ``n_features`` variables; region 0 is the root.

    Raises
    ------
    ValueError
        If scopes do not fit together or the partitions do not form one binary tree per repetition.
    """

    n_features: int
    regions: tuple[Region, ...]
    partitions: tuple[Partition, ...]

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def leaf_regions(self) -> tuple[int, ...]:
        """Indices of the regions that have no partition."""
        split = {partition.parent for partition in self.partitions}
        return tuple(index for index in range(len(self.regions)) if index not in split)

    @property
    def n_repetitions(self) -> int:
        """Number of partitions of the root."""
        return sum(partition.parent == ROOT for partition in self.partitions)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, as stored in model files."""
        return {
            "n_features": self.n_features,
            "regions": [list(region.scope) for region in self.regions],
            "partitions": [[partition.parent, *partition.children] for partition in self.partitions],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RegionGraph:
        """Rebuild a graph from :meth:`to_dict`, checking it as if it were new."""
        return cls(
            n_features=data["n_features"],
            regions=tuple(Region(tuple(scope)) for scope in data["regions"]),
            partitions=tuple(Partition(row[0], tuple(row[1:])) for row in data["partitions"]),
        )


class RegionGraphBuilder:
    """Collects the regions and partitions of repetitions, one binary split at a time."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._regions = [Region(tuple(range(n_features)))]
        self._partitions: list[Partition] = []

    def split(self, parent: int, *scopes: tuple[int, ...]) -> tuple[int, ...]:
        """Add a partition of ``parent`` into new regions with these scopes; return their indices."""
        first = len(self._regions)
        self._regions.extend(Region(tuple(sorted(scope))) for scope in scopes)
        children = tuple(range(first, len(self._regions)))
        self._partitions.append(Partition(parent, children))
        return children

    def build(self) -> RegionGraph:
        """Return the finished graph."""
        return RegionGraph(self._n_features, tuple(self._regions), tuple(self._partitions))


def join_repetitions(graphs: Sequence[RegionGraph]) -> tuple[RegionGraph, list[tuple[int, int]]]:
    """A region graph with the repetitions of several, one after the other.

    Returns
    -------
    RegionGraph
    list of (int, int)
        For each of its regions, the graph that it comes from and its index there; the root is the first graph's.
    """
    regions, partitions = [graphs[0].regions[ROOT]], []
    origin = [(0, ROOT)]
    for number, graph in enumerate(graphs):
        shift = len(regions) - 1  # the root is there already
        place = {index: index + shift if index != ROOT else ROOT for index in range(len(graph.regions))}
        regions += graph.regions[1:]
        origin += [(number, index) for index in range(1, len(graph.regions))]
        partitions += [
            Partition(place[p.parent], tuple(place[child] for child in p.children)) for p in graph.partitions
        ]
    return RegionGraph(graphs[0].n_features, tuple(regions), tuple(partitions)), origin


def _validate(graph: RegionGraph) -> None:
    object.__setattr__(graph, "n_features", check_count("n_features", graph.n_features))
    full = graph.regions and len(graph.regions[ROOT].scope) == graph.n_features
    if not full or graph.regions[ROOT].scope != tuple(range(graph.n_features)):
        raise ValueError(f"region 0 must be the root, with the scope 0 to {graph.n_features - 1}")
    for index, region in enumerate(graph.regions):
        scope = region.scope
        if not scope or list(scope) != sorted(set(scope)) or scope[0] < 0 or scope[-1] >= graph.n_features:
            raise ValueError(
                f"region {index} must have distinct variables between 0 and {graph.n_features - 1} "
                f"in increasing order; got {_shorten(scope)}"
            )
    for partition in graph.partitions:
        _validate_split(partition, graph.regions)
    _validate_trees(graph)


def _validate_trees(graph: RegionGraph) -> None:
    parents = Counter(partition.parent for partition in graph.partitions)
    children = Counter(child for partition in graph.partitions for child in partition.children)
    if children[ROOT]:
        raise ValueError("the root region must not be a child of a partition")
    if not parents[ROOT]:
        raise ValueError("the root region must have at least one partition")
    for index in range(1, len(graph.regions)):
        if parents[index] > 1:
            raise ValueError(f"region {index} has {parents[index]} partitions; only the root may have several")
        if children[index] != 1:
            raise ValueError(f"region {index} must belong to exactly one partition; got {children[index]}")
    # Single children have their parent's scope, so that two of them could be each other's.
    children_of: dict[int, list[int]] = {}
    for partition in graph.partitions:
        children_of.setdefault(partition.parent, []).extend(partition.children)
    reached = [ROOT]
    for region in reached:
        reached.extend(children_of.get(region, []))
    if len(reached) < len(graph.regions):
        lost = min(set(range(len(graph.regions))) - set(reached))
        raise ValueError(f"region {lost} must lie below the root; its parents form a circle")


def _validate_split(partition: Partition, regions: tuple[Region, ...]) -> None:
    for index in (partition.parent, *partition.children):
        if not 0 <= index < len(regions):
            raise ValueError(f"{partition} names region {index!r} of {len(regions)} regions")
    scope = regions[partition.parent].scope
    parts = [variable for child in partition.children for variable in regions[child].scope]
    if len(partition.children) not in (1, 2):
        raise ValueError(
            f"the partition of region {partition.parent} must have one or two children; got {len(partition.children)}"
        )
    if sorted(parts) != list(scope):
        raise ValueError(
            f"the children of region {partition.parent} must split its scope {_shorten(scope)} "
            f"without overlap; together they hold {_shorten(tuple(sorted(parts)))}"
        )


def _whole_numbers(name: str, values: Iterable[int]) -> tuple[int, ...]:
    """The values as plain ints, whatever kind of whole number they are."""
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise ValueError(f"{name} must hold whole numbers; got {values!r}") from None


def _shorten(scope: tuple[int, ...], limit: int = 12) -> str:
    shown = ", ".join(str(variable) for variable in scope[:limit])
    return f"({shown}{', ...' if len(scope) > limit else ''})"
