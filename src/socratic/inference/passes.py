"""Which children each pass of Monte Carlo dropout drops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from socratic.draws import draw_dropped

Shape = tuple[int, ...]


def independent_passes(
    shapes: Sequence[Shape], dropout: float, n_passes: int, generator: torch.Generator
) -> Iterator[list[Tensor]]:
    """For each pass a boolean for every child, true with probability ``dropout``: one tensor for each shape."""
    for _ in range(n_passes):
        yield [draw_dropped(shape, dropout, generator) for shape in shapes]


def balanced_passes(
    shapes: Sequence[Shape], dropout: float, n_passes: int, generator: torch.Generator
) -> Iterator[list[Tensor]]:
    """The same, but every child is dropped in its share of the passes, as nearly as whole numbers allow.

    Each pass is drawn as one of :func:`independent_passes` is, so averages over passes keep their expectation; but
    whatever a child does on its own cancels from their error (Latin hypercube sampling). With a prime number P of
    passes, child k is dropped in pass t if ``(a_k t + b_k) mod P < c_k``: a permutation of the passes for each child,
    with random a_k and b_k, and c_k one of the whole numbers next to ``dropout P``.
    """
    prime = next_prime(n_passes)
    whole = int(dropout * prime)
    device, dtype = generator.device, _smallest_type(prime)
    children = []
    for shape in shapes:
        step = torch.randint(1, max(prime, 2), shape, generator=generator, device=device, dtype=torch.int32)
        start = torch.randint(0, prime, shape, generator=generator, device=device, dtype=torch.int32)
        count = whole + draw_dropped(shape, dropout * prime - whole, generator).to(dtype)
        children.append(((prime - step).to(dtype), start.to(dtype), count))
    for _ in range(n_passes):
        yield [place < count for _, place, count in children]
        # A step forward, modulo the prime number, is one back, and around where that is below 0: no division. Not in
        # place: what was drawn in torch's inference mode may be asked for outside.
        children = [(back, _around(place - back, prime), count) for back, place, count in children]


def _around(place: Tensor, prime: int) -> Tensor:
    """Places that went back, modulo the prime number: from the end on where they are below 0."""
    return place.add(place.signbit(), alpha=prime)


def _smallest_type(largest: int) -> torch.dtype:
    """The integers of the fewest bits that hold this number: many are compared in one go."""
    types = (torch.int8, torch.int16, torch.int32, torch.int64)
    return next(dtype for dtype in types if largest <= torch.iinfo(dtype).max)


def next_prime(n: int) -> int:
    """The smallest prime number of at least ``n``."""
    n = max(n, 2)
    while any(n % divisor == 0 for divisor in range(2, int(n**0.5) + 1)):
        n += 1
    return n
