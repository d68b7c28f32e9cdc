"""Tractable dropout inference on graphs: trees, shared nodes, and bounds where sharing is too much to follow.

Means are exact on every graph: dropping an edge with probability p multiplies its weight by q = 1 - p on average.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.covariance import saturation, warn_of_saturation
from socratic.inference.graph.evaluation import evaluate, gather, graph_values_per_row, tile_size
from socratic.inference.graph.masks import Masks, masks_of
from socratic.inference.graph.plan import LeafStep, OverBudgetError, Plan, ProductStep, compile_plan
from socratic.inference.graph.sharing import sharing_of
from socratic.inference.results import CovarianceKind, MaskKind, Method, Moments, NodeMoments
from socratic.inference.rows import chunk_rows, map_chunks
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


class MomentSettings(NamedTuple):
    """Which moments of a graph are asked for; checked by the caller. See :func:`socratic.tdi`."""

    dropout: float
    masks: MaskKind
    root_dropout: bool
    covariance: CovarianceKind = "exact"
    leaf_variance: float | Tensor | None = None
    budget: int = DEFAULT_BUDGET
    chunk_size: int | None = None
    every_node: bool = False
    """Whether variances of all nodes are asked for, or covariances of the roots."""


def graph_moments(graph: Graph, rows: Tensor, settings: MomentSettings) -> Moments:
    """Moments of the class likelihoods over dropout masks."""
    choice, log_mean, found = _compute(graph, rows, settings)
    return Moments(
        log_mean,
        _class_matrix(choice.method, found[0]),
        settings.dropout,
        settings.masks,
        settings.covariance,
        settings.root_dropout,
        choice.method,
        choice.reason,
        (found[0], found[1]) if choice.method == "bounds" else None,
    )


def graph_node_moments(graph: Graph, rows: Tensor, settings: MomentSettings) -> NodeMoments:
    """Moments of every node over dropout masks."""
    choice, log_mean, found = _compute(graph, rows, settings._replace(every_node=True))
    # A value that is exact is both of its bounds.
    return NodeMoments(
        log_mean,
        (found[0], found[-1]),
        settings.dropout,
        settings.masks,
        settings.root_dropout,
        choice.method,
        choice.reason,
    )


def _compute(graph: Graph, rows: Tensor, settings: MomentSettings) -> tuple[Choice, Tensor, list[Tensor]]:
    """The method, log-means (N, C) and what the method finds of the roots, or of every node (N, M).

    Found are relative covariances (N, C, C) by a plan, of every node its variance alone; variances (N, C) without
    one; for bounds two of them.
    """
    dropout = settings.dropout
    known = masks_of(graph, settings.masks, settings.root_dropout)
    prior = _leaf_prior(graph, rows, settings.leaf_variance)
    choice = choose_method(graph, known, settings)
    numbers = torch.arange(graph.n_nodes, device=graph.device) if settings.every_node else graph.root_numbers
    masked = known.masked.to(rows.dtype)
    log_weights = graph.log_weights() + masked * math.log1p(-dropout)
    odds = masked * (dropout / (1.0 - dropout))
    peaks: list[Tensor] = []

    def query(start: int, stop: int) -> tuple[Tensor, ...]:
        values = evaluate(graph, graph.leaves.log_density(rows[start:stop]), log_weights)
        leaves = None if prior is None else prior[start:stop].t()
        chunk = _Chunk(graph, values, log_weights, odds, leaves, peaks)
        found: tuple[Tensor, ...]
        if choice.plan is not None:
            found = (chunk.covariances(choice.plan),)
        elif choice.method == "bounds":
            found = tuple(chunk.variances(upper=upper)[numbers].t() for upper in (False, True))
        else:
            found = (chunk.variances(upper=choice.method == "upper")[numbers].t(),)
        return values[numbers].t().to(rows.dtype), *found

    entries = graph_values_per_row(graph)
    entries += 3 * graph.n_nodes if choice.plan is None else 7 * graph.n_edges + 2 * choice.plan.n_entries
    parts = map_chunks(query, len(rows), chunk_rows(graph, entries, settings.chunk_size))
    log_mean, *found = (torch.cat(part) for part in zip(*parts, strict=True))
    warn_of_saturation(peaks, rows, "graph", stacklevel=5)
    return choice, log_mean, found


def choose_method(graph: Graph, masks: Masks, settings: MomentSettings) -> Choice:
    """Pick the cheapest exact method, or bounds.

    Plans are kept with the graph: they depend on its wiring alone, and on which moments are asked for.
    """
    if settings.covariance != "exact":
        return Choice(settings.covariance, f"covariance={settings.covariance!r} was asked for")
    uncertain_leaves = settings.leaf_variance is not None
    if settings.dropout == 0.0 and not uncertain_leaves:
        return Choice("tree", "nothing is random: there are no masks and leaves are certain")
    key = ("moments", settings.masks, settings.root_dropout, settings.every_node, uncertain_leaves, settings.budget)
    if key not in graph.derived:
        while len(graph.derived) >= _KEPT_PLANS:
            graph.derived.pop(next(iter(graph.derived)))  # the oldest
        graph.derived[key] = _choose(graph, masks, uncertain_leaves, settings.budget, every_node=settings.every_node)
    choice: Choice = graph.derived[key]
    return choice


def _choose(graph: Graph, masks: Masks, uncertain_leaves: bool, budget: int, *, every_node: bool) -> Choice:
    sharing = sharing_of(graph, masks, uncertain_leaves)
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
        leaves: Tensor | None,  # (L, N) relative variances
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
        found[: graph.n_leaves] = 0.0 if self.leaves is None else self.leaves
        for block in levels.blocks:
            for tile in block.tiles(tile_size(n_rows)):
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
                assert self.leaves is not None
                found[item.start : item.stop] = self.leaves[item.leaves.to(device)]
                continue
            width = item.parts.shape[1] if isinstance(item, ProductStep) else 4 * item.entry.shape[1]
            for skip in range(0, item.stop - item.start, size := max(1, tile_size(n_rows) // width)):
                part = slice(skip, skip + size)
                if isinstance(item, ProductStep):
                    total = _joined(gather(found, item.parts[part].to(device)))
                else:
                    first, second, entry, factor, same_mask = (tensor[part].to(device) for tensor in item[2:])
                    below = gather(found, entry)
                    weight = gather(share, first) * gather(share, second) * factor.to(share).unsqueeze(-1)
                    total = (weight * (below + (same_mask * odds).unsqueeze(-1) * (1.0 + below))).sum(1)
                start = item.start + skip
                found[start : start + len(total)] = total.clamp_max(self.limit)
        self._note(found)
        pairs = plan.pairs.to(device)
        return found[pairs.flatten()].view(*pairs.shape, n_rows).movedim(-1, 0)

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


def _leaf_prior(graph: Graph, rows: Tensor, leaf_variance: Any) -> Tensor | None:
    """Relative variances of the leaves (N, L), or None if they are certain."""
    if leaf_variance is None:
        return None
    variance = torch.as_tensor(leaf_variance).to(rows)
    if not bool(torch.isfinite(variance).all()) or bool((variance < 0).any()):
        raise ValueError("leaf_variance must hold finite numbers of at least 0")
    shape = (len(rows), graph.n_leaves)
    try:
        return variance.clamp_max(saturation(rows.dtype)).expand(shape)
    except RuntimeError:
        raise ValueError(
            f"leaf_variance must broadcast to {shape} (rows, leaves in the order of graph.nodes); "
            f"got {tuple(variance.shape)}"
        ) from None


def _class_matrix(method: Method, found: Tensor) -> Tensor:
    """Relative covariance of the class roots (N, C, C)."""
    if method == "bounds":
        return found.new_full((*found.shape, found.shape[-1]), math.nan)
    if method == "upper":
        deviation = sqrt_or_zero(found)
        return deviation.unsqueeze(-1) * deviation.unsqueeze(-2)
    return found if found.ndim == 3 else torch.diag_embed(found)
