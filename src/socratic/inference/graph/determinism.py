"""Whether a graph is deterministic: no complete row gives a positive value to two children of one sum.

The support of a node is kept variable by variable, as the set of values that some leaf below it gives a positive
probability. That is at least its true support, so children that are found apart are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import torch

from socratic.circuit.graph import Graph
from socratic.circuit.graph_leaves import LeafBatch
from socratic.memory import table_rows

Support = dict[int, int]
"""Sets of possible values, as bits, of the variables that not every value is possible for."""


@torch.no_grad()
def is_deterministic(graph: Graph) -> bool:
    """Whether every two children of a sum are certain to differ in the possible values of some variable."""
    supports = _leaf_supports(graph)
    everything = _union_of_leaves(graph, supports)
    supports = [_restrictions(support, everything) for support in supports]
    alive = (graph.log_weights() > -torch.inf).tolist()
    for block in graph.blocks:
        edge = block.first_edge
        for numbers in graph.levels.children_of(block).tolist():
            if block.is_sum:
                kept = alive[edge : edge + block.arity]
                children = [supports[number] for number, use in zip(numbers, kept, strict=True) if use]
                if not _are_disjoint(children):
                    return False
                supports.append(_restrictions(_union(children), everything))
                edge += block.arity
            else:  # the variables of its children are different ones
                supports.append(
                    {variable: values for number in numbers for variable, values in supports[number].items()}
                )
    return True


def _leaf_supports(graph: Graph) -> list[Support]:
    """Supports of the leaves, by number; a density is positive everywhere."""
    found: list[Support] = []
    for batch in graph.leaves.leaf_batches():
        if batch.family.n_values is None:
            found += [{} for _ in range(len(batch.variables))]
        else:
            found += [{v: values} for v, values in zip(batch.variables.tolist(), _possible_values(batch), strict=True)]
    return found


def _possible_values(batch: LeafBatch) -> list[int]:
    """The values with a positive probability, as bits, of each leaf of a discrete family."""
    n_values = batch.family.n_values or 0
    numbers = torch.arange(len(batch.variables), device=batch.variables.device)
    found: list[int] = []
    for leaves in numbers.split(table_rows(n_values)):
        # Logarithms as the evaluation has them: a probability may be too small for a number without being 0.
        possible = batch.log_table(leaves).squeeze(1) > -torch.inf
        rows = np.packbits(possible.cpu().numpy(), axis=1, bitorder="little")
        found += [int.from_bytes(row.tobytes(), "little") for row in rows]
    return found


def _union_of_leaves(graph: Graph, supports: Sequence[Support]) -> Support:
    """All values of each variable that some leaf has."""
    total = dict.fromkeys(range(graph.n_features), 0)
    for support in supports:
        for variable, values in support.items():
            total[variable] |= values
    return total


def _restrictions(support: Support, everything: Support) -> Support:
    """A support without the variables that can have every value: they set no two nodes apart."""
    return {variable: values for variable, values in support.items() if values != everything[variable]}


def _union(supports: Sequence[Support]) -> Support:
    total = dict(supports[0])
    for support in supports[1:]:
        total = {variable: values | support[variable] for variable, values in total.items() if variable in support}
    return total


def _are_disjoint(supports: Sequence[Support]) -> bool:
    """Whether every two supports have no value of some variable in common."""
    for variable in _union(supports):  # one variable may set all of them apart
        seen, apart = 0, True
        for support in supports:
            apart = apart and not seen & support[variable]
            seen |= support[variable]
        if apart:
            return True
    return all(
        any(not values & b[variable] for variable, values in a.items() if variable in b)
        for a, b in combinations(supports, 2)
    )
