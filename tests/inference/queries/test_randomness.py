from __future__ import annotations

import itertools

import torch
from scipy import stats

from socratic.inference.queries.randomness import Randomness

ZEROS = torch.zeros(1, dtype=torch.long)


def numbers(seed: int = 0, n_rows: int = 40, n_draws: int = 40, n_places: int = 40) -> torch.Tensor:
    """Random numbers (rows, draws, places) at neighbouring addresses."""
    row, number = torch.arange(n_rows).repeat_interleave(n_draws), torch.arange(n_draws).repeat(n_rows)
    random = Randomness(seed, row, number)
    draw, place = torch.meshgrid(torch.arange(len(row)), torch.arange(n_places) - n_places // 2, indexing="ij")
    return random.uniform(draw.flatten(), place.flatten()).view(n_rows, n_draws, n_places)


def test_numbers_are_uniform_and_unrelated_to_their_neighbours() -> None:
    drawn = numbers()
    assert 0.0 < drawn.min() < drawn.max() < 1.0
    assert stats.kstest(drawn.flatten(), "uniform").pvalue > 1e-3
    others = [drawn.roll(1, axis) for axis in range(3)] + [numbers(seed=1), numbers(seed=2**40)]
    for one, other in itertools.combinations([drawn, *others], 2):
        correlation = stats.pearsonr(one.flatten(), other.flatten())
        assert correlation.pvalue > 1e-4
        counts = torch.histogramdd(torch.stack([one.flatten(), other.flatten()], 1), bins=8).hist
        assert stats.chisquare(counts.flatten()).pvalue > 1e-4


def test_no_number_is_0_or_1() -> None:
    """Extreme numbers are rare: look at the bits instead."""
    random = Randomness(0, ZEROS, ZEROS)
    for bits, expected in [(0, 2.0**-53), (-1, 1.0 - 2.0**-53)]:
        assert float((((torch.tensor([bits]) >> 12) & (2**52 - 1)).double() + 0.5) * 2.0**-52) == expected
    assert random.uniform(ZEROS, ZEROS).dtype == torch.float64


def test_large_seeds_are_taken() -> None:
    assert 0.0 < float(Randomness(2**64 + 7, ZEROS, ZEROS).uniform(ZEROS, ZEROS)) < 1.0
