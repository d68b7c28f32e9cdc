"""Log-likelihoods: of the whole circuit, under given masks, and with dropout drawn per row for training.

Values travel as logarithms relative to the largest node of their region and row, with that scale apart: the
differences between nodes keep their digits however small the densities are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.graph import Graph
from socratic.circuit.layers import SumProductLayer
from socratic.errors import check_rate
from socratic.inference.graph import graph_log_likelihood, graph_training_log_likelihood
from socratic.inference.rows import check_rows, chunk_rows, map_chunks, values_per_row
from socratic.inference.walk import walk
from socratic.numerics import (
    LogProducts,
    Scratch,
    draw_dropped,
    exp_shifted,
    finite_max,
    log_or_dead,
    logsumexp_or_dead,
    map_tiles,
    pair_products,
    pair_sums,
    rescue_underflow,
    scale_dtype,
)

DEAD_CLASS = 100.0
"""How far below the best class of a row training puts a class that lost everything: finite, so that losses are."""


class LogValues(NamedTuple):
    """Logarithms of the values of a layer's nodes, ``log_value + log_scale``.

    The largest ``log_value`` of a region and row is 0, unless all of them are minus infinity.
    """

    log_value: Tensor  # (F, S, N)
    log_scale: Tensor  # (F, 1, N), in the type of numerics.scale_dtype

    @classmethod
    def rescale(cls, log_value: Tensor, log_scale: Tensor | float = 0.0) -> LogValues:
        """Move the largest value of each region and row into the scale."""
        shift = finite_max(log_value)
        return cls(log_value - shift, log_scale + shift.to(scale_dtype(shift)))

    def of_classes(self, dtype: torch.dtype) -> Tensor:
        """The log-values of the class roots, a state of one fold, as (N, C)."""
        return (self.log_value + self.log_scale).to(dtype).squeeze(0).t()


class Products(NamedTuple):
    """The products a layer sums over, ready to be multiplied by weights.

    All pairs are never built here: ``right`` then holds the values of the right nodes. Otherwise ``left`` holds
    the products themselves and ``right`` is None.
    """

    left: Tensor  # (F, A, N) or (F, K, N), logarithms; the best product of each row is about 0
    right: Tensor | None  # (F, B, N), logarithms
    log_scale: Tensor  # (F, 1, N)

    @classmethod
    def of(cls, layer: SumProductLayer, left: LogValues, right: LogValues | None) -> Products:
        """Combine the children of a layer."""
        if right is None:
            return cls(left.log_value, None, left.log_scale)
        log_scale = left.log_scale + right.log_scale
        if layer.all_pairs:
            return cls(left.log_value, right.log_value, log_scale)
        # The best left and the best right node need not meet: relative to both, every product could underflow.
        products = LogValues.rescale(left.log_value + right.log_value, log_scale)
        return cls(products.log_value, None, products.log_scale)

    def exp(self) -> tuple[Tensor, Tensor | None]:
        """The values whose products are summed."""
        return torch.exp(self.left), None if self.right is None else torch.exp(self.right)


class PlainAlgebra:
    """Evaluation of the circuit as it is. Variants differ in how they sum the products of a layer."""

    def log_sums(self, weights: Tensor, products: Products, *, root: bool) -> Tensor:  # noqa: ARG002 - for variants
        """Log of the weighted sums of products, relative to the products' scale: (F, S, N)."""
        return log_or_dead(sum_products(weights, *products.exp()))

    def layer(
        self, layer: SumProductLayer, weights: Tensor, left: LogValues, right: LogValues | None, *, root: bool
    ) -> LogValues:
        """Log-values of the sums of one layer."""
        products = Products.of(layer, left, right)
        return LogValues.rescale(self.log_sums(weights, products, root=root), products.log_scale)

    def join(self, branches: list[LogValues]) -> LogValues:
        """Sum over repetitions."""
        return join_repetitions(branches)


class MaskedAlgebra(PlainAlgebra):
    """Evaluation with masked weights, zeros included."""

    def log_sums(self, weights: Tensor, products: Products, *, root: bool) -> Tensor:  # noqa: ARG002
        """The same, also where only small products are left."""
        sums = sum_products(weights, *products.exp())
        return rescue_underflow(sums, weights, LogProducts(products.left, products.right))


class RowDropoutAlgebra(PlainAlgebra):
    """Evaluation with one mask per row and child, shared by the sums of a region: dropout for training."""

    def __init__(self, dropout: float, root_dropout: bool, generator: torch.Generator) -> None:
        self.dropout, self.root_dropout, self.generator = dropout, root_dropout, generator

    def log_sums(self, weights: Tensor, products: Products, *, root: bool) -> Tensor:
        """The same over the children that were kept."""
        if self.dropout == 0.0 or (root and not self.root_dropout):
            return super().log_sums(weights, products, root=root)
        log_products = products.left if products.right is None else pair_sums(products.left, products.right)
        dropped = draw_dropped(log_products.shape, self.dropout, self.generator)
        # The maximum is taken after masking: were it the dropped child's, the rest could underflow.
        kept, shift = exp_shifted(log_products.masked_fill(dropped, -torch.inf))
        return log_or_dead(torch.bmm(weights, kept)) + shift


