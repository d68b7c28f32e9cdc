from __future__ import annotations

import math

import pytest
import torch

from socratic.draws import draw_dropped, draw_log_gammas


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


@pytest.mark.parametrize("dropout", [0.0, 0.2, 0.999, 1.0 - 1e-9])
def test_masks_are_cut_from_random_words(dropout: float) -> None:
    """One for every 16 bits, compared as whole numbers of Python; a rate that is nearly 1 drops nearly everything."""
    words = torch.empty(250, dtype=torch.int64)
    words.random_(-(2**63), None, generator=torch.Generator().manual_seed(7))
    limit = min(round(dropout * 65536), 65535) - 32768
    expected = [cut < limit for cut in words.view(torch.int16).tolist()]
    found = draw_dropped((37, 27), dropout, torch.Generator().manual_seed(7))
    assert found.flatten().tolist() == expected[: 37 * 27]


@pytest.mark.parametrize("shape", [1e-3, 0.05, 1.0, 40.0])
def test_log_gammas_have_the_moments_of_their_shape(shape: float) -> None:
    parameter = torch.tensor(shape, dtype=torch.float64)
    drawn = draw_log_gammas(parameter.expand(20_000), torch.Generator().manual_seed(0))
    variance = torch.polygamma(1, parameter)
    assert abs(drawn.mean() - torch.digamma(parameter)) < 4.0 * (variance / len(drawn)).sqrt()
    assert float(drawn.var()) == pytest.approx(float(variance), rel=0.1)


def test_log_gammas_of_no_shape_and_of_tiny_ones() -> None:
    shapes = torch.tensor([0.0, 1e-300, 1e-8], dtype=torch.float64)
    drawn = draw_log_gammas(shapes, torch.Generator().manual_seed(0))
    assert drawn[0] == -torch.inf
    assert not drawn.isnan().any()
    assert torch.equal(drawn, draw_log_gammas(shapes, torch.Generator().manual_seed(0)))
