"""Trees of hidden states, one for each variable: the structure of hidden Chow-Liu trees (Liu and Van den Broeck, 2021).

The sums of a region are a variable's state given each state of its parent; the region holds the variable and all that
hang below it. Products of element-wise circuits are of one state, so a variable's leaf meets the regions of its
children there. Where several children hang on a variable they meet two at a time, in regions of their own: if the
sums of these keep the state, the circuit is the tree exactly, and otherwise it is a finer one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from socratic.structure.region_graph import ROOT, RegionGraph, RegionGraphBuilder


class _Part(NamedTuple):
    """A region to be: its height, a number that decides between equal ones, its variables and its own parts."""

    height: int
    number: int
    scope: tuple[int, ...]
    parts: tuple[_Part, ...]


def hidden_trees(trees: Sequence[Sequence[int]]) -> RegionGraph:
    """Regions of one tree of hidden states for each of ``trees``, for a circuit of element-wise products.

    Parameters
    ----------
    trees : sequence of sequences of int
        For each tree, the parent of each variable; -1 for its root.
    """
    builder = RegionGraphBuilder(len(trees[0]))
    for parents in trees:
        waiting = [(ROOT, _parts(parents))]
        while waiting:
            region, parts = waiting.pop()
            if parts:
                children = builder.split(region, *(part.scope for part in parts))
                waiting += zip(children, (part.parts for part in parts), strict=True)
    return builder.build()


def _parts(parents: Sequence[int]) -> tuple[_Part, ...]:
    """What the root region splits into."""
    numbers = count()
    found: dict[int, list[_Part]] = {variable: [] for variable in range(len(parents))}
    for variable in reversed(_downwards(parents)):
        parts = found[variable]
        parts.append(_Part(0, next(numbers), (variable,), ()))
        heapq.heapify(parts)
        while len(parts) > 2:  # the lowest two first: a circuit has a layer for each height
            parts.append(_join(next(numbers), heapq.heappop(parts), heapq.heappop(parts)))
            heapq.heapify(parts)
        whole = _join(next(numbers), *parts)
        if parents[variable] < 0:
            return whole.parts
        found[parents[variable]].append(whole)
    raise ValueError(f"a tree needs a variable without a parent, -1; got the parents {list(parents)}")


def _join(number: int, *parts: _Part) -> _Part:
    scope = tuple(sorted(variable for part in parts for variable in part.scope))
    return _Part(1 + max(part.height for part in parts), number, scope, parts)


def _downwards(parents: Sequence[int]) -> list[int]:
    """All variables, parents before children."""
    children: dict[int, list[int]] = {}
    for variable, parent in enumerate(parents):
        children.setdefault(parent, []).append(variable)
    order = list(children.get(-1, ()))
    for variable in order:  # which grows
        order += children.get(variable, ())
    return order
