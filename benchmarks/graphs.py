"""Graphs: a tree of 100,000 nodes, and what a moment plan costs; ``python -m benchmarks.graphs`` prints the table.

One CPU thread, float32. The tree has 64 variables; each sum has two to four products of two halves. Peak memory is
that of a fresh process, which is a few hundred MB before anything is computed.
"""

from __future__ import annotations

import multiprocessing
import time

import numpy as np
import torch

import socratic
from benchmarks.timing import median_seconds, peak_memory_mb
from socratic import Graph, Leaf, Product, Sum
from socratic.circuit.nodes import Node
from socratic.families import Gaussian

N_NODES = 100_000
N_FEATURES = 64
BATCH = 256
CPU = torch.device("cpu")

Row = tuple[str, str]


def random_tree(n_nodes: int, n_features: int, seed: int = 0) -> Node:
    """A tree of about this many nodes."""
    rng = np.random.default_rng(seed)

    def node(scope: range, budget: int) -> Node:
        if len(scope) == 1 and budget < 3:
            return Leaf(scope[0], Gaussian.of(float(rng.normal()), 1.0))
        n_children = int(np.clip(budget // (2 * len(scope) + 1), 2, 4))
        weights = rng.dirichlet(np.full(n_children, 2.0)) + 1e-3
        share = (budget - 1) // n_children
        children = tuple(product(scope, share) for _ in range(n_children))
        return Sum(children, tuple((weights / weights.sum()).tolist()))

    def product(scope: range, budget: int) -> Node:
        if len(scope) == 1:
            return node(scope, 1)
        half = len(scope) // 2
        return Product((node(scope[:half], budget // 2), node(scope[half:], budget // 2)))

    return node(range(n_features), n_nodes)


def tree_rows() -> list[Row]:
    """Likelihood, exact TDI and one Monte Carlo pass on a large tree."""
    torch.set_num_threads(1)
    root = random_tree(N_NODES, N_FEATURES)
    start = time.perf_counter()
    graph = Graph(root)
    rows = [("tree: building and checking", f"{time.perf_counter() - start:.1f} s, {graph.n_nodes:,} nodes")]
    x = torch.randn(BATCH, N_FEATURES)
    with torch.no_grad():
        forward = median_seconds(lambda: graph.log_likelihood(x), CPU, repeats=3, warm_up=1)
        moments = socratic.tdi(graph, x)
        exact = median_seconds(lambda: socratic.tdi(graph, x), CPU, repeats=3, warm_up=0)
        wide = socratic.tdi(Graph(root, dtype=torch.float64), x[:8])
        error = float((moments.relative_variance[:8] / wide.relative_variance - 1).abs().max())
        sampled = median_seconds(
            lambda: list(socratic.sample_log_likelihoods(graph, x, masks="unit", n_passes=5)), CPU, repeats=1, warm_up=0
        )
    rows.append((f"tree: log-likelihood, batch {BATCH}", f"{forward:.2f} s"))
    rows.append((f"tree: exact TDI, batch {BATCH}", f"{exact:.2f} s, variance within {error:.1g} of float64"))
    rows.append((f"tree: one Monte Carlo pass, batch {BATCH}", f"{sampled / 5:.2f} s"))
    return rows


def memory_of_tree_mb() -> float:
    """Peak memory of a process that builds the tree and runs exact TDI once."""
    torch.set_num_threads(1)
    graph = Graph(random_tree(N_NODES, N_FEATURES))
    x = torch.randn(BATCH, N_FEATURES)
    with torch.no_grad():
        return peak_memory_mb(lambda: socratic.tdi(graph, x), CPU)


def plan_rows() -> list[Row]:
    """Unrolled RATs: making the plan once, then evaluating it, beside the layered circuit."""
    rows = []
    x = torch.randn(BATCH, 16)
    for n_sums in (4, 6):
        circuit = socratic.rat_spn(16, 3, n_sums=n_sums, n_leaves=n_sums, depth=3, n_repetitions=2)
        graph = circuit.to_graph()
        with torch.no_grad():
            start = time.perf_counter()
            moments = socratic.tdi(graph, x)
            first = time.perf_counter() - start
            again = median_seconds(lambda g=graph: socratic.tdi(g, x), CPU, repeats=5)  # type: ignore[misc]
            layered = median_seconds(lambda c=circuit: socratic.tdi(c, x), CPU, repeats=5)  # type: ignore[misc]
            error = float((moments.relative_variance / socratic.tdi(circuit, x).relative_variance - 1).abs().max())
        rows.append(
            (
                f"unrolled RAT, S = {n_sums}, {graph.n_nodes:,} nodes, method {moments.method}",
                f"plan {first - again:.2f} s once, then {again * 1e3:.0f} ms a batch of {BATCH} "
                f"(layered {layered * 1e3:.0f} ms), variance within {error:.1g} of the circuit's",
            )
        )
    return rows


def graph_rows() -> list[Row]:
    """All figures of graphs."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        memory = pool.apply(memory_of_tree_mb)
    return [*tree_rows(), (f"tree: peak memory of exact TDI, batch {BATCH}", f"{memory:.0f} MB"), *plan_rows()]


if __name__ == "__main__":
    torch.manual_seed(0)
    for name, value in graph_rows():
        print(f"| {name} | {value} |")
