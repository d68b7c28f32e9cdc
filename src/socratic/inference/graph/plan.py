"""The moment plan: which products of node values have to be known for the covariances of the roots.

The state of the recursion is a multiset of nodes, and its value R with 1 + R = E[product of the nodes] / product of
their means. Products are replaced by their factors and nodes without randomness drop out. What is left falls into
*components* that depend on disjoint sets of random numbers, and 1 + R is the product of theirs; a component of one
node has R = 0. A component is expanded at its highest sum a, whose masks occur nowhere else in it,

    R = sum_i r_ai R({i} + rest),

or, if the sum occurs twice or meets another sum b of its mask group,

    R = sum_ij r_ai r_bj R({i, j} + rest) + (p / q) sum_i r_ai r_bi (1 + R({i, i} + rest)).

Dirichlet weights are followed as masks on edges are. Of a sum that occurs twice they make

    R = sum_ij r_i r_j R_ij + (sum_i r_i^2 / w_i (1 + R_ii) - sum_ij r_i r_j (1 + R_ij)) / (alpha_0 + 1).

No variable occurs more than twice in a multiset, so no sum group does. A component of leaves alone is therefore a
pair of one variable, whose R is given: nothing but second moments of the leaves is ever needed. Everything here depends
on the wiring and on which leaves are correlated: a plan is made once and evaluated for whole batches. Under masks its
terms are non-negative, unless leaves are negatively correlated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.circuit.graph import Graph
from socratic.inference.graph.masks import Masks
from socratic.inference.graph.sharing import Sharing
from socratic.memory import MOST_BITS

_NOTHING = 0
"""The entry whose R is 0."""


class Term(NamedTuple):
    """A summand of a component: factor * r[first] * r[second] * (R[entry] + same_mask * (p / q) * (1 + R[entry]))."""

    first: int  # an edge
    second: int  # an edge, or -1 for none
    entry: int
    factor: float
    same_mask: bool


class LeafStep(NamedTuple):
    """Entries that are the relative covariances of pairs of leaves, or the variance of a leaf that is both."""

    start: int
    stop: int
    leaves: Tensor  # (n, 2)


class ProductStep(NamedTuple):
    """Entries with 1 + R the product over their parts."""

    start: int
    stop: int
    parts: Tensor  # (n, k) entries


class SumStep(NamedTuple):
    """Entries that are sums of T terms each; see :class:`Term`. Edge number E stands for none."""

    start: int
    stop: int
    first: Tensor  # (n, T)
    second: Tensor  # (n, T)
    entry: Tensor  # (n, T)
    factor: Tensor  # (n, T)
    same_mask: Tensor  # (n, T)
    twice: Tensor  # (n,) which of the sums occurs twice; their number for none

    def cut(self, part: slice, device: torch.device) -> SumStep:
        """Some of the entries, on a device."""
        return self._replace(**{name: getattr(self, name)[part].to(device) for name in self._fields[2:]})


Step = LeafStep | ProductStep | SumStep


class Plan(NamedTuple):
    """What to compute, in order. Entry 0 is zero."""

    steps: tuple[Step, ...]
    n_entries: int
    pairs: Tensor  # (C, C) entry of each pair of roots, or (M,) of each node with itself
    largest: int  # nodes in the largest component
    pairs_only: bool  # whether each component is a node and another, or factors of another, within its scope


class OverBudgetError(Exception):
    """The plan would be larger than allowed; the message says in which way."""


def compile_plan(graph: Graph, masks: Masks, sharing: Sharing, budget: int, *, every_node: bool = False) -> Plan:
    """Make the plan for all pairs of class roots, or for every node with itself; looks at ``budget`` terms at most."""
    compiler = _Compiler(graph, masks, sharing, budget)
    roots = graph.root_numbers.tolist()
    pairs = [(node, node) for node in range(graph.n_nodes)] if every_node else [(a, b) for b in roots for a in roots]
    entries = [compiler.state((*compiler.factors[a], *compiler.factors[b])) for a, b in pairs]
    compiler.expand_all()
    plan = compiler.finish(entries)
    return plan if every_node else plan._replace(pairs=plan.pairs.view(len(roots), len(roots)))


class _Compiler:
    """Discovers components breadth first, so that no recursion gets deep."""

    def __init__(self, graph: Graph, masks: Masks, sharing: Sharing, budget: int) -> None:
        self.budget = self.left = budget
        self.n_edges, self.n_leaves = graph.n_edges, graph.n_leaves
        self.mask_of_edge = masks.of_edge.tolist()
        self.group: dict[int, int] = {}  # of sums that have masks
        self.first_edge: dict[int, int] = {}  # of sums
        self.children: dict[int, list[int]] = {}
        group_of_sum = masks.group_of_sum.tolist()
        n_sums = 0
        for block in graph.blocks:
            for place, children in enumerate(graph.levels.children_of(block).tolist()):
                node = block.start + place
                self.children[node] = children
                if block.is_sum:
                    self.first_edge[node] = block.first_edge + place * block.arity
                    if group_of_sum[n_sums] >= 0:
                        self.group[node] = group_of_sum[n_sums]
                    n_sums += 1
        stochastic = sharing.stochastic.tolist()
        self.reach = self._reach(stochastic, sharing)
        self.scope = graph.scopes()
        self.factors = self._factors(stochastic)
        self.entries: dict[tuple[int, ...], int] = {}  # of components
        self.products: dict[tuple[int, ...], int] = {}  # of several components, given as entries
        self.states: dict[tuple[int, ...], int] = {}
        self.terms: dict[int, list[Term]] = {}
        self.number_of_sum = {node: number for number, node in enumerate(self.first_edge)}
        self.twice: dict[int, int] = {}  # the sum that occurs twice in a component, by entry
        self.queue: deque[tuple[int, ...]] = deque()
        self.n_entries = 1
        self.pairs_only = True

    def _reach(self, stochastic: list[bool], sharing: Sharing) -> list[int]:
        """The shared sources of randomness at or below each node, as bit sets.

        Two different nodes depend on one random number only if their ways to it come together, in a node that is met
        more than once, in the masks of a group or in correlated leaves: only those are sources.
        """
        shared = sharing.shared.tolist()
        source: dict[tuple[str, int], int] = {}
        sums = zip(self.first_edge, sharing.groups.tolist(), strict=True)
        group_of = {node: ("sums", group) for node, group in sums if group >= 0}
        group_of |= {leaf: ("leaves", group) for leaf, group in enumerate(sharing.leaf_groups.tolist()) if group >= 0}
        if (sum(shared) + len(group_of)) * sum(stochastic) > MOST_BITS:
            raise OverBudgetError("who shares what takes more memory than is allowed, whatever the budget")
        reach = [0] * len(stochastic)
        for node, random in enumerate(stochastic):
            if not random:
                continue
            bits = 0
            for child in self.children.get(node, ()):
                bits |= reach[child]
            if shared[node]:
                bits |= 1 << source.setdefault(("node", node), len(source))
            if node in group_of:
                bits |= 1 << source.setdefault(group_of[node], len(source))
            reach[node] = bits
        return reach

    def _factors(self, stochastic: list[bool]) -> list[tuple[int, ...]]:
        """The random sums and leaves whose product a node is, a sum or leaf being itself."""
        factors: list[tuple[int, ...]] = []
        for node, random in enumerate(stochastic):
            if not random:
                factors.append(())
            elif node in self.children and node not in self.first_edge:
                factors.append(tuple(factor for child in self.children[node] for factor in factors[child]))
            else:
                factors.append((node,))
        return factors

    def state(self, nodes: tuple[int, ...]) -> int:
        """The entry of a multiset of random sums and leaves."""
        nodes = tuple(sorted(nodes))
        if nodes not in self.states:
            found = sorted(self._entry(component) for component in self._components(nodes))
            if len(found) > 1:
                self.states[nodes] = self._product(tuple(found))
            else:
                self.states[nodes] = found[0] if found else _NOTHING
        return self.states[nodes]

    def _components(self, nodes: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The parts of a multiset that share randomness, of at least two nodes each."""
        parts: list[tuple[int, tuple[int, ...]]] = []
        for node in nodes:
            bits = self.reach[node]
            members: tuple[int, ...] = (node,)
            apart = []
            for other in parts:
                if other[0] & bits or node in other[1]:
                    bits, members = bits | other[0], (*other[1], *members)
                else:
                    apart.append(other)
            parts = [*apart, (bits, members)]
        return [tuple(sorted(members)) for _, members in parts if len(members) > 1]

    def _entry(self, component: tuple[int, ...]) -> int:
        if component not in self.entries:
            self.entries[component] = self.n_entries
            self.n_entries += 1
            self.queue.append(component)
            union = 0
            for node in component:
                union |= self.scope[node]
            self.pairs_only &= any(self.scope[node] == union for node in component)
        return self.entries[component]

    def _product(self, parts: tuple[int, ...]) -> int:
        if parts not in self.products:
            self.products[parts] = self.n_entries
            self.n_entries += 1
        return self.products[parts]

    def expand_all(self) -> None:
        """Give every component its terms."""
        while self.queue:
            component = self.queue.popleft()
            if component[-1] >= self.n_leaves:
                self.terms[self.entries[component]] = self._expand(component)
                if component[-1] == component[-2]:
                    self.twice[self.entries[component]] = self.number_of_sum[component[-1]]

    def _expand(self, component: tuple[int, ...]) -> list[Term]:
        """Expand at the highest sum, which has the largest number, and at another of its group if there is one."""
        top, rest = component[-1], list(component[:-1])
        for place, other in enumerate(rest):
            if other == top or (top in self.group and self.group.get(other) == self.group[top]):
                rest.pop(place)
                return self._expand_two(top, other, tuple(rest))
        self._spend(len(self.children[top]))
        terms = []
        for place, child in enumerate(self.children[top]):
            entry = self.state((*self.factors[child], *rest))
            if entry != _NOTHING:
                terms.append(Term(self.first_edge[top] + place, -1, entry, 1.0, same_mask=False))
        return terms

    def _expand_two(self, a: int, b: int, rest: tuple[int, ...]) -> list[Term]:
        terms = []
        others, start = self.children[b], self.first_edge[b]
        twin = {mask: j for j in range(len(others)) if (mask := self.mask_of_edge[start + j]) >= 0}
        random = [j for j, child in enumerate(others) if rest or self.factors[child]]
        for i, left in enumerate(self.children[a]):
            first = self.first_edge[a] + i
            same = twin.get(self.mask_of_edge[first])
            if rest or self.factors[left]:
                places = [j for j in random if j >= i] if a == b else random  # a sum with itself is symmetric
            else:  # certain: nothing but the mask is left
                places = [] if same is None else [same]
            self._spend(len(places))
            for j in places:
                both = (*self.factors[left], *self.factors[others[j]], *rest)
                entry = self.state(both) if len(both) > 1 else _NOTHING
                if entry != _NOTHING or j == same:
                    terms.append(Term(first, start + j, entry, 2.0 if a == b and i != j else 1.0, j == same))
        return terms

    def _spend(self, n_terms: int) -> None:
        self.left -= n_terms
        if self.left < 0:
            raise OverBudgetError(f"following what nodes share takes more than the budget of {self.budget:,} terms")

    def finish(self, pairs: list[int]) -> Plan:
        """Order the entries by depth and kind, and number them in that order; ``pairs`` are entries."""
        needs: dict[int, list[int]] = {entry: [term.entry for term in terms] for entry, terms in self.terms.items()}
        needs |= {entry: list(parts) for parts, entry in self.products.items()}
        depth = _depths(needs, self.n_entries)
        parts_of = {entry: parts for parts, entry in self.products.items()}
        leaves_of = {entry: component for component, entry in self.entries.items() if entry not in self.terms}
        kind = {**dict.fromkeys(leaves_of, 0), **dict.fromkeys(parts_of, 1), **dict.fromkeys(self.terms, 2)}

        def key(entry: int) -> tuple[int, int, int]:
            return depth[entry], kind[entry], len(needs.get(entry, ()))

        order = sorted(range(1, self.n_entries), key=key)
        number = {_NOTHING: _NOTHING, **{entry: place + 1 for place, entry in enumerate(order)}}
        steps: list[Step] = []
        start = 1
        for (_, what, size), group in groupby(order, key=key):
            members = list(group)
            span = (start, start + len(members))
            start += len(members)
            if what == 0:
                steps.append(LeafStep(*span, torch.tensor([leaves_of[entry] for entry in members])))
            elif what == 1:
                parts = [[number[part] for part in parts_of[entry]] for entry in members]
                steps.append(ProductStep(*span, torch.tensor(parts)))
            elif size:
                steps.append(self._sum_step(span, members, number))
        table = torch.tensor([number[entry] for entry in pairs])
        return Plan(tuple(steps), self.n_entries, table, max(map(len, self.entries), default=0), self.pairs_only)

    def _sum_step(self, span: tuple[int, int], entries: Sequence[int], number: dict[int, int]) -> SumStep:
        members = [self.terms[entry] for entry in entries]
        return SumStep(
            *span,
            torch.tensor([[term.first for term in terms] for terms in members]),
            torch.tensor([[self.n_edges if term.second < 0 else term.second for term in terms] for terms in members]),
            torch.tensor([[number[term.entry] for term in terms] for terms in members]),
            torch.tensor([[term.factor for term in terms] for terms in members]),
            torch.tensor([[term.same_mask for term in terms] for terms in members]),
            torch.tensor([self.twice.get(entry, len(self.first_edge)) for entry in entries]),
        )


def _depths(needs: dict[int, list[int]], n_entries: int) -> list[int]:
    """How many steps lie below each entry: one more than the deepest that it needs."""
    depth = [0] * n_entries
    users: dict[int, list[int]] = {}
    waiting = {entry: len(needed) for entry, needed in needs.items()}
    for entry, needed in needs.items():
        for other in needed:
            users.setdefault(other, []).append(entry)
    ready = deque(entry for entry in range(n_entries) if not waiting.get(entry))
    while ready:
        entry = ready.popleft()
        for user in users.get(entry, ()):
            depth[user] = max(depth[user], depth[entry] + 1)
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    return depth
