"""Which children passes drop: each pass as drawn independently, all of them together balanced."""

from __future__ import annotations

from itertools import islice

import pytest
import torch

import socratic
from socratic.draws import draw_dropped
from socratic.inference.passes import balanced_passes, independent_passes, next_prime

SHAPES = [(3, 1, 400), (2, 5, 60)]


def dropped(draw: object, dropout: float, n_passes: int, seed: int = 0) -> torch.Tensor:
    """All children (P, K) of all shapes."""
    generator = torch.Generator().manual_seed(seed)
    passes = list(draw(SHAPES, dropout, n_passes, generator))  # type: ignore[operator]
    assert len(passes) == n_passes
    assert all([tuple(part.shape) for part in each] == SHAPES for each in passes)
    return torch.stack([torch.cat([part.flatten() for part in each]) for each in passes]).double()


@pytest.mark.parametrize("n_passes", [1, 2, 30, 61])
@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5, 0.99])
def test_every_child_is_dropped_in_its_share_of_the_passes(n_passes: int, dropout: float) -> None:
    counts = dropped(balanced_passes, dropout, n_passes).sum(0)
    prime = next_prime(n_passes)
    slack = prime - n_passes  # passes that would complete the prime number
    assert float(counts.max()) <= int(dropout * prime) + 1
    assert float(counts.min()) >= int(dropout * prime) - slack


@pytest.mark.parametrize("n_passes", [1, 2, 73, 127, 128, 33_000])
@pytest.mark.parametrize("dropout", [0.0, 0.2, 0.99])
def test_balanced_masks_are_those_of_their_definition(n_passes: int, dropout: float) -> None:
    """In whole numbers of Python, which have no end: (a t + b) mod P < c."""
    shape, prime = (3, 1, 20), next_prime(n_passes)
    generator = torch.Generator().manual_seed(4)
    step = torch.randint(1, prime, shape, generator=generator, dtype=torch.int32)
    start = torch.randint(0, prime, shape, generator=generator, dtype=torch.int32)
    whole = int(dropout * prime)
    more = draw_dropped(shape, dropout * prime - whole, generator)
    children = list(zip(*(part.flatten().tolist() for part in (step, start, more)), strict=True))
    passes = balanced_passes([shape], dropout, n_passes, torch.Generator().manual_seed(4))
    for t, (mask,) in enumerate(islice(passes, 200)):
        assert mask.dtype == torch.bool
        assert mask.flatten().tolist() == [(a * t + b) % prime < whole + c for a, b, c in children]


@pytest.mark.parametrize("draw", [balanced_passes, independent_passes])
def test_passes_drop_independently_of_each_other(draw: object) -> None:
    """Over many seeds, every pass drops its share, and pairs of children fall together as often as chance has it."""
    found = torch.stack([dropped(draw, 0.3, 7, seed) for seed in range(60)])  # (seeds, P, K)
    share = found.mean((0, 2))
    assert float((share - 0.3).abs().max()) < 4 * (0.21 / (60 * found.shape[2])) ** 0.5
    together = (found[..., :-1] * found[..., 1:]).mean()
    assert abs(float(together) - 0.09) < 0.003


@pytest.mark.slow
def test_balanced_passes_are_closer() -> None:
    circuit = socratic.rat_spn(16, 3, n_sums=6, n_leaves=6, depth=3, n_repetitions=2)
    x = torch.randn(20, 16, generator=torch.Generator().manual_seed(0))
    truth = socratic.monte_carlo_dropout(circuit, x, n_passes=4000, seed=99).mean
    errors = {}
    for balanced in (False, True):
        runs = [
            socratic.monte_carlo_dropout(circuit, x, n_passes=31, balanced=balanced, seed=seed).mean
            for seed in range(10)
        ]
        errors[balanced] = float(torch.stack([(run - truth).abs().mean() for run in runs]).mean())
    assert errors[True] < 0.75 * errors[False]


def test_primes() -> None:
    assert [next_prime(n) for n in (0, 1, 2, 3, 4, 30, 61, 62, 100)] == [2, 2, 2, 3, 5, 31, 61, 67, 101]
