"""Cells as values: numbers, booleans and text, by rules that look at one cell at a time.

What a cell means never depends on its neighbours, so a table read in pieces means the same as one read at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from socratic.cli.failures import UserError

Kind = Literal["number", "boolean", "text"]

_NO_NUMBER = {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "NaN", "nan"}
_NO_VALUE = {"", "<NA>", "N/A", "NA", "NULL", "None", "n/a", "null"}
MISSING = frozenset(_NO_NUMBER | _NO_VALUE)
"""Cells that hold nothing: those that pandas takes as missing."""

_BOOLEANS = {"true": True, "false": False}
_WHOLE = re.compile(r"(-?\d+)\.0+")


def is_missing(cell: str | None) -> bool:
    """Whether a cell holds nothing."""
    return cell is None or cell in MISSING or cell.strip() in MISSING


def parse_numbers(cells: Sequence[str | None], name: str, start: int) -> np.ndarray:
    """Numbers (N,), NaN where missing; the first cell that is none is named by its row, counted from ``start``."""
    try:
        numbers = np.array([math.nan if cell is None or cell in MISSING else float(cell) for cell in cells])
    except ValueError:
        numbers = np.array([_number(cell, name, start + row) for row, cell in enumerate(cells)])
    return check_finite(numbers, name, start)


def check_finite(numbers: np.ndarray, name: str, start: int) -> np.ndarray:
    """Return the numbers unless one is infinite."""
    if np.isinf(numbers).any():
        row = start + int(np.flatnonzero(np.isinf(numbers))[0]) + 1
        raise UserError(f"row {row}, column {name!r} holds an infinite number; correct it or leave it empty")
    return numbers


def parse_texts(cells: Iterable[str | None]) -> np.ndarray:
    """Text (N,) without blanks around it, None where missing; "1.0" is written "1"."""
    cells = list(cells)
    plain = {cell: None if is_missing(cell) else plain_text(cell) for cell in set(cells) if cell is not None}
    texts = np.empty(len(cells), dtype=object)
    texts[:] = [None if cell is None else plain[cell] for cell in cells]
    return texts


def plain_text(value: Any) -> str:
    """Text that equal values share, whether they come from text or numbers."""
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def as_booleans(texts: np.ndarray) -> np.ndarray:
    """Booleans and None (N,) from texts that are true or false in any case."""
    booleans = np.empty(len(texts), dtype=object)
    booleans[:] = [None if text is None else _BOOLEANS[text.lower()] for text in texts]
    return booleans


def first_missing(values: np.ndarray) -> tuple[int, int]:
    """How many values are None, and the place of the first."""
    places = [place for place, value in enumerate(values.tolist()) if value is None]
    return len(places), places[0] if places else -1


class Categories:
    """The known values of a column, found by their text.

    Parameters
    ----------
    known : iterable
        Text, booleans or numbers.
    """

    def __init__(self, known: Iterable[Any]) -> None:
        self._known: dict[str, Any] = {}
        for value in known:
            self._known[str(value)] = self._known[plain_text(value)] = value
            if isinstance(value, (bool, np.bool_)):
                self._known |= {str(value).lower(): value, str(value).upper(): value, str(int(value)): value}

    def match(self, texts: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """The known value of each text (None if missing or unknown), and the unknown texts."""
        found = {text: self._find(text) for text in set(texts.tolist()) if text is not None}
        values = np.empty(len(texts), dtype=object)
        values[:] = [None if text is None else found[text] for text in texts]
        return values, [text for text in texts.tolist() if text is not None and found[text] is None]

    def _find(self, text: str) -> Any:
        if text in self._known:
            return self._known[text]
        try:
            return self._known.get(plain_text(float(text)))
        except ValueError:
            return None


@dataclass
class Tally:
    """What has been seen of a column: how many cells of each kind, and the first that is no number."""

    n_numbers: int = 0
    n_booleans: int = 0
    n_texts: int = 0
    stray: tuple[int, str] | None = None

    def add(self, cells: Sequence[str], start: int) -> None:
        """Look at some more cells, of which ``start`` came before."""
        try:
            self.n_numbers += sum(1 for cell in cells if cell not in MISSING and not math.isnan(float(cell)))
            return
        except ValueError:
            pass
        for row, cell in enumerate(cells):
            if is_missing(cell):
                continue
            try:
                float(cell)
                self.n_numbers += 1
            except ValueError:
                known = cell.strip().lower() in _BOOLEANS
                self.n_booleans, self.n_texts = self.n_booleans + known, self.n_texts + (not known)
                self.stray = self.stray or (start + row + 1, cell)

    def kind(self, name: str) -> Kind:
        """The kind of the column; a stray text among numbers is more likely a mistake than a category."""
        others = self.n_booleans + self.n_texts
        if not others:
            return "number"
        if self.stray is not None and self.n_numbers > others:
            row, cell = self.stray
            raise UserError(
                f"row {row}, column {name!r} holds {shorten(cell)}, which is no number{_comma_hint(cell)}; correct "
                f"it, or take the column as categories with --leaf {name}=categorical"
            )
        return "boolean" if not self.n_texts and not self.n_numbers else "text"


def shorten(cell: str) -> str:
    """A cell as it is shown in a message."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def _number(cell: str | None, name: str, row: int) -> float:
    if cell is None or is_missing(cell):
        return math.nan
    try:
        return float(cell)
    except ValueError:
        raise UserError(
            f"row {row + 1}, column {name!r} must hold a number; got {shorten(cell)}{_comma_hint(cell)}; "
            "correct it or leave it empty"
        ) from None


def _comma_hint(cell: str) -> str:
    return " (write decimals with a point)" if re.fullmatch(r"\s*-?\d+,\d+\s*", cell) else ""
