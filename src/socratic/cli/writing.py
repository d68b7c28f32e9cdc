"""Tables that grow: columns added to the rows of another table, chunk by chunk."""

from __future__ import annotations

import csv
import gzip
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from socratic.cli.tabular import Chunk, import_pyarrow, suffix_of
from socratic.files import replacing


class Sink(ABC):
    """A table that is being written."""

    @abstractmethod
    def write(self, chunk: Chunk, added: Mapping[str, np.ndarray]) -> None:
        """Append the rows of a chunk, with some more columns."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""


@contextmanager
def open_sink(path: Path, numeric: frozenset[str]) -> Iterator[Sink]:
    """A table that appears at ``path`` when everything has been written, and not at all otherwise.

    Parameters
    ----------
    path : Path
        Its suffix says how the table is written.
    numeric : frozenset of str
        Columns that hold numbers, where the source does not say.
    """
    suffix = suffix_of(path)
    with replacing(path) as draft:
        sink = ParquetSink(draft, numeric) if suffix == ".parquet" else CsvSink(draft, suffix == ".csv.gz")
        try:
            yield sink
        finally:
            sink.close()


class CsvSink(Sink):
    """A CSV file; the cells of the source are written as they were."""

    def __init__(self, draft: Path, packed: bool) -> None:
        self._raw = draft.open("wb")
        # Without a name and a time, equal content gives equal bytes.
        self._packed = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if packed else None
        data: Any = self._packed or self._raw
        self._text = io.TextIOWrapper(data, encoding="utf-8", newline="")
        self._writer = csv.writer(self._text, lineterminator="\n")
        self._started = False

    def write(self, chunk: Chunk, added: Mapping[str, np.ndarray]) -> None:
        """Append the rows of a chunk, with some more columns."""
        if not self._started:
            self._writer.writerow([*chunk.names, *added])
            self._started = True
        columns = [chunk.cells(name) for name in chunk.names] + [_formatted(values) for values in added.values()]
        self._writer.writerows(zip(*columns, strict=True))

    def close(self) -> None:
        """Finish the file."""
        with self._raw:
            self._text.close()


class ParquetSink(Sink):
    """A Parquet file; its types are those of the first chunk."""

    def __init__(self, draft: Path, numeric: frozenset[str]) -> None:
        import_pyarrow()
        self._draft, self._numeric = draft, numeric
        self._writer: Any = None

    def write(self, chunk: Chunk, added: Mapping[str, np.ndarray]) -> None:
        """Append the rows of a chunk, with some more columns."""
        pa = import_pyarrow()
        from pyarrow import parquet

        batch = chunk.to_batch(self._numeric)
        for name, values in added.items():
            plain = pa.array(values.tolist() if values.dtype.kind in "OU" else values)
            batch = batch.append_column(name, plain)
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._draft, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()


def _formatted(values: np.ndarray) -> list[str]:
    if values.dtype.kind == "f":
        return [format(value, ".6g") for value in values.tolist()]
    return [str(value) for value in values.tolist()]
