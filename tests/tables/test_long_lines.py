"""CSV files that are small and unfold to much: rows are bounded, and so is the memory that they take."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from socratic.errors import DataFileError
from socratic.tables.reading import open_source

pytest.importorskip("pyarrow")
MIB = 1 << 20

READING = """
import resource, sys
from pathlib import Path
from socratic.tables.reading import open_source
from socratic.tables.batches import import_pyarrow
from pyarrow import csv

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    source = open_source(Path(sys.argv[1]))
    print(sum(chunk.batch.num_rows for chunk in source.chunks()))
except ValueError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def packed(path: Path, *parts: bytes, times: int = 1) -> Path:
    with gzip.open(path, "wb", 1) as file:
        file.write(parts[0])
        for _ in range(times):
            file.write(parts[1])
        for part in parts[2:]:
            file.write(part)
    return path


def read(path: Path) -> tuple[str, int]:
    """What another process found, and the MiB that it took."""
    done = subprocess.run([sys.executable, "-c", READING, str(path)], capture_output=True, text=True, check=True)
    found, memory = done.stdout.splitlines()
    return found, int(memory)


@pytest.mark.parametrize("header", [b"", b"a,b\n1,2\n"])
def test_a_line_is_bounded(tmp_path: Path, header: bytes) -> None:
    path = packed(tmp_path / "long.csv.gz", header, b"x" * MIB, times=300)
    found, memory = read(path)
    line = 3 if header else 1
    assert found == (
        f"{path}, line {line} is longer than 4,194,304 characters, and no row may be; "
        "check the line breaks and quotes there"
    )
    assert memory < 120, memory


@pytest.mark.parametrize("header", [b"", b"a,b\n1,2\n"])
def test_a_row_of_many_lines_is_bounded(tmp_path: Path, header: bytes) -> None:
    lines = b'"' + b"\n" * 1000 + b'",'
    path = packed(tmp_path / "long.csv.gz", header, lines, times=100_000)
    found, memory = read(path)
    assert found.startswith(f"{path}, line 41")
    assert "ends a row that is longer than 4,194,304 characters" in found
    assert memory < 250, memory


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "rows"), [(b"1,2\n" * (MIB // 4), MIB // 4), (b"\n" * MIB, 0), (b",\n" * MIB, MIB)])
def test_many_short_lines_stream(tmp_path: Path, lines: bytes, rows: int) -> None:
    path = packed(tmp_path / "many.csv.gz", b"a,b\n1,2\n", lines, times=100)
    assert path.stat().st_size < 2 * MIB
    found, memory = read(path)
    assert int(found) == 1 + 100 * rows
    assert memory < 300, memory


def test_rows_up_to_the_bound_are_read(tmp_path: Path) -> None:
    long = "x" * (4 * MIB - 100)
    path = tmp_path / "long.csv"
    path.write_text(f"a,b\n1,{long}\n2,y\n")
    assert [row["b"] for chunk in open_source(path).chunks() for row in chunk.batch.to_pylist()] == [long, "y"]
    path.write_text(f"a,b\n1,{long * 4}\n2,y\n")
    with pytest.raises(DataFileError, match=r"long.csv, line 2 is longer than 4,194,304 characters"):
        list(open_source(path).chunks())
