"""Tractable dropout inference on graphs: trees, shared nodes, and bounds where sharing is too much to follow.

Means are exact on every graph: dropping an edge with probability p multiplies its weight by q = 1 - p on average.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.dropout import Dropout
from socratic.inference.engine import MomentsOfRows
from socratic.inference.graph.evaluation import evaluate, gather, values_per_row
from socratic.inference.graph.masks import Masks, masks_of
from socratic.inference.graph.plan import LeafStep, OverBudgetError, Plan, ProductStep, compile_plan
from socratic.inference.graph.sharing import correlated_leaves, sharing_of
from socratic.inference.leaf_uncertainty import distinct_rows
from socratic.inference.results import CovarianceKind, Method
from socratic.inference.saturation import saturation
from socratic.memory import gathered_at_a_time
from socratic.numerics import finite_or_zero, sqrt_or_zero

DEFAULT_BUDGET = 200_000
"""Terms of a moment plan: some seconds to make it, and a megabyte for each row at most."""
_KEPT_PLANS = 8
"""Plans that a graph keeps: for both kinds of masks with and without those of the roots, and as many again."""


class Choice(NamedTuple):
    """How the moments of a graph are computed, and why."""

    method: Method
    reason: str
    plan: Plan | None = None


class GraphMoments:
    """Moments of the class roots, or of every node; see :class:`~socratic.inference.engine.MomentPlan`.

    Parameters
    ----------
    graph : Graph
    log_weights : (E,)
    dropout : Dropout
    covariance : {"exact", "independent", "upper"}
    leaves : Tensor (N, L) or (N, L, L), optional
        Relative variances or covariances of the leaves that evaluations are given, of all rows.
    budget : int, optional
        Terms that may be spent on nodes that share randomness, ``DEFAULT_BUDGET`` by default.
    every_node : bool
        Whether variances of all nodes are asked for, or covariances of the roots.
    """

    def __init__(
        self,
        graph: Graph,
        log_weights: Tensor,
        dropout: Dropout,
        covariance: CovarianceKind = "exact",
        *,
        leaves: Tensor | None = None,
        budget: int | None = None,
        every_node: bool = False,
    ) -> None:
        self.graph = graph
        masks = masks_of(graph, dropout.masks, dropout.root)
        masked = masks.masked.to(graph.dtype)
        self.log_weights = log_weights + masked * dropout.log_kept
        self.odds = masked * dropout.odds
        self.numbers = torch.arange(graph.n_nodes, device=graph.device) if every_node else graph.root_numbers
        self.peaks: list[Tensor] = []
        if covariance != "exact":
            choice = Choice(covariance, f"covariance={covariance!r} was asked for")
        elif dropout.rate == 0.0 and leaves is None:
            choice = Choice("tree", "nothing is random: there are no masks and leaves are certain")
        else:
            budget = DEFAULT_BUDGET if budget is None else budget
            choice = _choose(graph, dropout, masks, leaves, budget, every_node)
        self.method, self.reason, self.plan = choice
        of_moments = 3 * graph.n_nodes if self.plan is None else 7 * graph.n_edges + 2 * self.plan.n_entries
        self.entries_per_row = values_per_row(graph) + of_moments

    def of_rows(self, rows: Tensor, leaves: Tensor | None) -> MomentsOfRows:
        """The moments, given the relative variances (N, L) or covariances (N, L, L) of uncertain leaves."""
        values = evaluate(self.graph, self.graph.leaves.log_density(rows), self.log_weights)
        chunk = _Chunk(self.graph, values, self.log_weights, self.odds, leaves, self.peaks)
        log_mean = values[self.numbers].t().to(rows.dtype)
        if self.plan is not None:
            return MomentsOfRows(log_mean, chunk.covariances(self.plan))
        if self.method != "bounds":
            return MomentsOfRows(log_mean, chunk.variances(upper=self.method == "upper")[self.numbers].t())
        lower, upper = (chunk.variances(upper=upper)[self.numbers].t() for upper in (False, True))
        return MomentsOfRows(log_mean, lower, upper)


def _choose(
    graph: Graph, dropout: Dropout, masks: Masks, leaves: Tensor | None, budget: int, every_node: bool
) -> Choice:
    """Pick the cheapest exact method, or bounds.

    The choice is kept with the graph: it depends on its wiring, on which leaves are correlated, and on which moments
    are asked for.
    """
    groups = None if leaves is None else correlated_leaves(distinct_rows(leaves))
    key = ("moments", dropout.masks, dropout.root, every_node, None if groups is None else (*groups.tolist(),), budget)
    if key not in graph.derived:
        while len(graph.derived) >= _KEPT_PLANS:
            graph.derived.pop(next(iter(graph.derived)))  # the oldest
        graph.derived[key] = _make_choice(graph, masks, groups, budget, every_node=every_node)
    choice: Choice = graph.derived[key]
    if choice.method == "bounds" and leaves is not None and bool((distinct_rows(leaves) < 0).any()):
        raise ValueError(
            f"leaf_covariance must be at least 0 where moments are bounds ({choice.reason}), which presume that no two "
            "nodes are negatively correlated"
        )
    return choice


def _make_choice(graph: Graph, masks: Masks, leaf_groups: Tensor | None, budget: int, *, every_node: bool) -> Choice:
    sharing = sharing_of(graph, masks, leaf_groups)
    if sharing.is_tree:
        return Choice("tree", "no two nodes that meet share anything random: all their covariances are 0")
    try:
        plan = compile_plan(graph, masks, sharing, budget, every_node=every_node)
    except OverBudgetError as problem:
        return Choice("bounds", str(problem))
    count = f"{plan.n_entries - 1:,} joint moments of nodes that share randomness"
    if plan.pairs_only:
        return Choice("structured", f"{count}, all of them of pairs", plan)
    return Choice("multiset", f"{count}, up to {plan.largest} at once", plan)


class _Chunk:
    """One chunk of rows: values of all nodes, from which relative moments are computed."""

    def __init__(
        self,
        graph: Graph,
        values: Tensor,  # (M, N)
        log_weights: Tensor,  # (E,)
        odds: Tensor,  # (E,) p / q of the masks, 0 without
        leaves: Tensor | None,  # (N, L) relative variances, or (N, L, L) covariances
        peaks: list[Tensor],
    ) -> None:
        self.graph, self.values, self.log_weights, self.odds = graph, values, log_weights, odds
        self.leaves, self.peaks = leaves, peaks
        self.dtype, self.limit = odds.dtype, saturation(odds.dtype)

    def responsibilities(self, log_weights: Tensor, sums: Tensor, children: Tensor) -> Tensor:
        """Shares of children in their sums, from log-weights and log-values."""
        # A sum that is dead has no share in anything; its relative moments are 0 by convention.
        return torch.exp((children + log_weights - finite_or_zero(sums)).to(self.dtype))

    def all_responsibilities(self) -> Tensor:
        """Those of all edges, and a row of ones: (E + 1, N)."""
        sums = self.values[self.graph.sum_numbers[self.graph.sum_of_edge]]
        children = self.values[self.graph.edge_child]
        share = self.responsibilities(self.log_weights.unsqueeze(-1), sums, children)
        return torch.cat([share, torch.ones_like(self.values[:1], dtype=self.dtype)])

    def variances(self, *, upper: bool) -> Tensor:
        """Relative variances (M, N) of all nodes: without covariances, or with the largest possible ones."""
        graph, levels, n_rows = self.graph, self.graph.levels, self.values.shape[1]
        found = self.values.new_empty(self.values.shape, dtype=self.dtype)
        found[: graph.n_leaves] = 0.0
        if self.leaves is not None:
            matrices = self.leaves.ndim == 3
            found[: graph.n_leaves] = (self.leaves.diagonal(dim1=-2, dim2=-1) if matrices else self.leaves).t()
        for block in levels.blocks:
            for tile in block.tiles(gathered_at_a_time(n_rows, found.device)):
                numbers = levels.children_of(tile)
                below = gather(found, numbers)
                if tile.is_sum:
                    log_weights, odds = (
                        part[tile.edges()].view(*numbers.shape, 1) for part in (self.log_weights, self.odds)
                    )
                    sums = self.values[tile.start : tile.stop].unsqueeze(1)
                    share = self.responsibilities(log_weights, sums, gather(self.values, numbers))
                    total = _sum_variances(share, below, odds, upper)
                else:
                    total = _joined(below)
                found[tile.start : tile.stop] = total.clamp_max(self.limit)
        self._note(found)
        return found

    def covariances(self, plan: Plan) -> Tensor:
        """Relative covariances of the pairs of a plan: (N, C, C) of the roots, (N, M) of every node with itself."""
        share = self.all_responsibilities()
        device, n_rows = share.device, share.shape[1]
        odds = self.odds.amax() if self.odds.numel() else self.odds.new_zeros(())
        found = share.new_zeros(plan.n_entries, n_rows)
        for item in plan.steps:
            if isinstance(item, LeafStep):
                found[item.start : item.stop] = self.leaf_pairs(item.leaves.to(device))
                continue
            width = item.parts.shape[1] if isinstance(item, ProductStep) else 4 * item.entry.shape[1]
            for skip in range(0, item.stop - item.start, size := max(1, gathered_at_a_time(n_rows, device) // width)):
                part = slice(skip, skip + size)
                if isinstance(item, ProductStep):
                    total = _joined(gather(found, item.parts[part].to(device)))
                else:
                    first, second, entry, factor, same_mask = (tensor[part].to(device) for tensor in item[2:])
                    below = gather(found, entry)
                    weight = gather(share, first) * gather(share, second) * factor.to(share).unsqueeze(-1)
                    total = (weight * (below + (same_mask * odds).unsqueeze(-1) * (1.0 + below))).sum(1)
                start = item.start + skip
                # Means of products are never negative, so that R is at least -1 but for rounding.
                found[start : start + len(total)] = total.clamp(-1.0, self.limit)
        self._note(found)
        pairs = plan.pairs.to(device)
        return found[pairs.flatten()].view(*pairs.shape, n_rows).movedim(-1, 0)

    def leaf_pairs(self, pairs: Tensor) -> Tensor:
        """Relative covariances (n, N) of pairs (n, 2) of leaves; each leaf with itself, if only variances are given."""
        assert self.leaves is not None
        first, second = pairs.unbind(1)
        found = self.leaves[:, first] if self.leaves.ndim == 2 else self.leaves[:, first, second]
        return found.t().clamp(-1.0, self.limit)

    def _note(self, found: Tensor) -> None:
        """Remember the largest value, to tell whether any was cut off."""
        if found.numel():
            self.peaks.append(found.detach().amax())


def _sum_variances(share: Tensor, below: Tensor, odds: Tensor, upper: bool) -> Tensor:
    """Relative variances of sums (n, N) from those of their children (n, k, N)."""
    squares = share * share
    if upper:
        together = (share * sqrt_or_zero(below)).sum(1)
        return together * together + (squares * (1.0 + below) * odds).sum(1)
    return (squares * (below + (1.0 + below) * odds)).sum(1)


def _joined(parts: Tensor) -> Tensor:
    """R with 1 + R the product of 1 + R over independent parts: (n, k, N) -> (n, N)."""
    if parts.shape[1] == 2:
        left, right = parts.unbind(1)
        return left + right + left * right
    return torch.expm1(torch.log1p(parts).sum(1))
