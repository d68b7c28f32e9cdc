"""The contract of the sum-product step: every function against sums of exponentials, term by term, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from socratic import memory
from socratic.draws import RowMasks, draw_dropped
from socratic.inference.layered.sum_product import (
    log_maxima,
    log_sums,
    log_sums_of_kept,
    log_sums_with_zeros,
    sum_products,
)
from socratic.inference.layered.values import Products
from socratic.numerics import pair_products, pair_sums

INF = math.inf
DTYPES = [torch.float32, torch.float64]
N_FOLDS, N_SUMS, N_LEFT, N_RIGHT, N_ROWS = 3, 4, 5, 2, 11


def products_of(all_pairs: bool, dtype: torch.dtype) -> Products:
    """Random products whose best is 0 in every row, as a layer sees them."""
    random = torch.Generator().manual_seed(0)
    sides = [torch.randn(N_FOLDS, n, N_ROWS, dtype=dtype, generator=random) for n in (N_LEFT, N_RIGHT)]
    left, right = (3.0 * side - (3.0 * side).amax(1, keepdim=True) for side in sides)
    return Products(left, right if all_pairs else None, torch.zeros(N_FOLDS, 1, N_ROWS, dtype=torch.float64))


def weights_for(products: Products) -> Tensor:
    n_children = products.left.shape[1] * (1 if products.right is None else products.right.shape[1])
    random = torch.Generator().manual_seed(1)
    logits = torch.randn(N_FOLDS, N_SUMS, n_children, dtype=products.left.dtype, generator=random)
    return torch.softmax(logits, dim=2)


def terms_of(weights: Tensor, products: Products) -> Tensor:
    """All weighted products (F, S, K, N), in float64."""
    values = products.left if products.right is None else pair_sums(products.left, products.right)
    return weights.double().unsqueeze(-1) * torch.exp(values.double()).unsqueeze(1)


def masks_from(seed: int) -> RowMasks:
    return RowMasks(torch.Generator().manual_seed(seed), N_ROWS, slice(None))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("all_pairs", [True, False])
def test_steps_equal_sums_of_terms(all_pairs: bool, dtype: torch.dtype) -> None:
    products = products_of(all_pairs, dtype)
    weights = weights_for(products)
    terms = terms_of(weights, products)
    close = partial(torch.testing.assert_close, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=1e-6)
    close(sum_products(weights, *products.exp()).double(), terms.sum(2))
    close(log_sums(weights, products).double(), torch.log(terms.sum(2)))
    close(log_sums_with_zeros(weights, products).double(), torch.log(terms.sum(2)))
    close(log_maxima(weights, products).double(), torch.log(terms.amax(2)))
    found = log_sums_of_kept(weights, products, 0.4, masks_from(5))
    dropped = draw_dropped((N_FOLDS, weights.shape[2], N_ROWS), 0.4, torch.Generator().manual_seed(5))
    close(found.double(), torch.log(terms.masked_fill(dropped.unsqueeze(1), 0.0).sum(2)))


@pytest.mark.parametrize("all_pairs", [True, False])
@pytest.mark.parametrize("step", [log_sums, partial(log_sums_of_kept, rate=0.4, masks=masks_from(0))])
def test_steps_of_training_have_the_gradients_of_their_logarithms(
    step: Callable[[Tensor, Products], Tensor], all_pairs: bool
) -> None:
    """A sum of weights 0 is dead: it passes nothing on, and spoils no other."""
    products = products_of(all_pairs, torch.float64)
    weights = weights_for(products)
    weights[1, 2] = 0.0
    inputs = [weights.requires_grad_(), products.left.requires_grad_()]
    found = step(weights, products)
    assert (found[1, 2] == -INF).all()
    alive = found.masked_fill(found == -INF, 0.0)
    of_weights, of_left = torch.autograd.grad(alive.sum(), inputs)
    assert not of_weights[1, 2].any()
    # A sum is of degree 1 in its weights and in the values of either side: each row that lives gives 1 in total.
    n_alive = (found > -INF).sum((1, 2)).double()
    torch.testing.assert_close((of_weights * weights).sum((1, 2)), n_alive)
    torch.testing.assert_close(of_left.sum((1, 2)), n_alive)


@pytest.mark.parametrize("all_pairs", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_leave_what_would_underflow(all_pairs: bool, dtype: torch.dtype) -> None:
    """The best child has no weight and the rest lies 2,000 nats below: far out of range, yet positive."""
    side = torch.tensor([[[0.0], [-1000.0]]], dtype=dtype)
    weights = torch.tensor([[[0.0, 0.0, 0.0, 0.25], [0.5, 0.0, 0.0, 0.5]]], dtype=dtype)
    scale = torch.zeros(1, 1, 1, dtype=torch.float64)
    products = Products(side, side, scale) if all_pairs else Products(side + side, None, scale)
    found = log_sums_with_zeros(weights if all_pairs else weights[..., [0, 3]], products)
    torch.testing.assert_close(found.flatten(), torch.tensor([math.log(0.25) - 2000.0, math.log(0.5)], dtype=dtype))


def test_sums_of_nothing_are_dead() -> None:
    products = Products(torch.zeros(1, 2, 3), None, torch.zeros(1, 1, 3))
    for step in (log_sums, log_sums_with_zeros, log_maxima):
        assert step(torch.zeros(1, 1, 2), products).flatten().tolist() == [-INF] * 3


@pytest.mark.parametrize("budget", [1, 700, 4000, 2**30])
def test_tiles_have_the_gradients_of_the_whole_and_no_tile_one_of_its_size(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_TILE_BYTES", memory.Budget(budget, budget))
    generator = torch.Generator().manual_seed(0)
    parts = [
        torch.rand(*shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in ((3, 4, 6), (3, 2, 5), (3, 3, 5))
    ]
    weights, a, b = parts
    found = sum_products(weights, a, b)
    expected = torch.bmm(weights, pair_products(a, b))
    torch.testing.assert_close(found, expected)
    direction = torch.rand(found.shape, generator=generator, dtype=torch.float64)
    gradients, wanted = (torch.autograd.grad(sums, parts, direction, retain_graph=True) for sums in (found, expected))
    for gradient, exact in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, exact)
    # The gradient of a slice is filled up with zeros to the size of the whole, for every tile.
    assert not any("Slice" in name for name in _steps_behind(found))


def _steps_behind(value: Tensor) -> set[str]:
    """Names of what autograd goes back through."""
    waiting, seen = [value.grad_fn], {}
    while waiting:
        step = waiting.pop()
        if step is not None and step not in seen:
            seen[step] = step.name()
            waiting += [before for before, _ in step.next_functions]
    return set(seen.values())
