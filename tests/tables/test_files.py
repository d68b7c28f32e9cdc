"""Tables in files, read and written."""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
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


RUN = tuple("=+-@＝＋－＠")  # noqa: RUF001
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
HOSTILE = ["=1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "＝1", "\t=1", "\r=1", "\n=1"]  # noqa: RUF001


def run_by_a_spreadsheet(content: str, separator: str) -> list[str]:
    """The cells that would be run, where cells are separated like this."""
    cells = [cell for row in csv.reader(io.StringIO(content, newline=""), delimiter=separator) for cell in row]
    return [cell for cell in cells if cell.startswith(RUN) and not NUMBER.fullmatch(cell)]


def harmless_file(path: Path, rows: list[list[str]]) -> str:
    names = [f"c{place}" for place in range(len(rows[0]))]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    with open_sink(path, frozenset(), harmless=True) as sink:
        sink.write(pa.record_batch(columns, names=names), pa.record_batch({"p_value": [0.5] * len(rows)}))
    return path.read_bytes().decode()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("before", ["", "x;", 'x;"', "x; ", "1;2;", "x\n", 'a,"b";', "x\t", ",;"])
def test_no_separator_makes_a_formula_of_a_part_of_a_cell(tmp_path: Path, separator: str, before: str) -> None:
    cells = [before + formula + after for formula in HOSTILE for after in ("", ";y", '"', ";=2")]
    content = harmless_file(tmp_path / "out.csv", [["first", cell, "last"] for cell in cells])
    assert run_by_a_spreadsheet(content, separator) == []


def test_harmless_cells_of_any_characters(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = [["".join(rng.choices(';=-1"\n,\t x', k=6)) for _ in range(3)] for _ in range(3_000)]
    content = harmless_file(tmp_path / "out.csv", rows)
    for separator in ",;\t":
        assert run_by_a_spreadsheet(content, separator) == []


def test_numbers_between_semicolons_stay(tmp_path: Path) -> None:
    content = harmless_file(tmp_path / "out.csv", [["48.1;-11.5;9", "-3", "1;-2e-3;+4;-5", "a;b"]])
    # The last one would go on with the next cell, whatever that holds.
    assert content.splitlines()[1] == "48.1;-11.5;9,-3,1;-2e-3;+4;'-5,a;b,0.5"
