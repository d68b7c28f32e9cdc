"""How much fits in memory: the one place that decides how much is computed at a time.

Results never depend on it, only speed and memory do. Two things bound a piece of work: chunks of rows bound what a
query holds in all; tiles, blocks and the like bound the intermediates of a single step, which are fastest where they
stay in a processor's cache, or are large enough to keep a GPU busy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from socratic.errors import check_count


class Budget(NamedTuple):
    """What may be held at once, on a processor and on any other device."""

    processor: int
    other: int

    def fits(self, size: int, device: torch.device) -> int:
        """How many things of this size are taken at a time: one at least."""
        return max(1, (self.processor if device.type == "cpu" else self.other) // max(1, size))


_CHUNK_BYTES = Budget(48 * 2**20, 6 * 2**30)
"""Everything that a query holds for a chunk of rows. On a processor, memory that is larger goes back to the system each
time, and to have it filled with zeros again takes longer than the arithmetic."""
_TILE_BYTES = Budget(5 * 2**19, 256 * 2**20)
"""Intermediates of a sum-product step: what is multiplied with the weights."""
_BLOCK_BYTES = Budget(32 * 2**20, 2**30)
"""Intermediates of a layer of log-moments, many of them small matrices for each row."""
_PASS_BYTES = Budget(12 * 2**20, 2**28)
"""Masks, weights and values of the passes of Monte Carlo dropout that one walk takes up."""
_POINTS = Budget(2**19, 2**24)
"""Log-likelihoods at the points of a quadrature."""
_TERMS = Budget(2**18, 2**26)
"""Terms of the sums that a way down chooses from."""
_GATHERED = Budget(2**17, 2**17)
"""Children of the nodes of a graph, times rows."""
_TABLE_ENTRIES = Budget(2**22, 2**22)
"""Numbers of a table that is made in pieces, to be summed up or looked through."""
_RECORDED_BYTES = 4 * 2**30
"""What the recorded queries of a circuit hold on a GPU."""
_LARGEST_FREED_BYTES = 32 * 2**20 - 2**16
"""A block with its header, as large as the C library of Linux takes note of."""
_ROWS_OF_VECTOR = 16
"""Of a processor: as many rows as its widest vectors hold."""
MOST_RECORDINGS = 16
"""How many queries of a circuit are recorded, or remembered to have come once."""
MOST_BITS = 2**33
"""Bits of the largest table that cannot be made in pieces: which nodes of a graph share what."""


def keep_freed_memory() -> None:
    """Let a processor's memory of a chunk be taken again without asking the system for it.

    The C library of Linux gives memory back as soon as more than twice the largest block that was ever freed is unused,
    if that block had at most 32 MB. To be given pages again costs as much as a tenth of a query.
    """
    torch.empty(_LARGEST_FREED_BYTES, dtype=torch.uint8, device="cpu")


def rows_at_a_time(like: Tensor, entries_per_row: int, chunk_size: int | None = None) -> int:
    """Rows that a query takes at a time: ``chunk_size``, or as many as a bounded memory holds.

    ``like`` has the type and device, and ``entries_per_row`` counts the numbers that a query holds at once for one row.
    """
    if chunk_size is not None:
        return check_count("chunk_size", chunk_size)
    most = _CHUNK_BYTES.fits(entries_per_row * like.element_size(), like.device)
    return most if most < _ROWS_OF_VECTOR else most - most % _ROWS_OF_VECTOR


def even_chunks(n_rows: int, most: int, device: torch.device) -> list[tuple[int, int]]:
    """Where chunks of at most so many rows start and stop, all of about the same size; an empty one if there are none.

    A GPU records what it is to do for each size; a processor takes rows a vector at a time, and fills it.
    """
    size = max(1, math.ceil(n_rows / max(1, math.ceil(n_rows / most))))
    if device.type == "cpu":
        size = min(most, math.ceil(size / _ROWS_OF_VECTOR) * _ROWS_OF_VECTOR)
    return [(start, min(start + size, n_rows)) for start in range(0, max(n_rows, 1), size)]


def table_rows(entries_per_row: int) -> int:
    """Rows of a table to make at a time."""
    return _TABLE_ENTRIES.fits(entries_per_row, torch.device("cpu"))


def gathered_at_a_time(n_rows: int, device: torch.device) -> int:
    """Children of the nodes of a graph to look at together, in that many rows."""
    if torch.compiler.is_compiling():  # a compiler tiles by itself, and may not know the number of rows
        return sys.maxsize
    return _GATHERED.fits(n_rows, device)


def passes_at_a_time(numbers_per_pass: int, like: Tensor) -> int:
    """Passes under drawn masks, or with drawn weights, to take up together; ``like`` has the type and device."""
    return _PASS_BYTES.fits(numbers_per_pass * like.element_size(), like.device)


def points_at_a_time(values_per_row: int, device: torch.device) -> int:
    """Rows of a quadrature to evaluate at a time, each with that many log-likelihoods."""
    return _POINTS.fits(values_per_row, device)


def split_terms(sums: Tensor, n_terms: int) -> Iterable[Tensor]:
    """Cut a list (M, ...) of sums with ``n_terms`` each into pieces whose terms are looked at together."""
    return sums.split(_TERMS.fits(n_terms, sums.device))


def recorded_bytes(device: torch.device) -> int:
    """What the recorded queries of a circuit may hold on a CUDA GPU: at most an eighth of its memory."""
    return min(_RECORDED_BYTES, torch.cuda.get_device_properties(device).total_memory // 8)


class Scratch:
    """Memory that the tiles of one layer take turns in: touching fresh memory costs more than the arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def out(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor | None:
        """A tensor to write to, for ``out=`` of torch's functions; None (torch allocates) if it must be kept."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return None
        size = math.prod(shape)
        if name not in self._buffers or self._buffers[name].numel() < size:
            self._buffers[name] = like.new_empty(size)
        return self._buffers[name][:size].view(shape)


def map_tiles(
    compute: Callable[[slice, slice, Scratch], Tensor],
    n_folds: int,
    n_rows: int,
    entry_bytes: int,
    device: torch.device,
    row_axis: int,
) -> Tensor:
    """Join ``compute(folds, rows, scratch)`` over tiles: blocks of folds and rows whose intermediates fit in memory.

    Parameters
    ----------
    compute : callable
        Gives the result of some folds (axis 0) and rows (axis ``row_axis``), in memory of its own.
    n_folds, n_rows : int
    entry_bytes : int
        Size of the intermediates of one row of one fold.
    """
    scratch = Scratch()
    parts = []
    for folds, tiles in _cut(_TILE_BYTES, n_folds, n_rows, entry_bytes, device):
        pieces = [compute(folds, rows, scratch) for rows in tiles]
        parts.append(pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=row_axis))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def map_cut(
    compute: Callable[[Tensor, Tensor, Tensor, Scratch], Tensor],
    weights: Tensor,
    a: Tensor,
    b: Tensor,
    entry_bytes: int,
) -> Tensor:
    """Join ``compute(weights, a, b, scratch)`` over tiles, as :func:`map_tiles` does, of a step that training takes.

    All are cut at once: the gradient of a part that is taken by itself is as large as the whole.

    Parameters
    ----------
    compute : callable
        Gives the result (F', S, N') of some folds and rows.
    weights : (F, S, K)
    a, b : (F, A, N), (F, B, N)
    entry_bytes : int
        Size of the intermediates of one row of one fold.
    """
    scratch = Scratch()
    cuts = _cut(_TILE_BYTES, len(a), a.shape[2], entry_bytes, a.device)
    if len(cuts) == len(cuts[0][1]) == 1:
        return compute(weights, a, b, scratch)
    folds = [part.stop - part.start for part, _ in cuts]
    rows = [part.stop - part.start for part in cuts[0][1]]
    parts = []
    for of_weights, of_a, of_b in zip(weights.split(folds), a.split(folds), b.split(folds), strict=True):
        tiles = zip(of_a.split(rows, dim=2), of_b.split(rows, dim=2), strict=True)
        parts.append(torch.cat([compute(of_weights, *tile, scratch) for tile in tiles], dim=2))
    return torch.cat(parts)


def blocks(n_folds: int, n_rows: int, entry_bytes: int, device: torch.device) -> list[tuple[slice, list[slice]]]:
    """Folds of a layer of log-moments to take at a time, and for each of them the rows."""
    return _cut(_BLOCK_BYTES, n_folds, n_rows, entry_bytes, device)


def _cut(
    budget: Budget, n_folds: int, n_rows: int, entry_bytes: int, device: torch.device
) -> list[tuple[slice, list[slice]]]:
    """Cut into pieces of as many rows as fit, and then of as many folds."""
    if torch.compiler.is_compiling():  # a compiler tiles by itself, and may not know the number of rows
        return [(slice(0, n_folds), [slice(0, n_rows)])]
    rows = max(1, min(n_rows, budget.fits(entry_bytes, device)))
    folds = max(1, min(n_folds, budget.fits(entry_bytes * rows, device)))
    of_rows = [slice(row, min(row + rows, n_rows)) for row in range(0, max(n_rows, 1), rows)]
    return [(slice(fold, min(fold + folds, n_folds)), of_rows) for fold in range(0, n_folds, folds)]
