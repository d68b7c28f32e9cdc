"""Text summaries of circuits of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from socratic.circuit import Circuit, Graph
from socratic.circuit.layers import SumProductLayer
from socratic.inference.dropout import MASK_KINDS, Dropout, MaskKind
from socratic.inference.engine import Engine
from socratic.inference.kinds import engine_of
from socratic.notebook import table_of_facts


@dataclass(frozen=True)
class Summary:
    """What a circuit is made of; printing it gives an aligned text. Nodes are those of ``circuit.to_graph()``.

    Attributes
    ----------
    kind : str
        ``"Circuit"`` or ``"Graph"``.
    n_features, n_classes : int
        Columns and roots.
    leaves : mapping of str to int
        Number of leaves of each family.
    n_products, n_sums : int
        Inner nodes.
    n_levels : int
        Nodes on the longest way from a root to a leaf.
    n_edges, n_weights : int
        Edges, and those of them that are edges of sums.
    n_parameters : int
        Learnable parameters.
    scope_sizes : mapping of int to int
        How many different scopes there are of each number of variables.
    methods : mapping of str to (str, str)
        For each kind of masks the method of :func:`socratic.tdi`, and why.
    """

    kind: str
    n_features: int
    n_classes: int
    leaves: Mapping[str, int]
    n_products: int
    n_sums: int
    n_levels: int
    n_edges: int
    n_weights: int
    n_parameters: int
    scope_sizes: Mapping[int, int]
    methods: Mapping[MaskKind, tuple[str, str]]

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return sum(self.leaves.values())

    @property
    def n_nodes(self) -> int:
        """Number of leaves, products and sums."""
        return self.n_leaves + self.n_products + self.n_sums

    def __repr__(self) -> str:
        facts = self._facts()
        width = max(map(len, facts))
        return "\n".join([self.kind, *(f"  {name:<{width}}  {value}" for name, value in facts.items())])

    def _repr_html_(self) -> str:
        return table_of_facts(self._facts(), f"What a {self.kind} is made of.")

    def _facts(self) -> dict[str, str]:
        families = ", ".join(f"{number:,} {name}" for name, number in self.leaves.items())
        smallest, largest = min(self.scope_sizes), max(self.scope_sizes)
        return {
            "columns": f"{self.n_features:,}",
            "classes": f"{self.n_classes:,}",
            "nodes": f"{self.n_nodes:,} in {self.n_levels:,} levels",
            "  leaves": f"{self.n_leaves:,} ({families})",
            "  products": f"{self.n_products:,}",
            "  sums": f"{self.n_sums:,}",
            "edges": f"{self.n_edges:,} ({self.n_weights:,} with a weight)",
            "parameters": f"{self.n_parameters:,}",
            "scopes": f"{sum(self.scope_sizes.values()):,}, of {smallest:,} to {largest:,} columns",
            **{f"TDI, {masks} masks": f"{method}: {reason}" for masks, (method, reason) in self.methods.items()},
        }


def summary(circuit: Circuit | Graph, *, methods: bool = True) -> Summary:
    """Summarise a circuit of any size.

    Parameters
    ----------
    circuit : Circuit or Graph
    methods : bool
        Whether to work out which method :func:`socratic.tdi` takes, which can take seconds for a large graph.

    Returns
    -------
    Summary
        Print it, or read its attributes.
    """
    engine = engine_of(circuit)
    found = {masks: _method(engine, masks) for masks in MASK_KINDS} if methods else {}
    return _of_graph(circuit, found) if isinstance(circuit, Graph) else _of_circuit(circuit, found)


def _method(engine: Engine, masks: MaskKind) -> tuple[str, str]:
    """How :func:`socratic.tdi` is computed, and why so; any rate above 0 will do, as the wiring alone decides."""
    plan = engine.moments(Dropout(0.5, masks), "exact", leaves=None, budget=None)
    return plan.method, plan.reason


def _of_graph(graph: Graph, methods: Mapping[MaskKind, tuple[str, str]]) -> Summary:
    families: Counter[str] = Counter()
    for batch in graph.leaves.leaf_batches():
        families[batch.family.name] += len(batch.variables)
    return Summary(
        kind="Graph",
        n_features=graph.n_features,
        n_classes=graph.n_classes,
        leaves=dict(families),
        n_products=graph.n_nodes - graph.n_leaves - graph.n_sums,
        n_sums=graph.n_sums,
        n_levels=1 + max((block.level for block in graph.blocks), default=0),
        n_edges=len(graph.child_numbers),
        n_weights=graph.n_edges,
        n_parameters=graph.n_parameters,
        scope_sizes=_sizes(Counter(scope.bit_count() for scope in set(graph.scopes()))),
        methods=methods,
    )


def _of_circuit(circuit: Circuit, methods: Mapping[MaskKind, tuple[str, str]]) -> Summary:
    """The same counts from the layers, without unrolling them."""
    layer = circuit.leaves
    families: Counter[str] = Counter()
    for scope in layer.scopes:
        for variable in scope:
            families[layer.families[variable].name] += layer.n_nodes
    wide = [scope for scope in layer.scopes if len(scope) > 1]  # products of leaves
    n_products, n_edges = len(wide) * layer.n_nodes, sum(map(len, wide)) * layer.n_nodes
    n_weights = n_sums = 0
    levels = [[int(len(scope) > 1) for scope in layer.scopes]]
    for inner in [*circuit.inner_layers(), *circuit.root_branches()]:
        levels.append(_levels(inner, levels))
        n_sums += inner.n_folds * inner.n_nodes
        n_weights += inner.logits.numel()
        if inner.right is not None:
            n_products += inner.n_folds * inner.n_children
            n_edges += 2 * inner.n_folds * inner.n_children
    n_sums -= circuit.n_classes * (sum(branch.n_folds for branch in circuit.root_branches()) - 1)  # one over all
    scopes = {region.scope for region in circuit.region_graph.regions}
    scopes |= {(variable,) for scope in wide for variable in scope}
    return Summary(
        kind="Circuit",
        n_features=circuit.n_features,
        n_classes=circuit.n_classes,
        leaves=dict(families),
        n_products=n_products,
        n_sums=n_sums,
        n_levels=1 + max(map(max, levels)),
        n_edges=n_edges + n_weights,
        n_weights=n_weights,
        n_parameters=circuit.n_parameters,
        scope_sizes=_sizes(Counter(map(len, scopes))),
        methods=methods,
    )


def _levels(layer: SumProductLayer, below: list[list[int]]) -> list[int]:
    """The levels of the sums of each fold: above their products, if they have any, and above the nodes below."""
    left = below[layer.left.layer][layer.left.start : layer.left.stop]
    if layer.right is None:
        return [1 + level for level in left]
    right = below[layer.right.layer][layer.right.start : layer.right.stop]
    return [2 + max(pair) for pair in zip(left, right, strict=True)]


def _sizes(counts: Counter[int]) -> dict[int, int]:
    return dict(sorted(counts.items()))
