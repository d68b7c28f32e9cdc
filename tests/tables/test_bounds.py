"""How much of a Parquet file is unpacked, told from its pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from socratic.errors import DataFileError
from socratic.tables.bounds import Bounds, TooLargeError, read_end
from socratic.tables.parquet_pages import DICTIONARY, chunks, pages
from socratic.tables.reading import open_source

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
BOUNDS = Bounds(rows=10_000_000, columns=100, unpacked_bytes=2**28)


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    parquet.write_table(pa.table(columns), path, compression="zstd", store_schema=False, **options)
    return path


def repeated(text: Any, n_rows: int) -> Any:
    """A column of one text, which is there once."""
    return pa.DictionaryArray.from_arrays(np.zeros(n_rows, dtype=np.int32), pa.array([text]))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_pages_say_what_the_end_of_the_file_says(tmp_path: Path, version: str, compression: str) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "number": rng.random(5_000),
        "few": rng.integers(0, 3, 5_000),
        "text": [f"text {number}" for number in rng.integers(0, 900, 5_000)],
        "none": pa.nulls(5_000),
        "list": [[number] * (number % 4) for number in range(5_000)],
        "long": [None, "x" * 300_000] * 2_500,
    }
    path = tmp_path / "table.parquet"
    settings = {"compression": compression, "data_page_version": version, "data_page_size": 4_000}
    parquet.write_table(pa.table(columns), path, row_group_size=2_000, **settings)
    metadata = parquet.ParquetFile(path).metadata
    with path.open("rb") as file:
        for group, columns_ in enumerate(chunks(read_end(path))):
            for place, found_ in enumerate(columns_):
                chunk = metadata.row_group(group).column(place)
                start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
                assert found_ == (start, chunk.total_compressed_size, chunk.num_values)
                found = list(pages(file, found_))
                assert sum(page.n_values for page in found if page.kind != DICTIONARY) == chunk.num_values
                heads = chunk.total_uncompressed_size - sum(page.size for page in found)
                assert 0 < heads < 100_000 * len(found)
                assert chunk.has_dictionary_page == (found[0].kind == DICTIONARY)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"text": repeated("x" * 3_250_000, 2_000)}, {}, "more than 268435456 bytes when it is unpacked"),
        ({"text": repeated("x" * 3_250_000, 60)}, {}, None),
        ({"bytes": repeated(b"x" * 3_250_000, 100)}, {}, "more than 268435456 bytes when it is unpacked"),
        ({"text": ["x" * 3_250_000] * 100}, {"use_dictionary": False}, "more than 268435456 bytes when it is"),
        (
            {f"text{place}": ["x" * 9_000_000] for place in range(16)},
            {"use_dictionary": False},
            "may have rows of 1440",
        ),
        ({"number": np.zeros(2_000_000)}, {}, "has 2000000 rows in .* bytes, more than 16 in each"),
        ({"list": [[0] * 9_000_000]}, {}, "may have rows of 1440"),
        ({f"x{place}": [1.0] for place in range(101)}, {}, "has 101 columns, more than 100"),
        ({"x" * 1_000: np.zeros(9_000)}, {"row_group_size": 1}, "bytes to say where its columns are"),
    ],
)
def test_tables_that_unfold(
    tmp_path: Path, columns: dict[str, Any], options: dict[str, Any], message: str | None
) -> None:
    path = written(tmp_path / "table.parquet", columns, **options)
    if message is not None:
        with pytest.raises(TooLargeError, match=message):
            open_source(path, BOUNDS)
    else:
        open_source(path, BOUNDS)
    open_source(path)  # one's own files have no bounds


def test_pages_that_are_unpacked_together(tmp_path: Path) -> None:
    columns = {f"text{place}": ["x" * 20_000_000] for place in range(16)}
    path = written(tmp_path / "table.parquet", columns, use_dictionary=False)
    with pytest.raises(
        TooLargeError, match=r"has pages of 3200.* bytes that have to be unpacked together; write smaller"
    ):
        open_source(path, BOUNDS._replace(unpacked_bytes=2**30))


def test_texts_that_share_what_they_begin_with(tmp_path: Path) -> None:
    texts = [f"{'x' * 500_000}{number % 10}" for number in range(600)]
    path = written(
        tmp_path / "table.parquet", {"text": texts}, use_dictionary=False, column_encoding={"text": "DELTA_BYTE_ARRAY"}
    )
    with pytest.raises(TooLargeError, match="when it is unpacked"):
        sum(chunk.batch.num_rows for chunk in open_source(path, BOUNDS).chunks())


@pytest.mark.parametrize(
    "options", [{}, {"use_dictionary": False, "write_batch_size": 16}, {"data_page_version": "2.0"}]
)
def test_long_texts_are_read_a_few_at_a_time(tmp_path: Path, options: dict[str, Any]) -> None:
    texts = [f"{'x' * 100_000}{number % 3}" for number in range(2_000)]
    path = written(tmp_path / "table.parquet", {"text": texts, "number": np.arange(2_000.0)}, **options)
    before = pa.total_allocated_bytes()
    found: list[str] = []
    most = 0
    for chunk in open_source(path, BOUNDS).chunks():
        assert chunk.start == len(found)
        found += chunk.batch.column("text").to_pylist()
        most = max(most, pa.total_allocated_bytes() - before)
    assert found == texts
    assert most < 96 * 2**20


def test_ordinary_tables_are_read_as_without_bounds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    columns = {
        "number": rng.random(50_000),
        "few": rng.integers(0, 3, 50_000),
        "text": [f"text {number}" for number in rng.integers(0, 20_000, 50_000)],
        "struct": [{"a": number, "b": str(number)} for number in range(50_000)],
        "list": [[number] * (number % 4) for number in range(50_000)],
    }
    path = written(tmp_path / "table.parquet", columns)
    plain, bounded = (list(open_source(path, bounds).chunks()) for bounds in (None, BOUNDS))
    assert pa.Table.from_batches([chunk.batch for chunk in bounded]).equals(
        pa.Table.from_batches([chunk.batch for chunk in plain])
    )


def test_short_lists_are_answered_together(tmp_path: Path) -> None:
    """One of them could be all there is, and so they are unpacked a few at a time."""
    path = written(tmp_path / "table.parquet", {"list": [[0.5] * 300] * 2_500})
    assert [chunk.batch.num_rows for chunk in open_source(path, BOUNDS).chunks()] == [2_000, 500]


def test_damaged_files(tmp_path: Path) -> None:
    path = written(tmp_path / "table.parquet", {"text": [f"text {number % 5}" for number in range(100)]})
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for _ in range(1_000):  # none of them may end the process, as some ask pyarrow's metadata to
        damaged = bytearray(content)
        damaged[4 + rng.integers(len(content) - 8)] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            for chunk in open_source(path, BOUNDS).chunks():
                chunk.batch.to_pylist()
        except DataFileError:
            n_refused += 1
    assert n_refused > 100


def test_rows_of_csv_have_an_end(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for content in ("a," * 3_000_000, '"a\n",' * 1_000_000, "a,b\n" + "1" * 5_000_000):
        path.write_text(content)
        with pytest.raises(DataFileError, match=r"longer than 4,194,304 characters|field larger than field limit"):
            sum(chunk.batch.num_rows for chunk in open_source(path).chunks())
