"""Log-likelihoods: of the whole circuit, under given masks, and with dropout drawn per row for training.

The plain walk carries values relative to the largest node of their region and row, with the logarithm of that
scale apart: no exponential or logarithm of a node is taken between the leaves and the roots. Under masks the
largest node can be the dropped one, and the rest may be too small to be represented relative to it; those
walks carry logarithms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit
from socratic.circuit.layers import SumProductLayer
from socratic.errors import check_rate
from socratic.inference.rows import check_rows, chunk_rows, map_chunks, values_per_row
from socratic.inference.walk import walk
from socratic.numerics import (
    LogProducts,
    Scratch,
    exp_shifted,
    finite_max,
    logsumexp_or_dead,
    map_tiles,
    pair_products,
    pair_sums,
    rescue_underflow,
    scale_dtype,
)


class ScaledValues(NamedTuple):
    """Values of a layer's nodes, ``value * exp(log_scale)``, the largest ``value`` of a region and row being 1."""

    value: Tensor  # (F, S, N)
    log_scale: Tensor  # (F, 1, N), in the type of numerics.scale_dtype

    @classmethod
    def of_leaves(cls, log_density: Tensor) -> ScaledValues:
        """Values of the leaves."""
        value, shift = exp_shifted(log_density)
        return cls(value, shift.to(scale_dtype(shift)))

    def log(self) -> LogValues:
        """The same as logarithms."""
        return LogValues(torch.log(self.value), self.log_scale)


class LogValues(NamedTuple):
    """Logarithms of the values of a layer's nodes, ``log_value + log_scale``."""

    log_value: Tensor  # (F, S, N)
    log_scale: Tensor  # (F, 1, N), in the type of numerics.scale_dtype

    @classmethod
    def of_leaves(cls, log_density: Tensor) -> LogValues:
        """Values of the leaves."""
        shift = finite_max(log_density)
        return cls(log_density - shift, shift.to(scale_dtype(shift)))

    def of_classes(self, dtype: torch.dtype) -> Tensor:
        """The log-values of the class roots, a state of one fold, as (N, C)."""
        return (self.log_value + self.log_scale).to(dtype).squeeze(0).t()


class PlainAlgebra:
    """Evaluation of the circuit as it is."""

    def layer(
        self,
        layer: SumProductLayer,
        weights: Tensor,
        left: ScaledValues,
        right: ScaledValues | None,
        *,
        root: bool,  # noqa: ARG002 - roots are like other sums here
    ) -> ScaledValues:
        """Values of the sums of one layer."""
        sums = sum_products(layer, weights, left.value, None if right is None else right.value)
        return rescale(sums, left.log_scale if right is None else left.log_scale + right.log_scale)

    def join(self, branches: list[ScaledValues]) -> LogValues:
        """Sum over repetitions."""
        return join_repetitions([branch.log() for branch in branches])


class MaskedAlgebra:
    """Evaluation with masked weights, zeros included."""

    def layer(
        self,
        layer: SumProductLayer,
        weights: Tensor,
        left: LogValues,
        right: LogValues | None,
        *,
        root: bool,  # noqa: ARG002 - roots are like other sums here
    ) -> LogValues:
        """Log-values of the sums of one layer."""
        a, shift = exp_shifted(left.log_value)
        if right is None:
            log_products = LogProducts(left.log_value, None, all_pairs=False)
            sums, scale = sum_products(layer, weights, a, None), left.log_scale
        else:
            b, right_shift = exp_shifted(right.log_value)
            log_products = LogProducts(left.log_value, right.log_value, layer.all_pairs)
            sums, scale = sum_products(layer, weights, a, b), left.log_scale + right.log_scale
            shift = shift + right_shift
        return LogValues(rescue_underflow(sums, weights, log_products, shift), scale + shift)

    def join(self, branches: list[LogValues]) -> LogValues:
        """Sum over repetitions."""
        return join_repetitions(branches)


