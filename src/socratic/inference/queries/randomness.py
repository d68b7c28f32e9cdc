"""Random numbers by address: each depends on a seed and on what it is for, not on what was drawn before.

Draws can then be made in pieces of any size, and more of them be asked for, without changing any.
"""

from __future__ import annotations

import torch
from torch import Tensor

from socratic.numerics import scale_dtype

_FIRST, _SECOND = -0x00AE502812AA7333, -0x3B314601E57A13AD  # odd, bits well mixed: the finaliser of MurmurHash3
_GOLDEN = -0x61C8864680B583EB  # 2^64 over the golden ratio: neighbouring numbers end up far apart


class Randomness:
    """Uniform random numbers, one for each draw and place.

    Parameters
    ----------
    seed : int
    row, number : Tensor (D,)
        Which row each draw completes, and how many draws of that row came before it.
    """

    def __init__(self, seed: int, row: Tensor, number: Tensor) -> None:
        start = _mix(torch.full_like(row, seed % 2**63))
        self._keys = _mix(_mix(start + row * _GOLDEN) + number * _GOLDEN)

    def uniform(self, draw: Tensor, place: Tensor) -> Tensor:
        """Numbers (M,) between 0 and 1, both excluded, given the draw of each, counted from 0, and its place."""
        dtype = scale_dtype(draw)
        n_bits = 52 if dtype == torch.float64 else 23  # with a half added, all that the type holds
        bits = _mix(self._keys[draw] + place * _GOLDEN)
        return (((bits >> (64 - n_bits)) & (2**n_bits - 1)).to(dtype) + 0.5) * 2.0**-n_bits


def _mix(bits: Tensor) -> Tensor:
    """Each 64-bit number as another that looks unrelated (one to one)."""
    for factor in (_FIRST, _SECOND):
        bits = (bits ^ _shifted(bits)) * factor
    return bits ^ _shifted(bits)


def _shifted(bits: Tensor) -> Tensor:
    """Bits moved by 33 places, zeros in their stead: the sign is a bit like any other."""
    return (bits >> 33) & (2**31 - 1)
