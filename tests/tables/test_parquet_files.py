"""Parquet files of the same columns, read a piece at a time."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from socratic.errors import DataFileError
from socratic.tables import parquet_files
from socratic.tables.parquet_files import ParquetFiles, StoredFile

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def stored(path: Path) -> StoredFile:
    stat = path.stat()
    return StoredFile(str(path), partial(pa.OSFile, str(path)), stat.st_size, stat.st_mtime_ns)


def write(folder: Path, *tables: dict[str, object], group: int = 10) -> ParquetFiles:
    paths = [folder / f"{number}.parquet" for number in range(len(tables))]
    for path, columns in zip(paths, tables, strict=True):
        parquet.write_table(pa.table(columns), path, row_group_size=group)
    return ParquetFiles([stored(path) for path in paths])


def ids_of(pieces: object) -> list[int]:
    return [number for piece in pieces for number in piece.batch.column("id").to_pylist()]  # type: ignore[attr-defined]


@pytest.fixture
def files(tmp_path: Path) -> ParquetFiles:
    """Three files, the second without rows, whose rows are numbered."""
    return write(tmp_path, {"id": range(25)}, {"id": pa.array([], pa.int64())}, {"id": range(25, 64)})


def test_rows_come_in_their_order_and_know_their_places(files: ParquetFiles) -> None:
    assert files.n_rows == 64
    assert len(files.groups) == 7
    assert ids_of(files.pieces(["id"])) == list(range(64))
    for piece in files.pieces(["id"]):
        assert piece.batch.column("id")[0].as_py() == piece.start
        assert piece.first == piece.start - (25 if piece.file.name.endswith("2.parquet") else 0)


def test_mixed_rows_come_once_each_in_an_order_that_the_seed_decides(files: ParquetFiles) -> None:
    orders = [ids_of(files.mixed(["id"], np.random.default_rng(seed))) for seed in (0, 0, 1)]
    assert all(Counter(order) == Counter(range(64)) for order in orders)
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != list(range(64))


def test_large_row_groups_are_read_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "_PIECE_ROWS", 4)
    files = write(tmp_path, {"id": range(40)}, {"id": range(40, 80)}, group=40)
    first_rows = ids_of(files.mixed(["id"], np.random.default_rng(0)))[:16]
    assert {number < 40 for number in first_rows} == {True, False}


def test_files_must_have_the_same_columns(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"1\.parquet has no column 'b', which .*0\.parquet has; write all files"):
        write(tmp_path, {"a": [1], "b": [1]}, {"a": [1]})
    with pytest.raises(DataFileError, match=r"0\.parquet has no column 'c', which .*1\.parquet has"):
        write(tmp_path, {"a": [1]}, {"a": [1], "c": [1]})


def test_columns_may_come_in_any_order_and_numbers_in_any_type(tmp_path: Path) -> None:
    tables = {"id": [1, 2], "t": ["a", "b"]}, {"t": [None, None], "id": [1.5, None]}
    files = write(tmp_path, *tables)
    assert files.kinds(["id", "t"]) == {"id": "number", "t": "text"}


def test_kinds_must_agree(tmp_path: Path) -> None:
    files = write(tmp_path, {"a": [1]}, {"a": ["x"]})
    with pytest.raises(
        DataFileError, match=r"column 'a' holds int64 in .*0\.parquet and string in .*1\.parquet; write"
    ):
        files.kinds(["a"])
    odd = write(tmp_path, {"a": [b"x"]})
    with pytest.raises(DataFileError, match=r"0\.parquet: column 'a' holds binary, which no leaf can hold"):
        odd.kinds(["a"])


def test_what_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_text("no table")
    with pytest.raises(DataFileError, match=r"rows\.parquet is damaged or no Parquet file"):
        ParquetFiles([stored(path)])


def test_files_that_change_are_noticed(files: ParquetFiles, tmp_path: Path) -> None:
    before = files.digest()
    parquet.write_table(pa.table({"id": range(99)}), tmp_path / "2.parquet")
    with pytest.raises(DataFileError, match=r"2\.parquet changed while it was read; start again"):
        ids_of(files.pieces(["id"]))
    assert ParquetFiles([stored(Path(file.name)) for file in files.files]).digest() != before
