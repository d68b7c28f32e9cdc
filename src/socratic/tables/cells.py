"""What a cell of a text file means, by rules that look at one cell at a time.

What a cell means never depends on its neighbours, so a table read in pieces means the same as one read at once.
"""

from __future__ import annotations

import math
import re
from typing import Any

_NO_NUMBER = {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "NaN", "nan"}
_NO_VALUE = {"", "<NA>", "N/A", "NA", "NULL", "None", "n/a", "null"}
MISSING = frozenset(_NO_NUMBER | _NO_VALUE)
"""Cells that hold nothing: those that pandas takes as missing."""

BOOLEANS = {"true": True, "false": False}
_WHOLE = re.compile(r"(-?\d+)\.0+")
_SHOWN = 40


def is_missing(cell: str | None) -> bool:
    """Whether a cell holds nothing."""
    return cell is None or cell in MISSING or cell.strip() in MISSING


def number(cell: str | None) -> float:
    """The number in a cell, NaN if it holds nothing; raises ``ValueError`` if it holds something else."""
    return math.nan if cell is None or is_missing(cell) else float(cell)


def text(cell: str | None) -> str | None:
    """The text in a cell, None if it holds nothing."""
    return None if cell is None or is_missing(cell) else plain_text(cell)


def plain_text(value: Any) -> str:
    """Text that equal values share, whether they come from text or numbers: "1.0" is written "1"."""
    stripped = str(value).strip()
    whole = _WHOLE.fullmatch(stripped)
    return whole[1] if whole else stripped


def shorten(value: Any) -> str:
    """A cell or value as it is shown in a message."""
    if isinstance(value, str) and len(value) > _SHOWN:
        value = value[: _SHOWN - 3] + "..."
    return repr(value)


def comma_hint(cell: str) -> str:
    """What to say of a cell that would be a number with a decimal point."""
    return " (write decimals with a point)" if re.fullmatch(r"\s*-?\d+,\d+\s*", cell) else ""
