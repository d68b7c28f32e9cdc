"""Rows: checked before a query or, if it is replayed, with it; in chunks, all of them once, of nearly one size."""

from __future__ import annotations

import pytest
import torch

import socratic
from socratic.inference import rows as rows_module
from socratic.inference.rows import ask, map_chunks


@pytest.mark.parametrize("n_rows", [0, 1, 2, 7, 8, 9, 100])
@pytest.mark.parametrize("chunk_size", [1, 3, 8, 1000])
def test_chunks_hold_every_row_once(n_rows: int, chunk_size: int) -> None:
    rows = torch.arange(float(n_rows)).unsqueeze(1)
    chunks = map_chunks(lambda start, stop: rows[start:stop], rows, 1, chunk_size)
    assert torch.cat(chunks).flatten().tolist() == list(range(n_rows))
    sizes = [len(chunk) for chunk in chunks]
    assert max(sizes) <= chunk_size
    assert len(set(sizes[:-1])) <= 1


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize(("leaf", "harmless"), [("gaussian", True), ("exponential", False), ("bernoulli", False)])
def test_only_infinite_values_that_do_no_harm_are_asked_about_later(
    replayed: bool, leaf: str, harmless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "may_replay", lambda _: replayed)  # which only a GPU does
    circuit = socratic.rat_spn(3, 2, leaf=leaf, n_sums=2, n_leaves=2, depth=1, n_repetitions=1)
    asked: list[torch.Tensor] = []
    message = r"x must be finite in torch.float32 \(NaN for a missing value\); got inf in row 1, column 2"
    with pytest.raises(ValueError, match=message):
        ask(circuit, [[0.0, 1.0, 0.0], [0.0, 1.0, torch.inf]], asked.append)
    assert len(asked) == (replayed and harmless)
    assert ask(circuit, [[0.0, 1.0, torch.nan]], len) == 1
