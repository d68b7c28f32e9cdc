from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from socratic.errors import DataFileError
from socratic.tables.names import repeated
from socratic.tables.parquet_files import ParquetFiles, StoredFile
from socratic.tables.raw import raw_table
from socratic.tables.reading import open_source


class Name(str):
    """A name that counts how often names are compared."""

    n_compared = 0

    def __eq__(self, other: object) -> bool:
        Name.n_compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_first_name_that_is_repeated() -> None:
    assert repeated([]) is None
    assert repeated(["a", "b"]) is None
    assert repeated(["a", "b", "b", "a"]) == "b"


def test_each_name_is_looked_at_once() -> None:
    Name.n_compared = 0
    assert repeated([Name(place) for place in [*range(60_000), 59_999]]) == "59999"
    assert Name.n_compared < 1_000


def test_all_readers_name_it(tmp_path: Path) -> None:
    names = [*(f"x{place}" for place in range(60_000)), "x59999"]
    (tmp_path / "table.csv").write_text(",".join(names))
    with pytest.raises(DataFileError, match="has more than one column 'x59999'; rename one of them"):
        open_source(tmp_path / "table.csv")
    with pytest.raises(ValueError, match="column names must be unique; 'x59999' occurs more than once"):
        raw_table(pd.DataFrame(np.zeros((1, len(names))), columns=names))
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "table.parquet"
    parquet.write_table(pa.Table.from_arrays([pa.array([0.0])] * 3, names=["a", "b", "b"]), path)
    with pytest.raises(DataFileError, match="has more than one column 'b'; rename one of them"):
        open_source(path)
    with pytest.raises(DataFileError, match="has more than one column 'b'; rename one of them"):
        ParquetFiles([StoredFile("table", lambda: path.open("rb"), path.stat().st_size, 0)])
