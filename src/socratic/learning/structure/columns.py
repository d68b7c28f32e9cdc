"""Tables of numbers and the leaf family of each column, checked once for all structure learners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from socratic.families import Family, as_family

_LARGEST = 1e150
"""Larger values would have variances beyond what float64 holds."""

_TAIL = 0.01


def check_table(x: Any, families: Families) -> tuple[np.ndarray, tuple[Family, ...]]:
    """Rows as float64 (N, V), NaN where missing, and one family for each column.

    Raises a ValueError that names the first column whose values its family does not take.
    """
    table = np.require(x, np.float64, "W")  # a data frame's array may be read-only, which torch warns of
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"x must have two dimensions and at least one row and one column; got shape {table.shape}")
    if isinstance(families, str | Family):
        families = [families] * table.shape[1]
    if not isinstance(families, Iterable):
        raise ValueError(f"families must be a family, the name of one, or one for each column; got {families!r}")
    known = tuple(as_family(family, "families") for family in families)
    if len(known) != table.shape[1]:
        raise ValueError(f"families must name one family for each of the {table.shape[1]} columns; got {len(known)}")
    too_large = (np.abs(table) > _LARGEST).any(0)  # infinity too; NaN compares false
    if too_large.any():
        column = int(np.argmax(too_large))
        raise ValueError(f"column {column} must lie within {_LARGEST:g} of 0: rescale it; mark missing values by NaN")
    for column, family in enumerate(known):
        wrong = family.invalid(torch.from_numpy(table[:, column])).numpy()
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"column {column} is {family.name} and takes {family.domain}; got {table[row, column]} in row {row}"
            )
    return table, known


def n_categories(family: Family) -> int | None:
    """Number of values of a column without order (Bernoulli, categorical); None for numbers and counts."""
    return family.n_values if family.unordered else None


def all_categories(families: Sequence[Family], learner: str, instead: str = "learn_spn") -> tuple[int, ...]:
    """Number of categories of each column, raising unless every column has them; ``instead`` is what takes others."""
    sizes = []
    for column, family in enumerate(families):
        size = n_categories(family)
        if size is None:
            raise ValueError(
                f"{learner} takes bernoulli and categorical columns; column {column} is {family.name}: "
                f"cut it into bins first, or use {instead}"
            )
        sizes.append(size)
    return tuple(sizes)


def without_tails(values: np.ndarray) -> np.ndarray:
    """``values`` (N,) moved to between their 1% and 99% quantiles, NaN kept: a few outliers do not set the scale.

    A column that would become constant stays as it is: what is rare is all it has to tell.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return values
    # Observed values, not values between them: fewer than a hundred rows have no tails.
    low = np.quantile(known, _TAIL, method="lower")
    high = np.quantile(known, 1.0 - _TAIL, method="higher")
    return np.clip(values, low, high) if low < high else values


Families = str | Family | Sequence[str | Family]
