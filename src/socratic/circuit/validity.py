"""What makes nodes a circuit: no cycle, smooth sums, decomposable products, weights and leaves in order.

Nothing here recurses: circuits may be deeper than Python's stack.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from socratic.circuit.nodes import Leaf, Node, Product, Sum, children_of
from socratic.families import Distribution

_TOLERANCE = 1e-4
_SHOWN = 8
_MOST_FEATURES = 2**20
"""Columns of the widest rows: scopes are bit sets, and more would fill the memory."""


def topological(roots: Sequence[Node]) -> list[Node]:
    """Every node once, children before parents, depth first in the order of the children."""
    order: list[Node] = []
    done: dict[int, bool] = {}  # False while the nodes below are being visited
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        if not isinstance(node, (Leaf, Product, Sum)):
            raise ValueError(f"{_path(roots, node)} must be a Leaf, Product or Sum; got {shown(node)}")
        if id(node) not in done:
            done[id(node)] = False
            children = children_of(node)
            if not isinstance(children, Sequence):
                raise ValueError(
                    f"{_path(roots, node)}, a {type(node).__name__}, must have a tuple of nodes as its children, such "
                    f"as (a, b) or (a,); got {shown(children)}"
                )
            for child in reversed(children):
                if done.get(id(child)) is False:
                    raise ValueError(f"{_path(roots, child)} is below itself; a circuit has no cycles")
                stack.append(child)
        else:
            stack.pop()
            if not done[id(node)]:
                done[id(node)] = True
                order.append(node)
    return order


def check_nodes(roots: Sequence[Node], order: Sequence[Node], n_features: int | None) -> int:
    """Check the nodes of ``topological(roots)`` and return the number of features.

    Raises
    ------
    ValueError
        With the path, the kind and the scope of the first node that is wrong, and what is wrong with it.
    """
    if n_features is not None and n_features > _MOST_FEATURES:
        raise ValueError(f"n_features must be at most {_MOST_FEATURES:,}; got {n_features}")
    scopes: dict[int, int] = {}  # bit sets of variables
    node = order[0]
    try:
        for node in order:
            scopes[id(node)] = _scope(node, scopes, n_features)
    except _WrongNodeError as problem:
        raise ValueError(f"{_describe(roots, node, scopes)} {problem}") from None
    for number, root in enumerate(roots):
        if scopes[id(root)] != scopes[id(roots[0])]:
            raise ValueError(
                f"roots[{number}] is over the {_variables(scopes[id(root)])} and roots[0] over the "
                f"{_variables(scopes[id(roots[0])])}; the roots of all classes need the same variables"
            )
    return scopes[id(roots[0])].bit_length() if n_features is None else n_features


class _WrongNodeError(Exception):
    """What is wrong with a node."""


def _scope(node: Node, scopes: dict[int, int], n_features: int | None) -> int:
    """The variables below a node that is as it should be."""
    if isinstance(node, Leaf):
        _check_leaf(node, n_features)
        return 1 << int(node.variable)
    if not len(node.children):
        raise _WrongNodeError("has no children")
    parts = [scopes[id(child)] for child in node.children]
    if isinstance(node, Sum):
        _check_weights(node)
        for position, part in enumerate(parts):
            if part != parts[0]:
                raise _WrongNodeError(
                    f"is not smooth: children[0] is over the {_variables(parts[0])}, children[{position}] over the "
                    f"{_variables(part)}; all children of a sum need the same variables"
                )
        return parts[0]
    union = 0
    for position, part in enumerate(parts):
        if union & part:
            raise _WrongNodeError(
                f"is not decomposable: children[{position}] and an earlier child are both over the "
                f"{_variables(union & part)}; the children of a product need disjoint variables"
            )
        union |= part
    return union


def _check_leaf(leaf: Leaf, n_features: int | None) -> None:
    variable = leaf.variable
    if isinstance(variable, bool) or not isinstance(variable, (int, np.integer)) or variable < 0:
        raise _WrongNodeError(f"must have a column index as its variable; got {variable!r}")
    if variable >= _MOST_FEATURES:
        raise _WrongNodeError(
            f"has the variable {variable}; a graph has at most {_MOST_FEATURES:,} columns: number those that it uses "
            "from 0 on"
        )
    if n_features is not None and variable >= n_features:
        raise _WrongNodeError(f"has the variable {variable}, but n_features is {n_features}")
    if not isinstance(leaf.distribution, Distribution):
        raise _WrongNodeError(
            f"must have a distribution such as socratic.families.Gaussian.of(0.0, 1.0); got {shown(leaf.distribution)}"
        )


def _check_numbers(expected: str, values: Any) -> None:
    """Raise unless ``values`` is a sequence, or an array of one dimension, of Python's or NumPy's numbers."""
    listed = isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim == 1)
    for value in values if listed else [values]:
        if not listed or not isinstance(value, Real):
            hint = "; .tolist() makes it plain" if hasattr(value, "tolist") else ""
            raise _WrongNodeError(f"must have {expected}; got {shown(value)}{hint}")


def _check_weights(node: Sum) -> None:
    _check_numbers("a tuple of numbers as its weights", node.weights)
    if len(node.weights) != len(node.children):
        raise _WrongNodeError(f"has {len(node.children)} children and {len(node.weights)} weights")
    for position, weight in enumerate(node.weights):
        if not 0.0 <= weight < math.inf:
            raise _WrongNodeError(f"must have weights of at least 0; weights[{position}] is {weight!r}")
    total = math.fsum(node.weights)
    if not abs(total - 1.0) <= _TOLERANCE:
        raise _WrongNodeError(f"must have weights that add up to 1 (divide them by their total); they make {total:g}")


def shown(value: object) -> str:
    """A wrong value in an error message: a number, text or None as it is; a node's own text could be endless."""
    return repr(value) if value is None or isinstance(value, (str, Real)) else f"a {type(value).__name__}"


