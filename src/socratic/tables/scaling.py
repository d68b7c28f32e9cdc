"""How columns are standardised, and which of their values training rows do not hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from socratic.tables.column import Bend, Column

_DIGITS = 20
"""Binary places that standardised values are rounded to."""
ROUNDED_TO = 2.0**-_DIGITS
"""What they are multiples of."""
_MOST_UNSEEN = 0.5
"""Probability of values that were not seen, at most."""
_ROUNDING = 1e-12
"""Numbers that differ by this share of themselves are the same, rounded otherwise."""
SAME = 1e-6
"""A constant that differs by this share of itself was rounded otherwise."""
_LEAST_GAIN, _LEAST_TOTAL = 0.1, 5.0
"""Nats by which a normal distribution of bent numbers must be more likely: for each of them, and for all."""
_QUARTILES = 1.349
"""Deviations between the quartiles of a normal distribution."""
_TAILS = (0.01, 0.99)
"""Quantiles between which numbers decide on the scale of their column."""


def scaled(column: Column, values: np.ndarray, weight: np.ndarray) -> Column:
    """A column scaled as its family asks by the values of training rows (N,) and their weights (N,)."""
    seen = np.isfinite(values)
    if not seen.any():
        return column
    counts = None
    if column.categories is not None:
        relative = weight[seen] / weight[seen].mean()
        counts = np.bincount(values[seen].astype(np.int64), relative, minlength=len(column.categories))
    column = with_counts(column, counts, float(seen.sum()))
    if column.family.scaling == "none":
        return column
    # Squares of numbers far from 1 are no floats. By a power of 2 nothing is rounded.
    numbers = values[seen]
    largest = float(np.abs(numbers).max())
    _, exponent = math.frexp(largest)
    found = _scaled(column, np.ldexp(numbers, -exponent), weight[seen])
    try:
        if found.bend is not None:  # mean and scale are those of bent numbers, which have no unit
            return replace(found, bend=Bend(*(math.ldexp(value, exponent) for value in found.bend)))
        mean, scale = (math.ldexp(value, exponent) for value in (found.mean, found.scale))
    except OverflowError:
        mean = scale = math.inf
    if not found.scale:
        scale = max(1.0, _ROUNDING * largest) if found.constant else 1.0
    if not (math.isfinite(mean) and 0.0 < scale < math.inf):
        raise ValueError(
            f"column {column.name!r} holds numbers of up to {largest:g}, whose mean or spread is no float; give them "
            "in another unit"
        )
    return replace(found, mean=mean, scale=scale)


def _scaled(column: Column, values: np.ndarray, weight: np.ndarray) -> Column:
    """The same of numbers (N,) between -1 and 1; the scale of those that are all the same is 0."""
    scaling = column.family.scaling
    if scaling == "range":
        lowest, highest = float(values.min()), float(values.max())
        return replace(column, mean=lowest, scale=highest - lowest)
    if scaling == "scale":
        return replace(column, scale=max(0.0, float(np.average(values, weights=weight))))
    bend = _bend(values, weight)
    values = values if bend is None else bend.forth(values)
    mean, scale = _middle(values, weight)
    constant = _is_constant(scale, values)
    return replace(column, mean=mean, scale=0.0 if constant else scale, constant=constant, bend=bend)


def _bend(values: np.ndarray, weight: np.ndarray) -> Bend | None:
    """What makes numbers (N,) more like a normal distribution, if much does: a skew or heavy tails are there then.

    One wild value is no tail: those beyond both tails have no say.
    """
    lower, middle, upper = _quantiles(values, weight, (0.25, 0.5, 0.75))
    width = (upper - lower) / _QUARTILES
    if _is_constant(width, values):
        return None
    bend = Bend(float(middle), float(width))
    inner = _between_tails(values, weight)
    values, weight = values[inner], weight[inner]
    bent = bend.forth(values)
    before, after = (_moments(numbers, weight)[1] for numbers in ((values - middle) / width, bent))
    gain = math.log(before) - math.log(after) - float(np.average(bend.log_slope(bent), weights=weight))
    return bend if gain > _LEAST_GAIN and gain * len(values) > _LEAST_TOTAL else None


def _middle(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of numbers (N,) without their tails, which one wild value could stretch.

    Where nearly all numbers are the same, the others are no tails: they are what the column has to say.
    """
    inner = _between_tails(values, weight)
    found = _moments(values[inner], weight[inner])
    return _moments(values, weight) if _is_constant(found[1], values[inner]) else found


def _between_tails(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Which of the numbers (N,) are in neither tail: (N,) booleans."""
    lowest, highest = _quantiles(values, weight, _TAILS)
    return (values >= lowest) & (values <= highest)


def _is_constant(deviation: float, values: np.ndarray) -> bool:
    """Whether numbers (N,) of this deviation are all the same, however they were rounded."""
    return deviation <= _ROUNDING * float(np.abs(values).max())


def _quantiles(values: np.ndarray, weight: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """The smallest of the numbers (N,) up to which there is this share of their weight (N,)."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    # A share that is reached up to rounding is reached.
    places = np.searchsorted(below, np.asarray(shares) * below[-1] * (1.0 - 1e-12))
    return values[order][places]


def _moments(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    # In units of a power of 2, which changes no digit: squares of 1e-300 are 0, and those of 1e300 infinite.
    _, unit = np.frexp(np.abs(values).max())
    values = np.ldexp(values, -unit)
    mean = float(np.average(values, weights=weight))
    deviations = values - mean
    _, small = np.frexp(np.abs(deviations).max())
    deviation = math.sqrt(float(np.average(np.ldexp(deviations, -small) ** 2, weights=weight)))
    return float(np.ldexp(mean, unit)), float(np.ldexp(deviation, small + unit))


def with_counts(column: Column, counts: np.ndarray | None, n_rows: float) -> Column:
    """The column with how often training rows hold each category (K,), and how probable values are that none holds.

    ``n_rows`` is how many of the rows hold something. Rows weigh 1 on average; ``counts`` is None for numbers.
    """
    n_single = 0 if counts is None else int(((counts > 0.0) & (counts <= 1.0)).sum())
    # Where no value is alone, half a row stands for those that were never seen.
    unseen = min(max(n_single, 0.5) / (n_rows + 1.0), _MOST_UNSEEN)
    return replace(column, counts=None if counts is None else tuple(counts.tolist()), unseen=unseen)


def rounded(values: np.ndarray, relative: np.ndarray) -> np.ndarray:
    """Values (N, V) as multiples of 2^-20; where ``relative`` (V,), of that share of themselves."""
    parts, exponents = np.frexp(values)
    exponents = np.where(relative, exponents, 0)
    with np.errstate(over="ignore"):  # far beyond any grid there is nothing to round
        nearest = np.ldexp(np.round(np.ldexp(np.where(relative, parts, values), _DIGITS)), exponents - _DIGITS)
    return np.where(np.isfinite(nearest), nearest, values)


def absent(column: Column, codes: np.ndarray) -> np.ndarray:
    """Which codes (N,), not yet scaled, no training row holds."""
    if column.counts is not None:
        known = np.array(column.counts) > 0.0
        places = np.where(np.isfinite(codes), codes, 0.0).astype(np.int64)
        return np.isinf(codes) | (np.isfinite(codes) & ~known[places])
    if column.constant:
        return np.abs(codes - column.mean) > SAME * abs(column.mean)
    return np.isinf(codes)
