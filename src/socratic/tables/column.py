"""A column of a table: its leaf family, its encoding, and what training rows say of values that they do not hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from socratic.errors import check_number
from socratic.families import Bernoulli, Family

_MOST_TIED = 8
"""Equally rare values that stand for one that was never seen, at most."""


class Bend(NamedTuple):
    """Draws in the tails of a column: a number x becomes asinh((x - middle) / width).

    Near the middle that is hardly more than a shift and a scale; far from it, on either side, it is a logarithm.
    """

    middle: float
    width: float

    def forth(self, values: np.ndarray) -> np.ndarray:
        """Numbers, drawn in."""
        return np.arcsinh((values - self.middle) / self.width)

    def back(self, bent: np.ndarray) -> np.ndarray:
        """The numbers that were drawn in."""
        return self.middle + self.width * np.sinh(bent)

    @staticmethod
    def log_slope(bent: np.ndarray) -> np.ndarray:
        """By how much log-densities of bent numbers exceed those of (x - middle) / width."""
        size = np.abs(bent)
        return size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0)  # NaN stays NaN, without a warning


@dataclass(frozen=True)
class Column:
    """One column: its leaf family and its encoding.

    Attributes
    ----------
    name : str
    family : Family
        The leaf family.
    categories : tuple or None
        Known values in the order of their codes (families without order), as text or numbers.
    mean, scale : float
        What is subtracted from numbers and what they are divided by, as the family's ``scaling`` asks.
    bend : Bend or None
        What comes before that, where numbers have heavy tails.
    constant : bool
        Whether all numbers in training rows are the same.
    counts : tuple of float or None
        How many training rows hold each category.
    unseen : float or None
        Probability of a value that no training row holds, from the values that only one of them holds (Good-Turing).
        None before there were any rows; and in models of before, which take such values as missing.
    left_out : str or None
        Why the column has no part in the model, if so: its values are taken as missing, whatever they are.
    """

    name: str
    family: Family
    categories: tuple[Any, ...] | None = None
    mean: float = 0.0
    scale: float = 1.0
    constant: bool = False
    counts: tuple[float, ...] | None = None
    unseen: float | None = None
    left_out: str | None = None
    bend: Bend | None = None

    @property
    def rarest(self) -> tuple[int, ...]:
        """The codes of the rarest values in training rows; of equally rare ones a few. None of numbers."""
        seen = [count for count in self.counts or () if count > 0.0]
        return tuple(code for code, count in enumerate(self.counts or ()) if seen and count == min(seen))[:_MOST_TIED]

    @property
    def log_unseen(self) -> float:
        """Log-probability of a value that no training row holds."""
        return 0.0 if self.unseen is None else math.log(self.unseen)

    @property
    def log_seen(self) -> float:
        """Log-probability of any other value: 0 where there are no others, and for numbers."""
        every = isinstance(self.family, Bernoulli) and all(self.counts or ())
        return 0.0 if self.unseen is None or self.counts is None or every else math.log1p(-self.unseen)

    @property
    def log_scale(self) -> float:
        """Log of the unit of standardised numbers, in that of the data (where the column is bent: in its middle)."""
        return math.log(self.scale) + (0.0 if self.bend is None else math.log(self.bend.width))

    def standardise(self, values: np.ndarray) -> np.ndarray:
        """Numbers (N,) as the column's leaves expect them."""
        return ((values if self.bend is None else self.bend.forth(values)) - self.mean) / self.scale

    def restore(self, codes: np.ndarray) -> np.ndarray:
        """Numbers (N,) in the units of the data, from standardised ones."""
        values = codes * self.scale + self.mean
        return values if self.bend is None else self.bend.back(values)

    def check(self) -> None:
        """Raise ``ValueError`` unless the parts that a model file gave fit together."""
        what = f"the column {self.name!r}"
        if not isinstance(self.name, str) or not isinstance(self.left_out, str | None):
            raise ValueError(f"{what} must have text as its name, and as why it is left out; got {self.left_out!r}")
        if not isinstance(self.constant, bool):
            raise ValueError(f"constant of {what} must be true or false; got {self.constant!r}")
        middle, width = self.bend or Bend(0.0, 1.0)
        for name, value in (("mean", self.mean), ("middle", middle)):
            check_number(f"{name} of {what}", value)
        for name, value in (("scale", self.scale), ("width", width)):
            if not check_number(f"{name} of {what}", value) > 0.0:
                raise ValueError(f"{name} of {what} must be above 0; got {value!r}")
        if self.family.scaling == "none" and (self.mean, self.scale, self.bend) != (0.0, 1.0, None):
            raise ValueError(f"{what} has {self.family.name} leaves, whose values are not scaled")
        if self.unseen is not None and not 0.0 < check_number(f"unseen of {what}", self.unseen) < 1.0:
            raise ValueError(f"unseen of {what} must be between 0 and 1; got {self.unseen!r}")
        self._check_values(what)

    def _check_values(self, what: str) -> None:
        known, room = self.categories, self.family.n_values or 0
        coded = self.family.unordered or isinstance(self.family, Bernoulli)
        if (known is None and self.family.unordered) or (known is not None and not (coded and 0 < len(known) <= room)):
            raise ValueError(f"the values of {what} do not fit its {self.family.name} leaves")
        if not all(isinstance(value, (bool, int, float, str)) for value in known or ()):
            raise ValueError(f"the values of {what} must be text or numbers")
        if self.counts is not None and len(self.counts) != len(self.categories or ()):
            raise ValueError(f"{what} counts {len(self.counts)} values and has {len(self.categories or ())}")
        for count in self.counts or ():
            check_number(f"a count of {what}", count, minimum=0.0)

    @property
    def kind(self) -> str:
        """The name of the leaf family."""
        return self.family.name if self.left_out is None else "left out"

    def describe(self) -> str:
        """One line for people."""
        if self.left_out is not None:
            details = self.left_out
        elif self.categories is not None:
            details = ", ".join(str(value) for value in self.categories[:6])
            details += ", ..." if len(self.categories) > 6 else ""
        elif self.constant:
            details = f"always {self.mean:.4g}"
        else:
            details = "" if self.bend is None else f"asinh of ({self.bend.middle:.4g}, {self.bend.width:.4g}), "
            details += {
                "standard": f"mean {self.mean:.4g}, scale {self.scale:.4g}",
                "scale": f"{self.family.domain}, scale {self.scale:.4g}",
                "range": f"{self.mean:.4g} to {self.mean + self.scale:.4g}",
                "none": self.family.domain,
            }[self.family.scaling]
        return f"{self.name}: {self.kind} ({details})"
