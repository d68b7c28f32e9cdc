"""Class labels that are read from files: whole numbers if all of them are, otherwise text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from socratic.errors import DataFileError

_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")


def label_values(texts: Sequence[str], n_rows: int, source: str) -> np.ndarray:
    """The labels (C,) that distinct texts stand for, after checks that they are classes.

    Parameters
    ----------
    texts : sequence of str
        Each of them once.
    n_rows : int
        Rows that hold one of them.
    source : str
        Where they are from, for messages.
    """
    if len(texts) == 1:
        raise DataFileError(f"{source} holds one class only ({texts[0]!r}); a classifier needs two")
    if len(texts) == n_rows and n_rows > 2:
        raise DataFileError(f"{source} has another value in each of its {n_rows} rows; classes must repeat")
    if all(_WHOLE.fullmatch(text) for text in texts):
        return np.array(texts).astype(np.int64)
    if all(_is_number(text) for text in texts):
        example = next(text for text in sorted(texts) if not _WHOLE.fullmatch(text))
        raise DataFileError(
            f"{source} holds numbers such as {example}, which are no classes; socratic predicts classes, so group them "
            "first"
        )
    return np.array(texts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
