"""Moments on graphs: trees, shared nodes, and bounds where sharing is too much to follow.

Means are exact on every graph: they are the values at the mean weights, and dropping an edge with probability p
multiplies its weight by q = 1 - p on average. No two nodes are negatively correlated, unless leaves are: given
everything below a sum, all nodes above it increase with its value. So variances without covariances are lower bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.circuit.levels import Block
from socratic.inference.doubt import Doubt
from socratic.inference.engine import LogMomentPosterior, MomentsOfRows
from socratic.inference.graph.evaluation import evaluate, gather, values_per_row
from socratic.inference.graph.noise import GraphNoise, noise_of
from socratic.inference.graph.plan import LeafStep, OverBudgetError, Plan, ProductStep, SumStep, compile_plan
from socratic.inference.graph.sharing import correlated_leaves, sharing_of
from socratic.inference.leaf_uncertainty import distinct_rows
from socratic.inference.log_normal import log_normal_posterior
from socratic.inference.results import CovarianceKind, Method
from socratic.inference.saturation import saturation
from socratic.inference.weight_noise import log_noise
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
    doubt : Doubt
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
        doubt: Doubt,
        covariance: CovarianceKind = "exact",
        *,
        leaves: Tensor | None = None,
        budget: int | None = None,
        every_node: bool = False,
    ) -> None:
        self.graph = graph
        self.noise = noise_of(graph, log_weights, doubt)
        self.numbers = torch.arange(graph.n_nodes, device=graph.device) if every_node else graph.root_numbers
        self.peaks: list[Tensor] = []
        if covariance != "exact":
            choice = Choice(covariance, f"covariance={covariance!r} was asked for")
        elif self.noise.certain and leaves is None:
            choice = Choice("tree", "nothing is random: weights and leaves are certain")
        else:
            budget = DEFAULT_BUDGET if budget is None else budget
            choice = _choose(graph, self.noise, leaves, budget, every_node)
        self.method, self.reason, self.plan = choice
        of_moments = 3 * graph.n_nodes if self.plan is None else 8 * graph.n_edges + 2 * self.plan.n_entries
        self.entries_per_row = values_per_row(graph) + of_moments

    def of_rows(self, rows: Tensor, leaves: Tensor | None, *, logarithms: bool = False) -> MomentsOfRows:
        """The moments, given the relative variances (N, L) or covariances (N, L, L) of uncertain leaves.

        With ``logarithms`` the covariances are those of log-values, to first order.
        """
        values = evaluate(self.graph, self.graph.leaves.log_density(rows), self.noise.log_mean)
        chunk = Chunk(self.graph, values, self.noise, leaves, self.peaks, logarithms=logarithms)
        log_mean = values[self.numbers].t().to(rows.dtype)
        if self.plan is not None:
            return MomentsOfRows(log_mean, chunk.covariances(self.plan))
        if self.method != "bounds":
            return MomentsOfRows(log_mean, chunk.variances(upper=self.method == "upper")[self.numbers].t())
        lower, upper = (chunk.variances(upper=upper)[self.numbers].t() for upper in (False, True))
        return MomentsOfRows(log_mean, lower, upper)


class GraphLogWeights:
    """The class posterior over Dirichlet weights; see :class:`~socratic.inference.engine.LogMomentPlan`."""

    def __init__(self, moments: GraphMoments) -> None:
        self.moments, self.entries_per_row = moments, moments.entries_per_row

    def of_rows(self, rows: Tensor, leaves: Tensor | None, log_prior: Tensor) -> LogMomentPosterior:
        """The class posterior, given the uncertainty (N, L) or (N, L, L) of leaves and the log-prior (C,)."""
        log_mean, covariance, _ = self.moments.of_rows(rows, leaves, logarithms=True)
        if covariance.ndim == 2:
            covariance = torch.diag_embed(covariance)
        posterior = log_normal_posterior(log_mean, covariance, log_prior, "log-moments")
        return LogMomentPosterior(posterior, rows.new_zeros(len(rows)))


def _choose(graph: Graph, noise: GraphNoise, leaves: Tensor | None, budget: int, every_node: bool) -> Choice:
    """Pick the cheapest exact method, or bounds.

    The choice is kept with the graph: it depends on its wiring, on which leaves are correlated, and on which moments
    are asked for.
    """
    groups = None if leaves is None else correlated_leaves(distinct_rows(leaves))
    key = ("moments", *noise.wiring, every_node, None if groups is None else (*groups.tolist(),), budget)
    if key not in graph.derived:
        while len(graph.derived) >= _KEPT_PLANS:
            graph.derived.pop(next(iter(graph.derived)))  # the oldest
        graph.derived[key] = _make_choice(graph, noise, groups, budget, every_node=every_node)
    choice: Choice = graph.derived[key]
    if choice.method == "bounds" and leaves is not None and bool((distinct_rows(leaves) < 0).any()):
        raise ValueError(
            f"leaf_covariance must be at least 0 where moments are bounds ({choice.reason}), which presume that no two "
            "nodes are negatively correlated"
        )
    return choice


def _make_choice(
    graph: Graph, noise: GraphNoise, leaf_groups: Tensor | None, budget: int, *, every_node: bool
) -> Choice:
    sharing = sharing_of(graph, noise.masks, leaf_groups)
    if sharing.is_tree:
        return Choice("tree", "no two nodes that meet share anything random: all their covariances are 0")
    try:
        plan = compile_plan(graph, noise.masks, sharing, budget, every_node=every_node)
    except OverBudgetError as problem:
        return Choice("bounds", str(problem))
    count = f"{plan.n_entries - 1:,} joint moments of nodes that share randomness"
    if plan.pairs_only:
        return Choice("structured", f"{count}, all of them of pairs", plan)
    return Choice("multiset", f"{count}, up to {plan.largest} at once", plan)


class Chunk:
    """One chunk of rows: values of all nodes, from which relative moments are computed.

    Or with ``logarithms`` the covariances of log-values, to first order, as in layers
    (:mod:`socratic.inference.layered.log_weights`).
    """

    def __init__(
        self,
        graph: Graph,
        values: Tensor,  # (M, N)
        noise: GraphNoise,
        leaves: Tensor | None,  # (N, L) relative variances, or (N, L, L) covariances
        peaks: list[Tensor],
        *,
        logarithms: bool = False,
    ) -> None:
        self.graph, self.values, self.noise = graph, values, noise
        self.leaves, self.peaks, self.logarithms = leaves, peaks, logarithms
        self.dtype, self.limit = noise.odds.dtype, saturation(noise.odds.dtype)

    def log_ratios(self, sums: Tensor, children: Tensor) -> Tensor:
        """Logarithms of the values of children over those of their sums."""
        # A sum that is dead has no share in anything; its relative moments are 0 by convention.
        return (children - finite_or_zero(sums)).to(self.dtype)

    def of_all_edges(self) -> tuple[Tensor, Tensor | None]:
        """Responsibilities of all edges, and a row of ones: (E + 1, N). Likewise the squares of Dirichlet weights."""
        sum_of_edge, log_weights = self.graph.sum_of_edge, self.noise.log_mean.unsqueeze(-1)
        sums, children = self.values[self.graph.sum_numbers[sum_of_edge]], self.values[self.graph.edge_child]
        ratios = self.log_ratios(sums, children)
        ones = torch.ones_like(self.values[:1], dtype=self.dtype)
        share = torch.cat([torch.exp(ratios + log_weights), ones])
        if self.noise.common is None:
            return share, None
        common = self.noise.common[sum_of_edge].unsqueeze(-1)
        return share, self.noise.squares(ratios, log_weights, self.noise.odds.unsqueeze(-1), common)

    def variances(self, *, upper: bool) -> Tensor:
        """Relative variances (M, N) of all nodes: without covariances, or with the largest possible ones."""
        graph, levels, n_rows = self.graph, self.graph.levels, self.values.shape[1]
        found = self.values.new_empty(self.values.shape, dtype=self.dtype)
        found[: graph.n_leaves] = 0.0
        if self.leaves is not None:
            matrices = self.leaves.ndim == 3
            of_leaves = (self.leaves.diagonal(dim1=-2, dim2=-1) if matrices else self.leaves).t()
            found[: graph.n_leaves] = torch.log1p(of_leaves) if self.logarithms else of_leaves
        for block in levels.blocks:
            for tile in block.tiles(gathered_at_a_time(n_rows, found.device)):
                numbers = levels.children_of(tile)
                below = gather(found, numbers)
                total = self._sum_variances(tile, below, upper=upper) if tile.is_sum else self._joined(below)
                found[tile.start : tile.stop] = total.clamp_max(self.limit)
        self._note(found)
        return found

    def _sum_variances(self, tile: Block, below: Tensor, *, upper: bool) -> Tensor:
        """Relative variances of a tile of sums (n, N) from those of their children (n, k, N)."""
        numbers, noise = self.graph.levels.children_of(tile), self.noise
        log_weights, odds = (part[tile.edges()].view(*numbers.shape, 1) for part in (noise.log_mean, noise.odds))
        ratios = self.log_ratios(self.values[tile.start : tile.stop].unsqueeze(1), gather(self.values, numbers))
        share = torch.exp(ratios + log_weights)
        passed = (share * sqrt_or_zero(below)).sum(1) ** 2 if upper else (share * share * below).sum(1)
        common = None
        if noise.common is not None:
            common = noise.common[self.graph.sum_of_edge[tile.edges()]].view(*numbers.shape, 1)
        squares = noise.squares(ratios, log_weights, odds, common)
        return passed + self._gain(squares, below, passed, None if common is None else common[:, 0])

    def covariances(self, plan: Plan) -> Tensor:
        """Relative covariances of the pairs of a plan: (N, C, C) of the roots, (N, M) of every node with itself."""
        share, squares = self.of_all_edges()
        device, n_rows = share.device, share.shape[1]
        found = share.new_zeros(plan.n_entries, n_rows)
        for item in plan.steps:
            if isinstance(item, LeafStep):
                found[item.start : item.stop] = self.leaf_pairs(item.leaves.to(device))
                continue
            width = item.parts.shape[1] if isinstance(item, ProductStep) else 4 * item.entry.shape[1]
            for skip in range(0, item.stop - item.start, size := max(1, gathered_at_a_time(n_rows, device) // width)):
                part = slice(skip, skip + size)
                if isinstance(item, ProductStep):
                    total = self._joined(gather(found, item.parts[part].to(device)))
                else:
                    total = self._sum_pairs(item.cut(part, device), found, share, squares)
                start = item.start + skip
                # Means of products are never negative, so that R is at least -1 but for rounding.
                found[start : start + len(total)] = total.clamp(-1.0, self.limit)
        self._note(found)
        pairs = plan.pairs.to(device)
        return found[pairs.flatten()].view(*pairs.shape, n_rows).movedim(-1, 0)

    def _sum_pairs(self, step: SumStep, found: Tensor, share: Tensor, squares: Tensor | None) -> Tensor:
        """The entries (n, N) of a step, from those below."""
        below = gather(found, step.entry)
        weight = gather(share, step.first) * gather(share, step.second) * step.factor.to(share).unsqueeze(-1)
        passed = (weight * below).sum(1)
        same = step.same_mask.to(share).unsqueeze(-1)
        if squares is None or self.noise.common is None:
            odds = self.noise.odds.amax() if self.noise.odds.numel() else 0.0
            return passed + (weight * (same * odds) * (1.0 + below)).sum(1)
        common = self.noise.common[step.twice].unsqueeze(-1)
        return passed + self._gain(gather(squares, step.first) * same, below, passed, common)

    def _joined(self, parts: Tensor) -> Tensor:
        """What independent parts (n, k, N) of a product give to it: (n, N)."""
        if self.logarithms:
            return parts.sum(1)
        if parts.shape[1] == 2:
            left, right = parts.unbind(1)
            return left + right + left * right
        return torch.expm1(torch.log1p(parts).sum(1))  # 1 + R is the product of theirs

    def _gain(self, squares: Tensor, below: Tensor, passed: Tensor, common: Tensor | None) -> Tensor:
        """What sums gain (n, N) from the noise of their own weights.

        Parameters
        ----------
        squares, below : (n, k, N)
            Of their edges, and the moments of the children.
        passed : (n, N)
            What the children give to the sums.
        common : (n, 1), optional
            What the weights of each sum have in common.
        """
        if self.logarithms and common is not None:
            return log_noise(squares.sum(1) - common)
        gained = (squares * (1.0 + below)).sum(1)
        if common is None:
            return gained
        return (gained - common * (1.0 + passed)).clamp_min(0.0)  # not negative but for rounding

    def leaf_pairs(self, pairs: Tensor) -> Tensor:
        """Relative covariances (n, N) of pairs (n, 2) of leaves; each leaf with itself, if only variances are given."""
        assert self.leaves is not None
        first, second = pairs.unbind(1)
        found = self.leaves[:, first] if self.leaves.ndim == 2 else self.leaves[:, first, second]
        found = found.t().clamp(-1.0, self.limit)
        return torch.log1p(found) if self.logarithms else found

    def _note(self, found: Tensor) -> None:
        """Remember the largest value, to tell whether any was cut off."""
        if found.numel():
            self.peaks.append(found.detach().amax())
