"""Options that need more than a type: leaf families, doubts, and places to write to."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from socratic.cli.failures import UserError, close_names

# The class above UsageError: typer brings its own copy of click in some versions and shares it in others.
UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[2]

# Written out here: the modules that define them take seconds to import.
STRUCTURES = ("auto", "random", "spatial", "hidden-chow-liu", "learnspn", "chow-liu", "kernels", "forest")
IMAGE_STRUCTURES = ("spatial", "random")
LEARNED_STRUCTURES = ("learnspn", "chow-liu", "kernels", "forest")
DROPOUT = "dropout"
DOUBTS = ("weights", DROPOUT)


def parse_leaves(pairs: Sequence[str]) -> dict[str, str]:
    """Leaf families by column, from ``COLUMN=FAMILY``."""
    leaves: dict[str, str] = {}
    if not pairs:
        return leaves
    from socratic.families import FAMILIES

    for pair in pairs:
        name, equals, family = pair.rpartition("=")
        if not equals or not name:
            raise UserError(f"--leaf takes COLUMN=FAMILY, such as --leaf age=gaussian; got {pair!r}")
        if family not in FAMILIES:
            guess = close_names(family, FAMILIES)
            hint = f"; did you mean {guess[0]!r}?" if guess else ""
            raise UserError(f"--leaf {name}: the families are {', '.join(FAMILIES)}; got {family!r}{hint}")
        leaves[name] = family
    return leaves


def parse_leaf_variance(values: Sequence[str]) -> float | dict[str, float]:
    """One variance for all columns, or variances by column, from ``VARIANCE`` or ``COLUMN=VARIANCE``; 0 by default."""
    variances: dict[str, float] = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        try:
            variance = float(number)
        except ValueError:
            variance = math.nan
        if not 0.0 <= variance < math.inf or (equals and not name):
            raise UserError(
                "--leaf-variance takes a number of at least 0 or COLUMN=NUMBER, such as --leaf-variance age=0.1; got "
                f"{value!r}"
            )
        if not equals and len(values) > 1:
            raise UserError(f"--leaf-variance {value} is for all columns and must be given once; name the columns")
        if not equals:
            return variance
        variances[name] = variance
    return variances or 0.0


def parse_structure(value: str, structures: Sequence[str], **training: Any) -> str:
    """The name of a structure; raises if it is learned and one of the options ``training`` was given all the same."""
    if value not in structures:
        guess = close_names(value, structures)
        hint = f"; did you mean {guess[0]!r}?" if guess else ""
        raise UserError(f"--structure must be one of {', '.join(structures)}; got {value!r}{hint}")
    for option, given in training.items():
        if value in LEARNED_STRUCTURES and given is not None:
            raise UserError(f"--{option} is for circuits that are trained; --structure {value} learns in one go")
    return value


def parse_image_shape(value: str | None) -> tuple[int, ...] | None:
    """Height, width and, if given, channels from ``28x28`` or ``32x32x3``."""
    if value is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,6}(x[1-9]\d{0,6}){1,2}", value):
        raise UserError(f"--image-shape takes HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS, such as 28x28; got {value!r}")
    return tuple(int(side) for side in value.split("x"))


def parse_shard(value: str) -> tuple[int, int]:
    """Which part of how many, from ``I/N``."""
    found = re.fullmatch(r"([1-9]\d{0,8})/([1-9]\d{0,8})", value)
    if not found or int(found[1]) > int(found[2]):
        raise UserError(f"--shard takes I/N with I from 1 to N, such as 2/8; got {value!r}")
    return int(found[1]), int(found[2])


def parse_doubt(value: str) -> str:
    """What the uncertainty is about."""
    if value not in DOUBTS:
        raise UserError(f"--doubt must be one of {', '.join(DOUBTS)}; got {value!r}")
    return value


def parse_dropout(value: str, doubt: str) -> float | str:
    """A dropout rate, for that doubt only, or "auto"."""
    if value == "auto":
        return value
    try:
        rate = float(value)
    except ValueError:
        raise UserError(f"--dropout must be auto or a rate such as 0.1; got {value!r}") from None
    if doubt != DROPOUT:
        raise UserError(f"--dropout {value} is for --doubt {DROPOUT}; add that, or leave --dropout out")
    return check_share("--dropout", rate)


def check_share(option: str, value: float) -> float:
    """Return ``value`` unless it is no number in [0, 1)."""
    if not 0.0 <= value < 1.0:
        raise UserError(f"{option} must be at least 0 and below 1; got {value:g}")
    return value


def check_time_budget(value: float, structure: str) -> float:
    """Return ``value`` unless it is no number of seconds, or a structure was asked for that is not to be chosen."""
    if not 0.0 <= value < math.inf:
        raise UserError(f"--time-budget must be at least 0 seconds; got {value:g}")
    if value and structure != "auto":
        raise UserError(f"--time-budget is for --structure auto; got --structure {structure}")
    return value


def parse_risk_confidence(value: str) -> float | None:
    """A share of calibrations, or None for "mean", which keeps a risk on average over them."""
    if value == "mean":
        return None
    try:
        share = float(value)
    except ValueError:
        share = math.nan
    if not 0.0 < share < 1.0:
        raise UserError(f"--risk-confidence must be mean, or above 0 and below 1; got {value}")
    return share


def check_risk(value: float | None) -> float | None:
    """Return ``value`` unless it is no number between 0 and 1."""
    if value is not None and not 0.0 < value < 1.0:
        raise UserError(f"--risk must be above 0 and below 1; got {value:g}")
    return value


def check_writable(path: Path, *inputs: Path) -> None:
    """Raise unless a file can be written to ``path`` without losing one of the ``inputs``; costs nothing."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file to write to")
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: there is no folder {path.parent}; create it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UserError(f"cannot write to the folder {path.parent}: {error.strerror}; choose another one") from None
    for source in inputs:
        if path.exists() and source.exists() and os.path.samefile(path, source):
            raise UserError(f"{path} would overwrite the input {source}; choose another output")
