from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import socratic
from socratic.memory import (
    Budget,
    Scratch,
    blocks,
    even_chunks,
    map_tiles,
    passes_at_a_time,
    rows_at_a_time,
    split_terms,
    table_rows,
)

CPU = torch.device("cpu")


def test_a_budget_holds_one_thing_at_least() -> None:
    budget = Budget(100, 1000)
    assert [budget.fits(size, CPU) for size in (0, 7, 100, 101)] == [100, 14, 1, 1]
    assert budget.fits(7, torch.device("cuda")) == 142


def test_few_numbers_make_many_passes() -> None:
    single, double = (torch.zeros(0, dtype=dtype) for dtype in (torch.float32, torch.float64))
    assert passes_at_a_time(10**12, single) == 1
    assert passes_at_a_time(1000, single) == pytest.approx(2 * passes_at_a_time(1000, double), abs=1)


def test_rows_follow_the_type_unless_a_chunk_size_is_given() -> None:
    single, double = (torch.zeros(0, dtype=dtype) for dtype in (torch.float32, torch.float64))
    assert rows_at_a_time(single, 1000) == pytest.approx(2 * rows_at_a_time(double, 1000), abs=1)
    assert rows_at_a_time(single, 10**12) == 1
    assert rows_at_a_time(single, 10**12, chunk_size=7) == 7
    with pytest.raises(ValueError, match="chunk_size must be a whole number of at least 1; got 0"):
        rows_at_a_time(single, 1, chunk_size=0)


@pytest.mark.parametrize("budget", [1, 100, 10**9])
def test_tiles_cover_everything_once(budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.memory._TILE_BYTES", Budget(budget, 1))
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


def test_blocks_cover_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.memory._BLOCK_BYTES", Budget(100, 100))
    covered = torch.zeros(5, 7, dtype=torch.int64)
    for folds, of_rows in blocks(5, 7, 10, CPU):
        for rows in of_rows:
            covered[folds, rows] += 1
            assert covered[folds, rows].numel() <= 10
    assert (covered == 1).all()


def test_pieces_of_terms_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.memory._TERMS", Budget(10, 10))
    monkeypatch.setattr("socratic.memory._TABLE_ENTRIES", Budget(10, 10))
    assert [len(part) for part in split_terms(torch.zeros(7, 2), 3)] == [3, 3, 1]
    assert table_rows(3) == 3


@pytest.mark.parametrize(
    ("n_rows", "most", "sizes"),
    [(0, 5, [0]), (3, 5, [3]), (9, 5, [5, 4]), (200, 64, [64, 64, 64, 8]), (200, 112, [112, 88]), (200, 250, [200])],
)
def test_chunks_on_a_processor_fill_its_vectors(n_rows: int, most: int, sizes: list[int]) -> None:
    chunks = even_chunks(n_rows, most, torch.device("cpu"))
    assert [stop - start for start, stop in chunks] == sizes
    assert [start for start, _ in chunks] == [0, *(stop for _, stop in chunks[:-1])]


def test_chunks_on_another_device_are_of_the_same_size() -> None:
    assert even_chunks(200, 64, torch.device("meta")) == [(0, 50), (50, 100), (100, 150), (150, 200)]


def test_rows_at_a_time_fill_the_vectors_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socratic.memory._CHUNK_BYTES", Budget(4 * 100, 4 * 100))
    assert [rows_at_a_time(torch.zeros(1), entries) for entries in (1, 2, 6, 7, 200)] == [96, 48, 16, 14, 1]
    assert rows_at_a_time(torch.zeros(1), 1, chunk_size=33) == 33


def test_no_other_module_decides_how_much_is_computed_at_a_time() -> None:
    """Numbers of bytes and entries, powers of two from 2**17 on, are in one module.

    The others are limits that results depend on: the columns of a graph, the values that decide how pixels are
    normalised, the rows of files that are sampled and mixed, the requests that are answered, the tables and model files
    that are refused, and the groups of rows in Parquet files.
    """
    folder = Path(socratic.__file__).parent
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\b2 ?\*\* ?(1[7-9]|2\d|30|33)\b", path.read_text())
    }
    sampled = {"estimators/streamed_rows.py", "estimators/streaming.py", "images/pixels.py"}
    refused = {"circuit/validity.py", "estimators/storage.py", "serve/settings.py", "tables/bounds.py"}
    assert found == {"memory.py", "tables/writing.py", *sampled, *refused}
