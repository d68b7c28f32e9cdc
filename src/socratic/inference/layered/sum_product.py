"""The sum-product step: where the weights of a layer meet the values of its products.

Every query of a layered circuit that carries values up takes this step, once a layer: likelihoods
(:func:`log_sums`), sampled masks and evaluations that are followed down again (:func:`log_sums_with_zeros`),
training (:func:`log_sums_of_kept`), most probable rows (:func:`log_maxima`) and moments (:func:`sum_products`). It is
nearly all of their time, and nothing else multiplies weights with products of values. A fused kernel takes the place of
a function here, for the devices and types it knows (:mod:`~socratic.kernels.sums` those of :func:`log_sums` and
:func:`sum_products`), and has to keep its contract, with gradients or where none are recorded:

- weights (F, S, K) are at least 0, and those of a sum add up to at most 1; the best product of a row is about 1, and
  products of all pairs, K = A B, are given by the nodes of both sides;
- the result (F, S, N) is relative to ``products.log_scale``; a sum whose terms are all 0 is minus infinity, and
  passes no gradient on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.draws import RowMasks
from socratic.inference.layered.values import Products
from socratic.kernels.choice import Digits
from socratic.kernels.sums import sums_of_pairs, takes_pair_sums
from socratic.memory import Scratch, map_cut, map_tiles, table_rows
from socratic.numerics import exp_shifted, log_or_dead, logsumexp_or_dead, pair_products, pair_sums, weighted_sums
from socratic.tracing import is_exporting


def sum_products(weights: Tensor, a: Tensor, b: Tensor | None, *, digits: Digits = "three") -> Tensor:
    """Weighted sums of values (F, K, N), or of all products of pairs (F, A, N) and (F, B, N): (F, S, N).

    ``digits`` says how many of them are needed, where torch may drop some.
    """
    if b is None:
        return weighted_sums(weights, a)
    if takes_pair_sums(weights, a, b):
        return sums_of_pairs(weights, a, b, digits=digits)

    def compute(weights: Tensor, left: Tensor, right: Tensor, scratch: Scratch) -> Tensor:
        out = scratch.out("products", (len(left), weights.shape[2], left.shape[2]), left)
        return weighted_sums(weights, pair_products(left, right, out))

    return map_cut(compute, weights, a, b, weights.shape[2] * a.element_size())


def log_sums(weights: Tensor, products: Products) -> Tensor:
    """Logarithms of the weighted sums of products: (F, S, N)."""
    return log_or_dead(sum_products(weights, *products.exp()))


def log_sums_with_zeros(weights: Tensor, products: Products) -> Tensor:
    """The same where weights may be 0, as those of dropped children are.

    Products are exponentiated relative to the best one. When its weight is 0, what is left can underflow although
    the sum is positive: such sums are computed again, relative to their own best term; all of them, where it cannot be
    looked at which they are.
    """
    if is_exporting():
        return _log_sums_by_term(weights, products)
    sums = sum_products(weights, *products.exp())
    lost = sums < torch.finfo(sums.dtype).tiny / torch.finfo(sums.dtype).eps
    if not bool(lost.any()):
        return torch.log(sums)
    log_weights = log_or_dead(weights)
    found = log_or_dead(sums).clone()
    for part in lost.nonzero().split(table_rows(weights.shape[-1])):
        fold, node, row = part.unbind(-1)
        terms = products.log_terms(log_weights, fold, node, row)  # (M, K)
        found[fold, node, row] = logsumexp_or_dead(terms, dim=1).squeeze(1)
    return found


def _log_sums_by_term(weights: Tensor, products: Products) -> Tensor:
    """The same, each sum relative to its own best term."""
    log_weights = log_or_dead(weights).unsqueeze(-1)  # (F, S, K, 1)
    terms = products.left if products.right is None else pair_sums(products.left, products.right)
    sums = [logsumexp_or_dead(log_weights[:, node] + terms, dim=1) for node in range(weights.shape[1])]
    return torch.cat(sums, dim=1)


def log_sums_of_kept(weights: Tensor, products: Products, rate: float, masks: RowMasks) -> Tensor:
    """The same over the products that are kept: each is dropped from all sums of its region and row together."""
    log_products = products.left if products.right is None else pair_sums(products.left, products.right)
    dropped = masks.draw(log_products.shape, rate)
    # The maximum is taken after masking: were it the dropped child's, the rest could underflow.
    kept, shift = exp_shifted(log_products.masked_fill(dropped, -torch.inf))
    return log_or_dead(weighted_sums(weights, kept)) + shift


def log_maxima(weights: Tensor, products: Products) -> Tensor:
    """Logarithm of the largest weighted product of each sum: (F, S, N)."""
    log_weights = log_or_dead(weights).unsqueeze(-1)  # (F, S, K, 1)

    def compute(folds: slice, rows: slice, _scratch: Scratch) -> Tensor:
        terms = products.left[folds, :, rows]
        if products.right is not None:
            terms = pair_sums(terms, products.right[folds, :, rows])
        best = [(log_weights[folds, node] + terms).amax(1) for node in range(weights.shape[1])]
        return torch.stack(best, dim=1)

    n_folds, _, n_rows = products.left.shape
    entry_bytes = 2 * weights.shape[2] * weights.element_size()
    return map_tiles(compute, n_folds, n_rows, entry_bytes, weights.device, row_axis=2)
