"""The way down through a layered circuit."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from socratic.circuit.circuit import Circuit, Weights
from socratic.circuit.layers import SumProductLayer
from socratic.circuit.leaf_set import LeafValue
from socratic.circuit.leaves import LayerTerms
from socratic.inference.engine import Kind, Select
from socratic.inference.layered.algebra import LogAlgebra
from socratic.inference.layered.leaves import fill_missing, leaf_moments, leaf_table, log_density_at_modes
from socratic.inference.layered.sum_product import log_maxima, log_sums, log_sums_with_zeros
from socratic.inference.layered.surroundings import walk_down
from socratic.inference.layered.values import LogValues, Products, all_repetitions, best_repetition
from socratic.inference.layered.walk import walk_layers
from socratic.memory import Scratch, map_tiles, split_terms
from socratic.numerics import log_or_dead, scale_dtype
from socratic.tracing import is_exporting

NOT_CHOSEN = -1


class LayeredEvaluation:
    """A layered circuit evaluated on rows (N, V); see :class:`~socratic.inference.engine.Evaluation`."""

    def __init__(self, circuit: Circuit, weights: Weights, terms: LayerTerms, rows: Tensor, kind: Kind) -> None:
        self.circuit, self.weights, self.rows = circuit, weights, rows
        # Weights of 0 can leave a sum to terms far below its region's best; a program is spared that if it has none.
        step = log_sums if is_exporting() and weights.ordinary else log_sums_with_zeros
        algebra = LogAlgebra(log_maxima, join=best_repetition) if kind == "max" else LogAlgebra(step)
        density = circuit.leaves.log_density(rows, terms)
        if kind != "marginal":
            density = density + log_density_at_modes(circuit.leaves, rows.isnan())
        self.walked = walk_layers(circuit, LogValues.rescale(density), self.weights, algebra)
        self.log_roots = algebra.join(self.walked.branches).of_classes(scale_dtype(rows))

    def complete(self, row: Tensor, classes: Tensor, select: Select, value: LeafValue) -> Tensor:
        """Fill in the missing values of D draws from the leaves that ``select`` leads to."""
        chosen = self._choose(row, classes, select)
        rows = self.rows[row]
        fill_missing(self.circuit.leaves, chosen, rows, value)
        return rows

    def leaf_shares(self, class_shares: Tensor) -> Tensor:
        """Shares (L, I, N) of all leaves."""
        return self._shares(class_shares)[0]

    def sum_shares(self, class_shares: Tensor) -> list[Tensor]:
        """Shares of all sums, added up over the rows: (F, S) of each layer, and (C,) of the class roots."""
        of_roots = torch.where(self.log_roots > -math.inf, class_shares, 0.0)
        wide = scale_dtype(class_shares)
        return [share.sum(-1, dtype=wide) for share in [*self._shares(class_shares)[1:], of_roots.t()]]

    def _shares(self, class_shares: Tensor) -> list[Tensor]:
        """Shares of the leaves (L, I, N) and of the sums of each layer (F, S, N)."""
        layers, branches = self.circuit.inner_layers(), self.circuit.root_branches()
        shares = [torch.zeros_like(state.log_value) for state in self.walked.layers]
        values, scale = all_repetitions(self.walked.branches)
        # What a class gives to a repetition is that repetition's part of its value; a dead class gives nothing.
        part = torch.exp((values + scale) - self.log_roots.t()).nan_to_num(nan=0.0) * class_shares.t()
        of_branch = part.to(self.rows.dtype).split([branch.n_folds for branch in branches])
        for branch, weights, state, share in zip(
            branches, self.weights.roots, self.walked.branches, of_branch, strict=True
        ):
            self._split(branch, weights, state, share, shares)
        for number in range(len(layers), 0, -1):
            weights, state = self.weights.layers[number - 1], self.walked.layers[number]
            self._split(layers[number - 1], weights, state, shares[number], shares)
        return shares

    def surroundings(self, log_class_weights: Tensor) -> list[LogValues]:
        """The surroundings of the nodes of every layer, by layer number; see :func:`walk_down`."""
        return walk_down(self.circuit, self.weights, self.walked, log_class_weights)

    def moments(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (N, V) of all variables."""
        return leaf_moments(self.circuit.leaves, shares)

    def table(self, shares: Tensor, variable: int) -> Tensor:
        """Probabilities (N, Y) of a discrete variable's values."""
        return leaf_table(self.circuit.leaves, shares, variable)

    def _choose(self, row: Tensor, classes: Tensor, select: Select) -> Tensor:
        """The chosen leaf (L, D) of each region and draw, ``NOT_CHOSEN`` in repetitions that are not used."""
        layers, branches = self.circuit.inner_layers(), self.circuit.root_branches()
        folds = [self.circuit.leaves.n_folds, *(layer.n_folds for layer in layers)]
        chosen = [torch.full((n, len(row)), NOT_CHOSEN, device=row.device) for n in folds]
        values, scale = all_repetitions(self.walked.branches)
        draws = torch.arange(len(row), device=row.device)
        repetition = select((values + scale)[:, classes, row].t(), draws, torch.ones_like(draws))
        # The chosen repetition's sum is the class root's; the others have none.
        roots = torch.full((len(values), len(row)), NOT_CHOSEN, device=row.device)
        roots.scatter_(0, repetition.unsqueeze(0), classes.unsqueeze(0))
        first_place = 2
        for branch, weights, nodes in zip(
            branches, self.weights.roots, roots.split([branch.n_folds for branch in branches]), strict=True
        ):
            self._descend(branch, weights, nodes, row, select, chosen, first_place)
            first_place += branch.n_folds
        for number in range(len(layers), 0, -1):
            layer, weights = layers[number - 1], self.weights.layers[number - 1]
            self._descend(layer, weights, chosen[number], row, select, chosen, first_place)
            first_place += layer.n_folds
        return chosen[0]

    def _descend(
        self,
        layer: SumProductLayer,
        weights: Tensor,
        nodes: Tensor,
        row: Tensor,
        select: Select,
        chosen: list[Tensor],
        first_place: int,
    ) -> None:
        """Select a child of each chosen sum ``nodes`` (F, D) of a layer and mark what it consists of."""
        products = Products.of(layer, *self.walked.children(layer))
        log_weights = log_or_dead(weights)
        for part in split_terms((nodes != NOT_CHOSEN).nonzero(), layer.n_children):
            fold, draw = part.unbind(1)
            terms = products.log_terms(log_weights, fold, nodes[fold, draw], row[draw])
            child = select(terms, draw, first_place + fold)
            left, right = child, child
            if layer.all_pairs and layer.widths[1] is not None:
                left, right = child // layer.widths[1], child % layer.widths[1]
            chosen[layer.left.layer][layer.left.start + fold, draw] = left
            if layer.right is not None:
                chosen[layer.right.layer][layer.right.start + fold, draw] = right

    def _split(
        self, layer: SumProductLayer, weights: Tensor, sums: LogValues, share: Tensor, shares: list[Tensor]
    ) -> None:
        """Pass the shares (F, S, N) of a layer's sums on to their children."""
        products = Products.of(layer, *self.walked.children(layer))
        log_sums = sums.log_value + (sums.log_scale - products.log_scale).to(share.dtype)
        # Where a sum lives on terms far below its region's best, its factor would overflow: one by one there.
        finfo = torch.finfo(share.dtype)
        far = log_sums < math.log(finfo.tiny / finfo.eps)
        factor = share * torch.exp(-log_sums.masked_fill(far, 0.0)).masked_fill(far, 0.0)
        left, right = _split_products(weights, products, factor)
        fold, node, row = (far & (share > 0)).nonzero(as_tuple=True)
        if len(fold):
            terms = products.log_terms(log_or_dead(weights), fold, node, row)
            parts = torch.softmax(terms, dim=1) * share[fold, node, row].unsqueeze(1)
            pairs = parts.unflatten(1, (left.shape[1], -1))  # (M, A, B), or (M, K, 1)
            left.mT.index_put_((fold, row), pairs.sum(2), accumulate=True)
            if right is not None:
                right.mT.index_put_((fold, row), pairs.sum(1), accumulate=True)
        shares[layer.left.layer][layer.left.start : layer.left.stop] = left
        if layer.right is not None:
            shares[layer.right.layer][layer.right.start : layer.right.stop] = left if right is None else right


def _split_products(weights: Tensor, products: Products, factor: Tensor) -> tuple[Tensor, Tensor | None]:
    """Shares of the children, from the sums' shares over their values (F, S, N): of products, or of either side."""
    a, b = products.exp()
    if b is None:
        return a * torch.bmm(weights.mT, factor), None
    widths = [a.shape[1], b.shape[1]]

    def compute(folds: slice, rows: slice, _scratch: Scratch) -> Tensor:
        left, right = a[folds, :, rows], b[folds, :, rows]
        pairs = torch.bmm(weights[folds].mT, factor[folds, :, rows]).unflatten(1, widths)  # (F, A, B, N)
        to_left = left * (pairs * right.unsqueeze(1)).sum(2)
        to_right = right * (pairs * left.unsqueeze(2)).sum(1)
        return torch.cat([to_left, to_right], dim=1)

    entry_bytes = 2 * weights.shape[2] * weights.element_size()
    joined = map_tiles(compute, len(a), a.shape[2], entry_bytes, a.device, row_axis=2)
    left, right = joined.split(widths, dim=1)
    return left, right
