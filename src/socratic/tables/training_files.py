"""Files to train on: what their columns are for, which rows count, and what all of these rows hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from socratic.errors import DataFileError
from socratic.tables.batches import Kind, numbers, texts, weights
from socratic.tables.parquet_files import ParquetFiles, Piece
from socratic.tables.raw import Coded, RawTable

_INDEX = re.compile(r"__index_level_\d+__")
"""Where Parquet files of pandas keep its row index."""


class UsedRows(NamedTuple):
    """Rows that count: they have a class, if there is a target, and a positive weight."""

    piece: Piece
    """What they were read with, and perhaps others."""
    places: np.ndarray
    """Where each is among these: (n,)."""
    labels: Coded
    """The text of each row's class; nothing without a target."""
    weight: np.ndarray
    """(n,), each positive."""

    @property
    def numbers(self) -> np.ndarray:
        """The number (n,) of each row, counted from the first one of all files."""
        return self.piece.start + self.places

    def take(self, some: np.ndarray) -> UsedRows:
        """Some of the rows."""
        return UsedRows(self.piece, self.places[some], self.labels.take(some), self.weight[some])


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How many rows count, of each class by its text, and how many were left out for want of a class."""

    by_text: dict[str, int]
    n_dropped: int


@dataclass(frozen=True, eq=False)
class TrainingFiles:
    """Parquet files, and what their columns are for.

    Attributes
    ----------
    files : ParquetFiles
    source : str
        Where these are, for messages.
    features : tuple of str
        Columns to learn from.
    kinds : dict
        What each of these holds.
    target, weight : str or None
        The columns with the classes, and with the weights of rows.
    drop_missing_target : bool
        Whether rows without a class are left out, or are an error.
    """

    files: ParquetFiles
    source: str
    features: tuple[str, ...]
    kinds: dict[str, Kind]
    target: str | None = None
    weight: str | None = None
    drop_missing_target: bool = False

    @classmethod
    def of(
        cls,
        files: ParquetFiles,
        source: str,
        *,
        target: str | None,
        weight: str | None,
        drop: Sequence[str],
        asked: dict[str, Kind],
        drop_missing_target: bool,
    ) -> TrainingFiles:
        """What to learn from files: all columns but the target, the weight and those to ``drop``.

        ``asked`` says what columns hold whatever their type; all of these must be features.
        """
        apart = [name for name in (target, weight) if name is not None]
        for name in (*apart, *drop, *asked):
            if name not in files.names:
                shown = ", ".join(map(repr, files.names[:8])) + (", ..." if len(files.names) > 8 else "")
                raise DataFileError(f"{files.files[0].name} has no column {name!r}; it has {shown}")
        if target is not None and (target == weight or target in drop):
            raise DataFileError(f"the target {target!r} cannot be dropped or be the weight as well")
        features = [name for name in files.names if name not in {*apart, *drop} and not _INDEX.fullmatch(name)]
        for name in asked:
            if name not in features:
                raise DataFileError(f"column {name!r} is not a feature (it is the target, the weight, or dropped)")
        if not features:
            raise DataFileError(f"{files.files[0].name} has no column left to learn from; it needs one more")
        kinds = files.kinds([name for name in features if name not in asked]) | asked
        return cls(files, source, tuple(features), kinds, target, weight, drop_missing_target)

    def count(self) -> ClassCounts:
        """Count the rows of each class, by one look at the target and the weights alone.

        Raises
        ------
        DataFileError
            If rows lack a class, and are not to be left out; if weights are no weights.
        """
        if self.target is None and self.weight is None:
            return ClassCounts({"": self.files.n_rows}, 0)
        by_text: Counter[str] = Counter()
        n_dropped, first = 0, None
        for piece in self.files.pieces(self._apart):
            used = self.used(piece)
            counts = np.bincount(used.labels.codes, minlength=len(used.labels.values))
            by_text.update(dict(zip(used.labels.values, counts.tolist(), strict=True)))
            if self.target is not None:
                missing = np.flatnonzero(texts(piece.batch.column(self.target)).codes < 0)
                n_dropped += len(missing)
                if len(missing) and first is None:
                    first = f"{piece.file.name}, row {piece.first + int(missing[0]) + 1}"
        if n_dropped and not self.drop_missing_target:
            raise DataFileError(
                f"the target {self.target!r} is missing in {n_dropped:,} row{'s' if n_dropped > 1 else ''}, first in "
                f"{first}; fill them in, or leave them out with drop_missing_target (--drop-missing-target)"
            )
        return ClassCounts({text: count for text, count in by_text.items() if count}, n_dropped)

    def read(self, rng: np.random.Generator | None = None) -> Iterator[UsedRows]:
        """All rows that count, in their order, or mixed as ``rng`` has it."""
        names = [*self.features, *self._apart]
        for piece in self.files.pieces(names) if rng is None else self.files.mixed(names, rng):
            yield self.used(piece)

    def used(self, piece: Piece) -> UsedRows:
        """The rows of a piece that count."""
        labels = Coded(np.zeros(piece.batch.num_rows, dtype=np.int64), ("",))
        weight = np.ones(piece.batch.num_rows)
        with piece.named():
            if self.target is not None:
                labels = texts(piece.batch.column(self.target))
            if self.weight is not None:
                weight = weights(piece.batch.column(self.weight), self.weight, piece.first)
        places = np.flatnonzero((labels.codes >= 0) & (weight > 0.0))
        return UsedRows(piece, places, Coded(labels.codes[places], labels.values), weight[places])

    def raw(self, rows: UsedRows) -> RawTable:
        """The features of some rows."""
        with rows.piece.named():
            values = tuple(self._values(rows, name) for name in self.features)
        return RawTable(self.features, values, len(rows.places))

    def _values(self, rows: UsedRows, name: str) -> np.ndarray | Coded:
        array = rows.piece.batch.column(name)
        if self.kinds[name] == "number":
            return numbers(array, name, rows.piece.first)[rows.places]
        if self.kinds[name] == "text":
            found = texts(array)
            return Coded(found.codes[rows.places], found.values)
        codes = array.cast("int8").fill_null(-1).to_numpy(zero_copy_only=False)[rows.places]
        return Coded(codes.astype(np.int64), (False, True))

    @property
    def _apart(self) -> list[str]:
        """Columns that are no features, and are read."""
        return [name for name in (self.target, self.weight) if name is not None]
