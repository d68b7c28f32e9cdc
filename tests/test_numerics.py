from __future__ import annotations

import math

import pytest
import torch

from socratic import numerics
from socratic.numerics import (
    Scratch,
    draw_dropped,
    exp_shifted,
    finite_max,
    log_or_dead,
    logsumexp_or_dead,
    map_tiles,
    pair_products,
    pair_sums,
    sqrt_or_zero,
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


@pytest.mark.parametrize("dropout", [0.0, 0.01, 0.2, 0.5, 0.999])
def test_masks_have_their_rate_and_no_pattern(dropout: float) -> None:
    n = 400_000
    dropped = draw_dropped((n // 4, 4), dropout, torch.Generator().manual_seed(0)).double()
    error = 4 * math.sqrt(dropout * (1 - dropout) / (n / 4)) + 1e-5
    assert (dropped.mean(0) - dropout).abs().max() < error  # each of the four in a word
    pairs = (dropped[:, :-1] * dropped[:, 1:]).mean(0)
    assert (pairs - dropout**2).abs().max() < error
    assert draw_dropped((0,), dropout, torch.Generator()).shape == (0,)
    assert draw_dropped((3, 5), dropout, torch.Generator()).shape == (3, 5)


def test_logsumexp_of_nothing_is_dead_without_gradient() -> None:
    x = torch.tensor([[-INF, 0.0], [-INF, math.log(2.0)]], requires_grad=True)
    y = logsumexp_or_dead(x, dim=0)
    torch.testing.assert_close(y, torch.tensor([[-INF, math.log(3.0)]]))
    y[0, 1].backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.tensor([[0.0, 1 / 3], [0.0, 2 / 3]]))


def test_pairs_are_left_major() -> None:
    left, right = torch.tensor([[[2.0], [3.0]]]), torch.tensor([[[5.0], [7.0], [11.0]]])
    assert pair_products(left, right).flatten().tolist() == [10, 14, 22, 15, 21, 33]
    assert pair_sums(left, right).flatten().tolist() == [7, 9, 13, 8, 10, 14]


@pytest.mark.parametrize("budget", [1, 100, 10**9])
def test_tiles_cover_everything_once(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numerics, "_CACHE_BYTES", budget)
    x = torch.randn(5, 3, 7)
    seen = []

    def compute(folds: slice, rows: slice, _: Scratch) -> torch.Tensor:
        seen.append((folds, rows))
        return 2 * x[folds, :, rows]

    assert torch.equal(map_tiles(compute, 5, 7, 4, x.device, row_axis=2), 2 * x)
    assert len(seen) == {1: 35, 100: 2, 10**9: 1}[budget]


def test_scratch_is_reused_without_gradients_only() -> None:
    scratch, like = Scratch(), torch.zeros(1)
    assert scratch.out("a", (2, 3), like) is None
    with torch.no_grad():
        first, second = scratch.out("a", (2, 3), like), scratch.out("a", (5,), like)
        assert first is not None
        assert second is not None
        assert first.data_ptr() == second.data_ptr()
