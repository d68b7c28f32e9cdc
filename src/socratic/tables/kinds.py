"""What columns of text files hold: numbers, booleans or text, decided by all of their cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from socratic.errors import DataFileError
from socratic.tables import cells
from socratic.tables.batches import Kind, import_pyarrow, without_missing


@dataclass
class Tally:
    """What has been seen of a column: how many cells of each kind, and the first that is no number."""

    n_numbers: int = 0
    n_booleans: int = 0
    n_texts: int = 0
    stray: tuple[int, str] | None = None

    def add(self, array: Any, start: int) -> None:
        """Look at some more cells (N,), of which ``start`` came before."""
        pa = import_pyarrow()
        known = without_missing(array)
        try:
            found = known.cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            self._add_one_by_one(known, start)
        else:
            self.n_numbers += int((~np.isnan(found)).sum())

    def _add_one_by_one(self, known: Any, start: int) -> None:
        for counted in known.value_counts().to_pylist():
            cell, count = counted["values"], counted["counts"]
            try:
                self.n_numbers += 0 if math.isnan(cells.number(cell)) else count
            except ValueError:
                is_boolean = cell.strip().lower() in cells.BOOLEANS
                self.n_booleans += count if is_boolean else 0
                self.n_texts += 0 if is_boolean else count
                # Values are counted in the order in which they come.
                self.stray = self.stray or (start + known.index(cell).as_py() + 1, cell)

    def kind(self, name: str) -> Kind:
        """The kind of the column; a stray text among numbers is more likely a mistake than a category."""
        others = self.n_booleans + self.n_texts
        if not others:
            return "number"
        if self.stray is not None and self.n_numbers > others:
            row, cell = self.stray
            raise DataFileError(
                f"row {row}, column {name!r} holds {cells.shorten(cell)}, which is no number"
                f"{cells.comma_hint(cell)}; correct it, or take the column as categories with --leaf "
                f"{name}=categorical"
            )
        return "boolean" if not self.n_texts and not self.n_numbers else "text"