def sum_products(weights: Tensor, a: Tensor, b: Tensor | None) -> Tensor:
    """Weighted sums of values (F, K, N), or of all products of pairs (F, A, N) and (F, B, N): (F, S, N)."""
    if b is None:
        return torch.bmm(weights, a)

    def compute(folds: slice, rows: slice, scratch: Scratch) -> Tensor:
        left, right = a[folds, :, rows], b[folds, :, rows]
        out = scratch.out("products", (len(left), weights.shape[2], left.shape[2]), left)
        return torch.bmm(weights[folds], pair_products(left, right, out))

    return map_tiles(compute, len(a), a.shape[2], weights.shape[2] * a.element_size(), a.device, row_axis=2)


def join_repetitions(branches: list[LogValues]) -> LogValues:
    """Sum the class roots' values (F, C, N) over folds and branches: a state of one fold."""
    log_value = torch.cat([branch.log_value for branch in branches])
    log_scale = torch.cat([branch.log_scale for branch in branches])
    shift = log_scale.detach().amax(0, keepdim=True)  # (1, 1, N)
    relative = log_value + (log_scale - shift).to(log_value.dtype)
    return LogValues(logsumexp_or_dead(relative, dim=0), shift)


def log_likelihood(circuit: Circuit | Graph, x: Any, *, chunk_size: int | None = None) -> Tensor:
    """Log-likelihood of each row under each class.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
        Rows; NaN is a missing value and is marginalised exactly.
    chunk_size : int, optional
        Rows evaluated at a time; by default as many as a bounded memory holds.

    Returns
    -------
    Tensor (N, C)
        log p(x | class), in the circuit's type and on its device.
    """
    rows = check_rows(circuit, x)
    return class_log_likelihood(circuit, rows, rows.dtype, chunk_size)


def class_log_likelihood(circuit: Circuit | Graph, rows: Tensor, dtype: torch.dtype, chunk_size: int | None) -> Tensor:
    """:func:`log_likelihood` of checked rows (N, V) in a type that may be wider than theirs: (N, C)."""
    if isinstance(circuit, Graph):
        return graph_log_likelihood(circuit, rows, dtype, chunk_size)
    weights = circuit.weights()
    size = chunk_rows(circuit, values_per_row(circuit), chunk_size)

    def query(start: int, stop: int) -> Tensor:
        leaves = LogValues.rescale(circuit.leaves.log_density(rows[start:stop]))
        return walk(circuit, leaves, weights, PlainAlgebra()).of_classes(dtype)

    return torch.cat(map_chunks(query, len(rows), size))


def training_log_likelihood(
    circuit: Circuit | Graph,
    x: Any,
    *,
    dropout: float = 0.0,
    leaf_dropout: float = 0.0,
    root_dropout: bool = False,
    generator: torch.Generator,
) -> Tensor:
    """Log-likelihoods with dropout drawn anew for every row: what a training step maximises.

    Parameters
    ----------
    circuit : Circuit or Graph
    x : array-like (N, V)
    dropout : float
        Probability of dropping a child from the sums of its region.
    leaf_dropout : float
        Probability of marginalising a univariate leaf, as if its variable were missing for it alone.
    root_dropout : bool
        Whether the class roots drop children too.
    generator : torch.Generator
        Source of the masks, on the circuit's device.

    Returns
    -------
    Tensor (N, C)
        Log-likelihoods, differentiable in the parameters. Not rescaled: a sum that keeps q of its children
        has about q of its value. A class that lost everything lies ``DEAD_CLASS`` nats below the row's best.
    """
    dropout, leaf_dropout = check_rate("dropout", dropout), check_rate("leaf_dropout", leaf_dropout)
    if not isinstance(generator, torch.Generator):
        raise ValueError(f"generator must be a torch.Generator; got {generator!r}")
    rows = check_rows(circuit, x)
    if isinstance(circuit, Graph):
        values = graph_training_log_likelihood(
            circuit,
            rows,
            dropout=dropout,
            leaf_dropout=leaf_dropout,
            root_dropout=root_dropout,
            generator=generator,
        )
    else:
        if leaf_dropout > 0.0:
            density = circuit.leaves.log_density_with_dropout(rows, leaf_dropout, generator)
        else:
            density = circuit.leaves.log_density(rows)
        algebra = RowDropoutAlgebra(dropout, root_dropout, generator)
        values = walk(circuit, LogValues.rescale(density), circuit.weights(), algebra).of_classes(rows.dtype)
    floor = finite_max(values, dim=1) - DEAD_CLASS
    return torch.maximum(values, floor)