class RowDropoutAlgebra:
    """Evaluation with one mask per row and child, shared by the sums of a region: dropout for training."""

    def __init__(self, dropout: float, root_dropout: bool, generator: torch.Generator) -> None:
        self.dropout, self.root_dropout, self.generator = dropout, root_dropout, generator

    def layer(
        self, layer: SumProductLayer, weights: Tensor, left: LogValues, right: LogValues | None, *, root: bool
    ) -> LogValues:
        """Log-values of the sums of one layer over the children that were kept."""
        log_products, scale = left
        if right is not None:
            combine = pair_sums if layer.all_pairs else torch.add
            log_products, scale = combine(log_products, right.log_value), scale + right.log_scale
        if self.dropout > 0.0 and (self.root_dropout or not root):
            keep = torch.empty_like(log_products).bernoulli_(1.0 - self.dropout, generator=self.generator)
            log_products = log_products.masked_fill(keep == 0, -torch.inf)
        # The maximum is taken after masking: were it the dropped child's, the rest could underflow.
        products, shift = exp_shifted(log_products)
        sums = torch.bmm(weights, products)
        floor = torch.finfo(sums.dtype).tiny  # a region that lost everything keeps a finite gradient
        return LogValues(torch.log(sums.clamp_min(floor)), scale + shift)

    def join(self, branches: list[LogValues]) -> LogValues:
        """Sum over repetitions."""
        return join_repetitions(branches)


def sum_products(layer: SumProductLayer, weights: Tensor, a: Tensor, b: Tensor | None) -> Tensor:
    """Weighted sums of products of non-negative values: (F, A, N), (F, B, N) -> (F, S, N)."""
    if b is None:
        return torch.bmm(weights, a)
    if not layer.all_pairs:
        return torch.bmm(weights, a * b)

    def compute(folds: slice, rows: slice, scratch: Scratch) -> Tensor:
        left, right = a[folds, :, rows], b[folds, :, rows]
        out = scratch.out("products", (len(left), layer.n_children, left.shape[2]), left)
        return torch.bmm(weights[folds], pair_products(left, right, out))

    return map_tiles(compute, len(a), a.shape[2], layer.n_children * a.element_size(), a.device, row_axis=2)


def rescale(sums: Tensor, log_scale: Tensor) -> ScaledValues:
    """Bring the largest sum of each region and row to 1."""
    top = sums.detach().amax(-2, keepdim=True)
    top = torch.where(top > 0, top, 1.0)
    return ScaledValues(sums / top, log_scale + torch.log(top))


def join_repetitions(branches: list[LogValues]) -> LogValues:
    """Sum the class roots' values (F, C, N) over folds and branches: a state of one fold."""
    log_value = torch.cat([branch.log_value for branch in branches])
    log_scale = torch.cat([branch.log_scale for branch in branches])
    best = finite_max(log_value).to(log_scale.dtype) + log_scale.detach()
    shift = best.amax(0, keepdim=True)  # (1, 1, N)
    relative = log_value + (log_scale - shift).to(log_value.dtype)
    return LogValues(logsumexp_or_dead(relative, dim=0), shift)


def log_likelihood(circuit: Circuit, x: Any, *, chunk_size: int | None = None) -> Tensor:
    """Log-likelihood of each row under each class.

    Parameters
    ----------
    circuit : Circuit
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
    weights = circuit.weights()
    size = chunk_rows(circuit, values_per_row(circuit), chunk_size)

    def query(start: int, stop: int) -> Tensor:
        leaves = ScaledValues.of_leaves(circuit.leaves.log_density(rows[start:stop]))
        return walk(circuit, leaves, weights, PlainAlgebra()).of_classes(rows.dtype)

    return torch.cat(map_chunks(query, len(rows), size))


def training_log_likelihood(
    circuit: Circuit,
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
    circuit : Circuit
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
        has about q of its value.
    """
    dropout, leaf_dropout = check_rate("dropout", dropout), check_rate("leaf_dropout", leaf_dropout)
    rows = check_rows(circuit, x)
    if leaf_dropout > 0.0:
        density = circuit.leaves.log_density_with_dropout(rows, leaf_dropout, generator)
    else:
        density = circuit.leaves.log_density(rows)
    algebra = RowDropoutAlgebra(dropout, root_dropout, generator)
    return walk(circuit, LogValues.of_leaves(density), circuit.weights(), algebra).of_classes(rows.dtype)