def _describe(roots: Sequence[Node], node: Node, scopes: dict[int, int]) -> str:
    """Where a node is, what it is and over which variables, as far as its children are known."""
    if isinstance(node, Leaf):
        return f"{_path(roots, node)}, a Leaf of variable {node.variable!r},"
    if not len(node.children):
        return f"{_path(roots, node)}, a {type(node).__name__},"
    scope = 0
    for child in node.children:
        scope |= scopes[id(child)]
    return f"{_path(roots, node)}, a {type(node).__name__} over the {_variables(scope)},"


def _path(roots: Sequence[Node], target: object) -> str:
    """A shortest way from a root to a node, as Python writes it: ``roots[0].children[2]``."""
    queue: deque[Node] = deque()
    steps: dict[int, tuple[Node | None, int]] = {}

    def reach(nodes: Sequence[Node], parent: Node | None) -> None:
        for position, node in enumerate(nodes):
            if id(node) not in steps:
                steps[id(node)] = (parent, position)
                queue.append(node)

    reach(roots, None)
    while queue and id(target) not in steps:
        node = queue.popleft()
        children = getattr(node, "children", ())
        reach(children if isinstance(children, Sequence) else (), node)
    words: list[str] = []
    parent, position = steps[id(target)]
    while parent is not None:
        words.append(f".children[{position}]")
        parent, position = steps[id(parent)]
    return f"roots[{position}]" + "".join(reversed(words))


def _variables(scope: int) -> str:
    """A bit set of variables in words."""
    size = scope.bit_count()
    found: list[str] = []
    while scope and len(found) < _SHOWN:
        lowest = scope & -scope
        found.append(str(lowest.bit_length() - 1))
        scope ^= lowest
    more = f" and {size - _SHOWN} more" if size > _SHOWN else ""
    return f"variable{'s' if size != 1 else ''} {', '.join(found)}{more}"
