"""The way down through a graph, block by block."""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.circuit.leaf_set import LeafValue
from socratic.inference.engine import Kind, Select
from socratic.inference.graph.evaluation import class_values, evaluate, gather
from socratic.inference.graph.surroundings import walk_down
from socratic.memory import gathered_at_a_time, split_terms
from socratic.numerics import scale_dtype


class GraphEvaluation:
    """A graph evaluated on rows (N, V); see :class:`~socratic.inference.engine.Evaluation`."""

    def __init__(self, graph: Graph, log_weights: Tensor, rows: Tensor, kind: Kind) -> None:
        self.graph, self.log_weights, self.rows = graph, log_weights, rows
        self.leaves = graph.leaves.log_density(rows)  # (L, N)
        if kind != "marginal":
            self.leaves += _log_density_at_modes(graph, rows.isnan())
        if kind == "max":
            self.values = _maximise(graph, self.leaves, log_weights)  # (M, N)
        else:
            with torch.enable_grad():  # whose gradients are the shares of the leaves and edges
                self.edges = log_weights.detach().clone().requires_grad_()
                self.values = evaluate(graph, self.leaves.requires_grad_(), self.edges)
        self.log_roots = class_values(graph, self.values.detach(), scale_dtype(rows))

    def complete(self, row: Tensor, classes: Tensor, select: Select, value: LeafValue) -> Tensor:
        """Fill in the missing values of D draws from the leaves that ``select`` leads to."""
        leaf, draw = self._reach(row, classes, select)[: self.graph.n_leaves].nonzero(as_tuple=True)
        rows = self.rows[row]
        first = 0
        for batch in self.graph.leaves.leaf_batches():
            here = (leaf >= first) & (leaf < first + batch.n_slots)
            batch.fill(rows, draw[here], leaf[here] - first, 0, value)
            first += batch.n_slots
        return rows

    def leaf_shares(self, class_shares: Tensor) -> Tensor:
        """Shares (L, N) of all leaves: how the classes' log-values change with a leaf's."""
        return self._shares(class_shares, self.leaves)

    def sum_shares(self, class_shares: Tensor) -> list[Tensor]:
        """Shares (sums,) of all sums, added up over the rows: those of their edges."""
        edges = self._shares(class_shares, self.edges).to(scale_dtype(class_shares))
        return [edges.new_zeros(self.graph.n_sums).index_add(0, self.graph.sum_of_edge, edges)]

    def _shares(self, class_shares: Tensor, of: Tensor) -> Tensor:
        with torch.enable_grad():
            roots = self.values[self.graph.root_numbers]
        (shares,) = torch.autograd.grad(roots, of, class_shares.t().to(roots.dtype), retain_graph=True)
        return shares

    def surroundings(self, log_class_weights: Tensor) -> Tensor:
        """The surroundings (M, N) of all nodes; see :func:`walk_down`."""
        return walk_down(self.graph, self.values.detach(), self.log_weights, log_class_weights)

    def moments(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (N, V) of all variables, NaN for those without leaves."""
        batches = self.graph.leaves.leaf_batches()
        variables = torch.cat([batch.variables for batch in batches])
        means = torch.cat([batch.means().squeeze(1) for batch in batches])
        variances = torch.cat([batch.variances().squeeze(1) for batch in batches])

        def total(of_leaf: Tensor) -> Tensor:
            """Sum over the leaves (L, ...) of each variable."""
            return of_leaf.new_zeros(self.graph.n_features, *of_leaf.shape[1:]).index_add(0, variables, of_leaf)

        centre = total(means) / total(torch.ones_like(means))  # shares add up to 1 only nearly: large means would show
        deviation = (means - centre[variables]).unsqueeze(1)
        average = total(shares * deviation)  # (V, N)
        spread = deviation - average[variables]
        variance = total(shares * (variances.unsqueeze(1) + spread * spread))
        absent = centre.isnan().unsqueeze(1)
        return (average + centre.unsqueeze(1)).t(), variance.masked_fill(absent, torch.nan).t()

    def table(self, shares: Tensor, variable: int) -> Tensor:
        """Probabilities (N, Y) of a discrete variable's values: Y is that of its largest family."""
        families = self.graph.column_families[variable]
        table = shares.new_zeros(shares.shape[1], max(family.n_values or 0 for family in families))
        batches = self.graph.leaves.leaf_batches()
        of_batches = shares.split([batch.n_slots for batch in batches])
        for batch, of_batch in zip(batches, of_batches, strict=True):
            (leaves,) = (batch.variables == variable).nonzero(as_tuple=True)
            if len(leaves):
                of_leaf = torch.exp(batch.log_table(leaves)).squeeze(1)  # (leaves, Y)
                table[:, : batch.family.n_values] += of_batch[leaves].t() @ of_leaf
        return table

    def _reach(self, row: Tensor, classes: Tensor, select: Select) -> Tensor:
        """Which nodes (M, D) each draw comes to: a product's children, and one child of a sum.

        Whatever a product's children come to is different, so that no draw comes to a node twice.
        """
        graph, n_draws, n_rows = self.graph, len(row), len(self.rows)
        values = self.values.detach().flatten()
        reached = torch.zeros(graph.n_nodes, n_draws, dtype=torch.bool, device=row.device)
        reached[graph.root_numbers[classes], torch.arange(n_draws, device=row.device)] = True
        flat = reached.view(-1)  # one index for each is looked up twice as fast as a node and a draw
        for block in reversed(graph.blocks):
            pairs = reached[block.start : block.stop].nonzero()
            for node, draw in (part.unbind(1) for part in split_terms(pairs, block.arity)):
                children = graph.levels.children_of(block)[node]  # (pairs, arity)
                if block.is_sum:
                    weights = self.log_weights[block.edges()].view(-1, block.arity)[node]
                    entries = children * n_rows + row[draw].unsqueeze(1)
                    terms = values.index_select(0, entries.flatten()).view(entries.shape) + weights
                    children = children.gather(1, select(terms, draw, 1 + block.start + node).unsqueeze(1))
                flat.index_fill_(0, (children * n_draws + draw.unsqueeze(1)).flatten(), True)
        return reached


def _maximise(graph: Graph, leaves: Tensor, log_weights: Tensor) -> Tensor:
    """Log-values (M, N) of all nodes with maxima in place of sums."""
    n_rows, levels = leaves.shape[1], graph.levels
    values = leaves.new_empty((graph.n_nodes, n_rows), dtype=scale_dtype(leaves))
    values[: graph.n_leaves] = leaves
    for block in levels.blocks:
        for tile in block.tiles(gathered_at_a_time(n_rows, leaves.device)):
            terms = gather(values, levels.children_of(tile))
            if tile.is_sum:
                terms += log_weights[tile.edges()].view(-1, tile.arity, 1)
            values[tile.start : tile.stop] = terms.amax(1) if tile.is_sum else terms.sum(1)
    return values


def _log_density_at_modes(graph: Graph, missing: Tensor) -> Tensor:
    """Log-density (L, N) that missing variables (N, V) have at their leaves' modes, 0 for others."""
    batches = graph.leaves.leaf_batches()
    return torch.cat(
        [torch.where(missing.t()[batch.variables], batch.log_density_at_modes(), 0.0) for batch in batches]
    )
