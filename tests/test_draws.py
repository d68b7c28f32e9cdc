from __future__ import annotations

import math

import pytest
import torch

from socratic.draws import draw_dropped


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
