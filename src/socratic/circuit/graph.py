"""Circuits of any shape: a directed acyclic graph of leaves, products and sums, compiled for batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from socratic.circuit.base import CircuitModule
from socratic.circuit.graph_leaves import GraphLeaves
from socratic.circuit.levels import Levels, compile_levels
from socratic.circuit.nodes import Leaf, Node, Product, Sum
from socratic.circuit.validity import check_nodes, shown, topological
from socratic.errors import check_count
from socratic.families import Family


class _Snapshot(NamedTuple):
    """Nodes and the parameters they were made with. Copies of a graph share it: a copy would follow the nodes down."""

    nodes: tuple[Node, ...]
    parameters: dict[str, Tensor]

    def __deepcopy__(self, memo: object) -> _Snapshot:
        return self


class Graph(CircuitModule):
    """A smooth and decomposable circuit of any shape, with one root for each class.

    Nodes are numbered: leaves first, then level by level. Queries are functions over
    ``leaves``, :attr:`levels`, ``root_numbers`` and :meth:`log_weights`.

    Parameters
    ----------
    roots : Node or sequence of nodes
        The root, or one root for each class. A node that occurs several times is shared.
    n_features : int, optional
        Number of columns of the rows (V); by default one more than the largest variable.
    dtype : torch.dtype, optional
        Floating-point type of the parameters, torch's default type by default.

    Raises
    ------
    ValueError
        If the nodes are no circuit: a cycle, a sum that is not smooth, a product that is not decomposable, weights
        that are negative or do not add up to 1. The message names the node by its path from a root.
    """

    child_numbers: Tensor
    sum_numbers: Tensor
    sum_of_edge: Tensor
    edge_child: Tensor
    root_numbers: Tensor

    def __init__(
        self, roots: Node | Sequence[Node], n_features: int | None = None, *, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        if not isinstance(roots, (Leaf, Product, Sum, Iterable)):
            raise ValueError(f"roots must be a Leaf, Product or Sum, or a sequence of them; got {shown(roots)}")
        given = (roots,) if isinstance(roots, (Leaf, Product, Sum)) else tuple(roots)
        if not given:
            raise ValueError("roots must hold at least one node")
        if n_features is not None:
            n_features = check_count("n_features", n_features)
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ValueError(f"dtype must be a floating-point type such as torch.float64; got {dtype!r}")
        order = topological(given)
        self.n_features = check_nodes(given, order, n_features)
        self.n_classes = len(given)
        self.leaves = GraphLeaves([node for node in order if isinstance(node, Leaf)], dtype)
        nodes, levels = compile_levels(order, self.leaves.nodes)
        self.blocks = levels.blocks
        for name in ("child_numbers", "sum_numbers", "sum_of_edge", "edge_child"):
            self.register_buffer(name, getattr(levels, name), persistent=False)
        number = {id(node): index for index, node in enumerate(nodes)}
        self.register_buffer("root_numbers", torch.tensor([number[id(root)] for root in given]), persistent=False)
        weights = [weight for node in nodes if isinstance(node, Sum) for weight in node.weights]
        self.logits = nn.Parameter(torch.log(torch.tensor(weights, dtype=torch.float64)).to(dtype))
        self.column_families = self._families_of_columns()
        # What queries derive from the wiring alone, which never changes.
        self.derived: dict[tuple[object, ...], Any] = {}
        self._snapshot = self._snap(nodes)

    @property
    def levels(self) -> Levels:
        """The wiring, on the graph's device."""
        return Levels(self.blocks, self.child_numbers, self.sum_numbers, self.sum_of_edge, self.edge_child)

    def log_weights(self) -> Tensor:
        """Logarithms of the normalised weights of all edges of sums: (E,)."""
        return self.normalise(self.logits)

    def normalise(self, logits: Tensor) -> Tensor:
        """Logarithms (E,) of weights in proportion to the exponentials of ``logits`` (E,), normalised sum by sum."""
        shape = (self.n_sums,)
        top = logits.detach().new_full(shape, -torch.inf)
        top = top.scatter_reduce(0, self.sum_of_edge, logits.detach(), "amax")
        shifted = logits - top[self.sum_of_edge]
        total = logits.new_zeros(shape).index_add(0, self.sum_of_edge, torch.exp(shifted))
        return shifted - torch.log(total)[self.sum_of_edge]

    @property
    def roots(self) -> tuple[Node, ...]:
        """The roots as nodes with the present parameters.

        The nodes the graph was built from, as long as no parameter has changed; new ones, which share alike, after.
        """
        nodes = self.nodes
        return tuple(nodes[number] for number in self.root_numbers.tolist())

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes with the present parameters, in the order of their numbers; see :attr:`roots`."""
        known = self._snapshot.parameters
        if not all(torch.equal(known[name].to(value), value.detach()) for name, value in self.named_parameters()):
            self._snapshot = self._snap(self._current_nodes())
        return self._snapshot.nodes

    def scopes(self) -> list[int]:
        """The variables of every node as bit sets, in the order of their numbers."""
        found = [1 << int(leaf.variable) for leaf in self.leaves.nodes]
        for block in self.blocks:
            for children in self.levels.children_of(block).tolist():
                scope = 0
                for child in children:
                    scope |= found[child]
                found.append(scope)
        return found

    def _snap(self, nodes: tuple[Node, ...]) -> _Snapshot:
        return _Snapshot(nodes, {name: value.detach().clone() for name, value in self.named_parameters()})

    @torch.no_grad()
    def _current_nodes(self) -> tuple[Node, ...]:
        nodes: list[Node] = [
            Leaf(old.variable, distribution)
            for old, distribution in zip(self.leaves.nodes, self.leaves.distributions(), strict=True)
        ]
        weights = torch.exp(self.log_weights().double()).tolist()
        # Sums that had one tuple of children keep having one.
        tuples: dict[tuple[int, ...], tuple[Node, ...]] = {}
        for block in self.blocks:
            edge = block.first_edge
            for numbers in self.levels.children_of(block).tolist():
                children = tuples.setdefault(tuple(numbers), tuple(nodes[number] for number in numbers))
                if block.is_sum:
                    nodes.append(Sum(children, tuple(weights[edge : edge + block.arity])))
                    edge += block.arity
                else:
                    nodes.append(Product(children))
        return tuple(nodes)

    def _families_of_columns(self) -> tuple[tuple[Family, ...], ...]:
        """The families of the leaves of each column; a column without leaves has none."""
        found: dict[int, dict[Family, None]] = {}
        for batch in self.leaves.leaf_batches():
            for variable in batch.variables.unique().tolist():
                found.setdefault(variable, {})[batch.family] = None
        return tuple(tuple(found.get(column, ())) for column in range(self.n_features))

    @property
    def n_leaves(self) -> int:
        """Number of leaves (L), which have the numbers from 0 to L - 1."""
        return len(self.leaves.nodes)

    @property
    def n_nodes(self) -> int:
        """Number of leaves, products and sums."""
        return len(self._snapshot.nodes)

    @property
    def n_sums(self) -> int:
        """Number of sums."""
        return len(self.sum_numbers)

    @property
    def n_edges(self) -> int:
        """Number of edges from sums to children (E): each has a weight."""
        return len(self.logits)

    def extra_repr(self) -> str:
        """Sizes, for printing."""
        return f"n_features={self.n_features}, n_classes={self.n_classes}, n_nodes={self.n_nodes}"
