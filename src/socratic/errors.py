"""Errors, and the checks that raise them: each names the argument, what was found and what is expected."""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

__all__ = [
    "DataFileError",
    "MissingExtraError",
    "ModelFileError",
    "check_choice",
    "check_count",
    "check_number",
    "check_place",
    "check_rate",
    "import_extra",
    "printable",
]


class ModelFileError(ValueError):
    """A model file that cannot be read: damaged, foreign, or of another format version."""


class CalibrationWarning(UserWarning):
    """A ``rejection_rate`` that cannot be kept, or that a guard keeps only by leaving a score out."""


class DataFileError(ValueError):
    """A data file that cannot be read: damaged, foreign, or not holding what was asked for."""


class MissingExtraError(ImportError):
    """A package that only some things need is not installed; the message says how to install it."""


_PACKAGES = {"PIL": "Pillow"}
"""Packages that are installed by another name than they are imported by."""


def import_extra(module: str, extra: str, what: str, distribution: str = "socratic-circuits") -> Any:
    """The module of a package that comes with an extra.

    Parameters
    ----------
    module : str
        What to import.
    extra : str
        The extra that brings it.
    what : str
        What needs it, for the message.
    distribution : str
        Whose extra it is.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = _PACKAGES.get(module.partition(".")[0], module.partition(".")[0])
        raise MissingExtraError(
            f'{what} needs {package}; install it with: pip install "{distribution}[{extra}]"', name=package
        ) from error


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    """Raise unless ``value`` is one of the names in ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        options = ", ".join(repr(option) for option in allowed)
        raise ValueError(f"{name} must be one of {options}; got {value!r}")


def check_rate(name: str, value: Any) -> float:
    """Return ``value`` as a float, raising unless it lies in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < 1.0:
        raise ValueError(f"{name} must be a number in [0, 1); got {value!r}")
    return float(value)


def check_number(name: str, value: Any, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """Return ``value`` as a float, raising unless it is a finite number from ``minimum`` to ``maximum``."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and minimum <= number <= maximum:
            return number
    bounds = "" if minimum == -math.inf else f" of at least {minimum:.3g}"
    bounds = bounds if maximum == math.inf else f" between {minimum:.3g} and {maximum:.3g}"
    hint = "; .tolist() makes it plain" if hasattr(value, "tolist") and not isinstance(value, Real) else ""
    raise ValueError(f"{name} must be a finite number{bounds}; got {value!r}{hint}")


def check_count(name: str, value: Any, minimum: int = 1) -> int:
    """Return ``value`` as an int, raising unless it is a whole number of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}; got {value!r}")
    return int(value)


def check_place(name: str, value: Any, size: int) -> int:
    """Return ``value`` as an int, raising unless it is the place of one of ``size`` things, counted from 0."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < size:
        raise ValueError(f"{name} must be a whole number from 0 to {size - 1}; got {value!r}")
    return int(value)


def printable(text: str) -> str:
    """A text of one line: line breaks, undecodable bytes and the like stand there as in Python's strings."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )
