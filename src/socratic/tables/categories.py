"""Known values of a column, found by what they are called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from socratic.tables.cells import plain_text


class Categories:
    """The known values of a column, by their place.

    A value is found by its text; where that is unknown, by the number it stands for. Booleans are found in any case
    and as 0 and 1.

    Parameters
    ----------
    known : iterable
        Text, booleans or numbers, in the order of their codes.
    """

    def __init__(self, known: Iterable[Any]) -> None:
        self._codes: dict[str, int] = {}
        known = list(known)
        for code, value in enumerate(known):
            for name in _names(value):
                self._codes.setdefault(name, code)
        for code, value in enumerate(known):
            self._codes[str(value)] = code

    def find(self, value: Any) -> int:
        """The place of a value, -1 if it is unknown."""
        name = str(value)
        code = self._codes.get(name, -1)
        if code < 0:
            code = self._codes.get(plain_text(name), -1)
        if code < 0:
            try:
                code = self._codes.get(plain_text(float(name)), -1)
            except ValueError:
                return -1
        return code

    def find_all(self, values: Iterable[Any]) -> np.ndarray:
        """The places of some values: (N,)."""
        return np.array([self.find(value) for value in values], dtype=np.int64)


def _names(value: Any) -> list[str]:
    name = str(value)
    others = [name.lower(), name.upper(), str(int(value))] if isinstance(value, bool | np.bool_) else []
    return [plain_text(value), *others]
