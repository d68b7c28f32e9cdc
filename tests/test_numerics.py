from __future__ import annotations

import math

import pytest
import torch

from socratic.numerics import (
    exp_shifted,
    finite_max,
    log_or_dead,
    logsumexp_by,
    logsumexp_or_dead,
    pair_products,
    pair_sums,
    parts_of_sums,
    sqrt_or_zero,
    sums_in_parts,
    weighted_sums,
)

INF = math.inf
DTYPES = [torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_finite_max_is_zero_where_nothing_is_alive(dtype: torch.dtype) -> None:
    x = torch.tensor([[[-INF, -1e4], [-INF, -2e4]]], dtype=dtype)
    assert finite_max(x).tolist() == [[[0.0, -1e4]]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_shifted_takes_any_size(dtype: torch.dtype) -> None:
    x = torch.tensor([[[-1e6, -INF, 1e6], [-1e6 - 1, -INF, 1e6]]], dtype=dtype)
    values, shift = exp_shifted(x)
    torch.testing.assert_close(values[0, :, 0], torch.tensor([1.0, math.exp(-1)], dtype=dtype), rtol=1e-5, atol=0)
    assert values[0, :, 1].tolist() == [0.0, 0.0]
    assert values[0, :, 2].tolist() == [1.0, 1.0]  # a tie
    assert shift.tolist() == [[[-1e6, 0.0, 1e6]]]


@pytest.mark.parametrize("function", [log_or_dead, sqrt_or_zero])
def test_functions_have_a_zero_gradient_at_zero(function: object) -> None:
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    function(x)[1:].sum().backward()  # type: ignore[operator]
    first = x.grad
    x.grad = None
    function(x).nan_to_num(neginf=0.0).sum().backward()  # type: ignore[operator]
    assert first is not None
    assert x.grad is not None
    assert x.grad.tolist() == first.tolist()


def test_logsumexp_of_nothing_is_dead_without_gradient() -> None:
    x = torch.tensor([[-INF, 0.0], [-INF, math.log(2.0)]], requires_grad=True)
    y = logsumexp_or_dead(x, dim=0)
    torch.testing.assert_close(y, torch.tensor([[-INF, math.log(3.0)]]))
    y[0, 1].backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.tensor([[0.0, 1 / 3], [0.0, 2 / 3]]))


def test_logsumexp_by_groups() -> None:
    x = torch.tensor([[0.0, -INF], [1e4, -INF], [math.log(2.0), 5.0], [1e4, -INF]], requires_grad=True)
    y = logsumexp_by(x, torch.tensor([2, 0, 2, 0]), 3)
    expected = [[1e4 + math.log(2.0), -INF], [-INF, -INF], [math.log(3.0), 5.0]]
    torch.testing.assert_close(y, torch.tensor(expected))
    y[2, 0].backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad[:, 0], torch.tensor([1 / 3, 0.0, 2 / 3, 0.0]))


def test_pairs_are_left_major() -> None:
    left, right = torch.tensor([[[2.0], [3.0]]]), torch.tensor([[[5.0], [7.0], [11.0]]])
    assert pair_products(left, right).flatten().tolist() == [10, 14, 22, 15, 21, 33]
    assert pair_sums(left, right).flatten().tolist() == [7, 9, 13, 8, 10, 14]


@pytest.mark.parametrize("n_rows", [0, 1, 2, 8, 9, 30])
def test_weighted_sums_are_the_same_for_few_and_for_many_rows(n_rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weights, values = (
        torch.rand(*shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in ((3, 4, 5), (3, 5, n_rows))
    )
    found, expected = weighted_sums(weights, values), torch.einsum("fsk,fkn->fsn", weights, values)
    torch.testing.assert_close(found, expected)
    gradients, wanted = (torch.autograd.grad(sums.square().sum(), (weights, values)) for sums in (found, expected))
    torch.testing.assert_close(gradients, wanted)


@pytest.mark.parametrize(
    ("n_folds", "n_sums", "n_terms", "n_rows", "n_parts"),
    [
        (16, 128, 16_384, 200, 8),  # two tiles a fold: 16 folds leave room for eight parts
        (4, 128, 16_384, 200, 32),
        (1, 128, 16_384, 200, 32),  # of no less than 512 terms
        (16, 128, 16_384, 16_384, 1),
        (80, 20, 400, 200, 1),
        (1, 1, 3 * 1024, 1, 4),  # parts are equal
        (1, 1, 3 * 1023, 1, 1),
        (2, 3, 4, 0, 1),
    ],
)
def test_sums_of_many_terms_are_cut_into_parts_that_keep_a_gpu_busy(
    n_folds: int, n_sums: int, n_terms: int, n_rows: int, n_parts: int
) -> None:
    assert parts_of_sums(n_folds, n_sums, n_terms, n_rows) == n_parts


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_of_sums_add_up(dtype: torch.dtype) -> None:
    weights, values = torch.rand(2, 3, 64, dtype=dtype), torch.rand(2, 64, 9, dtype=dtype)
    torch.testing.assert_close(sums_in_parts(weights, values, 8), torch.bmm(weights, values))
