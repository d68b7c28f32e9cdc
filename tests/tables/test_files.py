"""Tables in files, read and written."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from socratic.errors import DataFileError
from socratic.tables import reading, writing
from socratic.tables.reading import open_source
from socratic.tables.writing import open_sink

pa = pytest.importorskip("pyarrow")

CELLS = [
    ["plain", "1.50", " blank ", "007"],
    ["with, comma", "", "NA", 'a "quote"'],
    ["two\nlines", "ü", '""', ","],
    ["carriage\r\nreturn", "5'10\"", "x", "\t"],
]


def written(rows: list[list[str]], **options: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", **options).writerows([["a", "b", "c", "d"], *rows])
    return text.getvalue()


def read(path: Path) -> list[list[str]]:
    rows: list[list[str]] = []
    for chunk in open_source(path).chunks():
        assert chunk.start == len(rows)
        rows += [list(row.values()) for row in chunk.batch.to_pylist()]
    return rows


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("chunk_rows", [1, 3, 1000])
def test_cells_come_and_go_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, quoting: int, chunk_rows: int
) -> None:
    monkeypatch.setattr(reading, "CHUNK_ROWS", chunk_rows)
    content = written(CELLS * 5, quoting=quoting).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    source = open_source(tmp_path / name)
    assert [list(row.values()) for chunk in source.chunks() for row in chunk.batch.to_pylist()] == CELLS * 5
    extra = pa.record_batch({"n": [0.123456789], "text": ["x,y"]})
    with open_sink(tmp_path / "out.csv", frozenset()) as sink:
        for chunk in source.chunks():
            sink.write(chunk.batch, pa.concat_batches([extra] * chunk.batch.num_rows))
    expected = [[*row, "0.123457", "x,y"] for row in CELLS * 5]
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["a", "b", "c", "d", "n", "text"], *expected]
    # Quotes stand only where they have to.
    first = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1]
    assert first == 'plain,1.50, blank ,007,0.123457,"x,y"'


@pytest.mark.parametrize("content", ["\n\na,b\n\n1,2\n", "\ufeffa,b\r\n1,2\r\n", "a,b\r1,2\r", ' a ," b"\n1,2'])
def test_ways_to_write_a_table(tmp_path: Path, content: str) -> None:
    (tmp_path / "data.csv").write_bytes(content.encode())
    assert open_source(tmp_path / "data.csv").names == ["a", "b"]
    assert read(tmp_path / "data.csv") == [["1", "2"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'a,b\n1,"2\n3,4\n', "after line 1: unexpected end of data; check the quotes there"),
        (b'a,b\n1,"2"x\n3,4\n', "after line 1: ',' expected after '\"'; check the quotes there"),
        (b"a,b\n1,2\n3\n", "line 3 has 1 fields where the header has 2"),
        (b"a,b\n1,2\n" * 1000 + b"3\n", "line 2001 has 1 fields"),
        (b"a,b\n1,\xfc\n", r"is not UTF-8 text \(near line 1\)"),
        (b"a,b\n\n", "holds a header but no rows"),
        (b"a,b", "holds a header but no rows"),
    ],
)
def test_damage_is_named_by_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "data.csv").write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        read(tmp_path / "data.csv")


def test_rows_longer_than_a_block_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 64)
    (tmp_path / "data.csv").write_bytes(b"a,b\n" + b"1,2\n" * 30 + b"1," + b"x" * 500 + b"\n")
    with pytest.raises(DataFileError, match="line 32 is longer than 64 characters, and no row may be"):
        read(tmp_path / "data.csv")


def test_parquet_keeps_types_and_metadata(tmp_path: Path) -> None:
    from pyarrow import parquet

    table = pa.table({"n": [1, None, 3], "t": pa.array(["x", None, "z"]).dictionary_encode(), "f": [0.1, 2.0, None]})
    parquet.write_table(table.replace_schema_metadata({"made": "here"}), tmp_path / "data.parquet")
    source = open_source(tmp_path / "data.parquet")
    added = pa.record_batch({"p": [0.25, 0.5, 0.75]})
    for name in ("out.parquet", "out.csv"):
        with open_sink(tmp_path / name, frozenset({"n"})) as sink:
            for chunk in source.chunks():
                sink.write(chunk.batch, added)
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.drop(["p"]).equals(table)
    assert found.schema.metadata[b"made"] == b"here"
    assert (tmp_path / "out.csv").read_text() == "n,t,f,p\n1,x,0.1,0.25\n,,2.0,0.5\n3,z,,0.75\n"


def test_small_batches_become_large_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import parquet

    monkeypatch.setattr(writing, "_GROUP_ROWS", 10)
    with open_sink(tmp_path / "out.parquet", frozenset()) as sink:
        for start in range(0, 28, 4):
            sink.write(pa.record_batch({"n": range(start, start + 4)}), pa.record_batch({"more": [0.5] * 4}))
    file = parquet.ParquetFile(tmp_path / "out.parquet")
    assert [file.metadata.row_group(place).num_rows for place in range(3)] == [12, 12, 4]
    assert file.read().column("n").to_pylist() == list(range(28))
