"""What the tests of several libraries share: evaluating nodes, and holding moments against sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

import socratic
from socratic.circuit import Leaf, Node, Product
from tests.oracles import topological


def log_values(roots: Sequence[Node], x: Tensor) -> Tensor:
    """Log-likelihoods (N, C) of root nodes, node by node."""
    order = topological(roots)
    rows = []
    for row in x.tolist():
        known: dict[int, float] = {}
        for node in order:
            if isinstance(node, Leaf):
                known[id(node)] = node.log_density(row)
            elif isinstance(node, Product):
                known[id(node)] = sum(known[id(child)] for child in node.children)
            else:
                terms = [math.log(w) + known[id(c)] for c, w in zip(node.children, node.weights, strict=True)]
                largest = max(terms)
                known[id(node)] = largest + math.log(sum(math.exp(term - largest) for term in terms))
        rows.append([known[id(root)] for root in roots])
    return torch.tensor(rows, dtype=torch.float64)


def scores_against_sampling(
    circuit: socratic.Circuit, x: Tensor, *, dropout: float, masks: str, n_batches: int, per_batch: int
) -> tuple[float, float, int]:
    """Largest z-scores of the means and of the variances of TDI against batch means of sampled passes.

    Only where sampling can resolve them (relative variance below 1): how many these are comes third.
    """
    with torch.no_grad():
        moments = socratic.tdi(circuit, x, dropout=dropout, masks=masks)
        passes = socratic.sample_log_likelihoods(
            circuit, x, dropout=dropout, masks=masks, n_passes=n_batches * per_batch, seed=1
        )
        relative = torch.stack([torch.exp((value - moments.log_mean).double()) for value in passes])
    relative = relative.view(n_batches, per_batch, *relative.shape[1:])
    resolved = moments.relative_variance < 1.0

    def score(batches: Tensor, expected: Tensor | float) -> float:
        error = batches.std(0) / n_batches**0.5
        return float(((batches.mean(0) - expected) / error)[resolved].abs().max())

    variance = moments.relative_variance.double()
    return score(relative.mean(1), 1.0), score(((relative - 1.0) ** 2).mean(1), variance), int(resolved.sum())
