"""A column of a table: its leaf family, its encoding, and what training rows say of values that they do not hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from socratic.families import Bernoulli, Family

_MOST_TIED = 8
"""Equally rare values that stand for one that was never seen, at most."""


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
            details = {
                "standard": f"mean {self.mean:.4g}, scale {self.scale:.4g}",
                "scale": f"{self.family.domain}, scale {self.scale:.4g}",
                "range": f"{self.mean:.4g} to {self.mean + self.scale:.4g}",
                "none": self.family.domain,
            }[self.family.scaling]
        return f"{self.name}: {self.kind} ({details})"
