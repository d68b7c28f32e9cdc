"""Columns that have no part in a model: those that only tell rows apart, and dates."""

from __future__ import annotations

import datetime
import re
from typing import Any

import numpy as np

from socratic.tables.raw import Coded

_FEWEST_ROWS = 20
"""Of fewer rows, all may be different by chance."""
_TELLS_APART = 0.5
"""Share of different texts among the rows from which on they are names rather than categories."""
_ID = re.compile(r"(.*[_\s-])?(id|uuid|guid)|.*[a-z]I[dD]", re.ASCII)


def why_left_out(name: str, values: np.ndarray | Coded) -> str | None:
    """Why a column of training rows has no part in the model, None if it has one."""
    if isinstance(values, Coded):
        n_rows = int((values.codes >= 0).sum())
        if values.values and all(map(_is_date, values.values)):
            return "dates: convert them to numbers, such as days since the first, to have them count"
        tells_apart = len(values.values) > _TELLS_APART * n_rows
        n_values = len(values.values)
    else:
        seen = values[~np.isnan(values)]
        n_rows, n_values = len(seen), len(np.unique(seen))
        tells_apart = n_values == n_rows and _ID.fullmatch(name) is not None and bool((seen == np.round(seen)).all())
    if n_rows < _FEWEST_ROWS or not tells_apart:
        return None
    return f"tells rows apart: {n_values:,} different values in {n_rows:,} rows"


def _is_date(value: Any) -> bool:
    """Whether a value is a date or a moment, or text that says one as 2026-01-31 does."""
    if isinstance(value, datetime.date | np.datetime64) or type(value).__name__ == "Period":
        return True
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d?-\d\d?", value):
        return False
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
