"""Rows in chunks: all of them once, never more at a time than was asked for, and of nearly one size."""

from __future__ import annotations

import pytest
import torch

from socratic.inference.rows import map_chunks


@pytest.mark.parametrize("n_rows", [0, 1, 2, 7, 8, 9, 100])
@pytest.mark.parametrize("chunk_size", [1, 3, 8, 1000])
def test_chunks_hold_every_row_once(n_rows: int, chunk_size: int) -> None:
    rows = torch.arange(float(n_rows)).unsqueeze(1)
    chunks = map_chunks(lambda start, stop: rows[start:stop], rows, 1, chunk_size)
    assert torch.cat(chunks).flatten().tolist() == list(range(n_rows))
    sizes = [len(chunk) for chunk in chunks]
    assert max(sizes) <= chunk_size
    assert len(set(sizes[:-1])) <= 1
