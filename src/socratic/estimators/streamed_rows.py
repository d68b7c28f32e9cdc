"""Rows to train on that stay in files: they come in batches, well mixed, and never all at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from socratic.errors import DataFileError
from socratic.learning.settings import Rows
from socratic.tables.columns import Table
from socratic.tables.inputs import known
from socratic.tables.training_files import TrainingFiles, UsedRows

_POOL_CELLS = 2**23
"""Cells of the rows that wait for their batch, among which rows are mixed."""
_POOL_BATCHES = 4
"""Batches that wait, at least."""


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Rows of files, encoded as they are read; a source to train on.

    Row groups are read in a random order, several of them in turn, and their rows wait in a pool from which batches
    are drawn. A row is thus as likely to meet any other of the same pool, which holds rows of many row groups; two rows
    of one row group are more likely to meet than others.

    Attributes
    ----------
    files : TrainingFiles
    table : Table
        How rows are encoded.
    class_numbers : mapping of str to int
        The number of each class, by its text.
    held_out : ndarray (M,)
        The numbers of rows that are left out, in ascending order.
    class_weight : ndarray (C,)
        What the others weigh, class by class.
    n_rows : int
        How many others there are.
    device : torch.device
        Where batches are wanted.
    """

    files: TrainingFiles
    table: Table
    class_numbers: Mapping[str, int]
    held_out: np.ndarray
    class_weight: np.ndarray
    n_rows: int
    device: torch.device

    def __len__(self) -> int:
        return self.n_rows

    def batches(self, batch_size: int, seed: int) -> Iterator[Rows]:
        """All rows once, so many at a time and the rest at the end, in an order that the seed alone decides."""
        rng = np.random.default_rng(seed)
        enough = max(_POOL_BATCHES * batch_size, _POOL_CELLS // len(self.table.columns))
        pool: list[Rows] = []
        n_waiting = 0
        for rows in self._encoded(self.files.read(rng)):
            pool.append(rows)
            n_waiting += len(rows)
            if n_waiting >= enough:
                mixed = _mixed(pool, rng)
                n_leaving = n_waiting // 2 // batch_size * batch_size
                for start in range(0, n_leaving, batch_size):
                    yield mixed.take(slice(start, start + batch_size)).to(self.device)
                pool, n_waiting = [mixed.take(slice(n_leaving, None)).clone()], n_waiting - n_leaving
        if n_waiting:
            mixed = _mixed(pool, rng)
            for start in range(0, n_waiting, batch_size):
                yield mixed.take(slice(start, start + batch_size)).to(self.device)

    def pieces(self, n_rows: int) -> Iterator[Rows]:
        """All rows once, at most so many at a time, in the order of the files."""
        for rows in self._encoded(self.files.read()):
            for piece in rows.pieces(n_rows):
                yield piece.to(self.device)

    def class_weights(self, n_classes: int) -> np.ndarray:
        """What the rows of each class weigh together: (C,)."""
        return np.pad(self.class_weight, (0, n_classes - len(self.class_weight)))

    def to(self, device: torch.device) -> StreamedRows:
        """The same rows, on another device."""
        return replace(self, device=device)

    def digest(self) -> bytes:
        """What tells these rows from others: the files, their encoding, and which rows are left out."""
        files = self.files
        digest = hashlib.blake2b(files.files.digest(), digest_size=16)
        said = [files.features, files.target, files.weight, dict(self.class_numbers), self.table.to_list()]
        digest.update(json.dumps(said).encode())
        digest.update(self.held_out.tobytes())
        return digest.digest()

    def _encoded(self, read: Iterator[UsedRows]) -> Iterator[Rows]:
        for used in read:
            start = used.piece.start
            low, high = np.searchsorted(self.held_out, [start, start + used.piece.batch.num_rows])
            kept = used
            if low < high:
                kept = used.take(np.flatnonzero(~np.isin(used.numbers, self.held_out[low:high])))
            if len(kept.places):
                yield self._encode(kept)

    def _encode(self, used: UsedRows) -> Rows:
        encoded = self.table.encode(self.files.raw(used))
        for name, (_, example) in encoded.unknown.items():
            column = next(column for column in self.table.columns if column.name == name)
            raise DataFileError(
                f"{used.piece.file.name}: column {name!r} has {column.family.name} leaves and takes "
                f"{column.family.domain}; got {example}"
            )
        return Rows(
            known(torch.as_tensor(encoded.codes, dtype=torch.float32)),
            torch.as_tensor(class_numbers_of(used, self.class_numbers)),
            torch.as_tensor(used.weight, dtype=torch.float32),
        )


def class_numbers_of(used: UsedRows, numbers: Mapping[str, int]) -> np.ndarray:
    """The number (n,) of each row's class."""
    by_value = np.array([numbers.get(text, -1) for text in used.labels.values], dtype=np.int64)
    return used.labels.map(by_value, -1)


def _mixed(pool: list[Rows], rng: np.random.Generator) -> Rows:
    rows = Rows.concatenate(pool)
    return rows.take(torch.as_tensor(rng.permutation(len(rows))))
