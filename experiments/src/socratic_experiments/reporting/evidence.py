"""What the records say of the paper's circuit, alone and with TDI, and verdicts on claims about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any, NamedTuple

from socratic_experiments.reporting.summaries import (
    EXACT,
    INDEPENDENT,
    PAPERS,
    Record,
    Stat,
    alone,
    difference,
    over_seeds,
    select,
    set_title,
)

HOLDS, IN_PART, DOES_NOT = "holds", "in part", "does not hold"
VARIANTS = (INDEPENDENT, EXACT)
"""The two that "TDI" may mean: the text does not say which its experiments used."""
CLEAR, MUCH = 1.1, 1.75
"""A gain of so many times is clear; one of so many is what the paper calls "much" or puts beside its doubled AUC."""


class Claim(NamedTuple):
    """A claim, where the paper makes it, what came out here, and whether the two agree."""

    text: str
    where: str
    ours: str
    verdict: str


class Compared(NamedTuple):
    """A number for the circuit alone, and for each variant of TDI."""

    alone: float
    tdi: tuple[float, ...]

    @property
    def gain(self) -> float:
        """How many times the circuit's number the larger one with TDI is."""
        return max(self.tdi) / self.alone if self.alone else nan

    def text(self, digits: int, scale: float = 1.0) -> str:
        """Both, with an arrow between."""
        return f"{scale * self.alone:.{digits}f} -> {slashed(self.tdi, digits, scale)}"


@dataclass(frozen=True, eq=False)
class Evidence:
    """Records of the paper's circuit in one experiment: by the circuit ``alone``, and by the variants of ``tdi``."""

    records: Sequence[Record]
    alone: str
    tdi: tuple[str, ...]

    @classmethod
    def of(cls, records: Sequence[Record]) -> Evidence | None:
        """None if the circuit alone was not asked, or no variant of TDI."""
        base = alone(PAPERS, records)
        tdi = tuple(method for method in VARIANTS if select(records, method=method))
        return cls(records, base[1], tdi) if base is not None and tdi else None

    def mean(self, method: str, field: str, **wanted: Any) -> float:
        """The mean over seeds, NaN if there is no number."""
        stat = over_seeds(select(self.records, method=method, **wanted), field)
        return nan if stat is None else stat.mean

    def compare(self, field: str, **wanted: Any) -> Compared:
        """The means of a field, NaN where there is none."""
        base = self.mean(self.alone, field, **wanted)
        return Compared(base, tuple(self.mean(method, field, **wanted) for method in self.tdi))

    def moves(self, field: str, **wanted: Any) -> list[Stat]:
        """What each variant of TDI adds to a field, seed by seed; empty if that is unknown of one of them."""
        here = select(self.records, **wanted)
        base = select(here, method=self.alone)
        found = [difference(select(here, method=method), base, field) for method in self.tdi]
        return [one for one in found if one is not None] if all(found) else []


def complete(found: Mapping[str, Compared]) -> dict[str, Compared]:
    """Those of which all numbers are there."""
    return {name: one for name, one in found.items() if all(map(isfinite, (one.alone, *one.tdi)))}


def made(text: str, where: str, shown: Mapping[str, str], verdict: str) -> Iterator[Claim]:
    """A claim with what came out for each of its parts; none if nothing did."""
    if shown:
        told = "; ".join(f"{set_title(name)}: {one}" for name, one in shown.items())
        yield Claim(text, where, told, verdict)


def verdict(parts: Iterable[bool]) -> str:
    """By how many of its parts a claim holds."""
    found = list(parts)
    return HOLDS if all(found) else IN_PART if any(found) else DOES_NOT


def graded(gains: Iterable[float], claimed: float) -> str:
    """By how many times a number grows: more than was claimed everywhere, or clearly somewhere."""
    found = list(gains)
    if not found:
        return DOES_NOT
    return HOLDS if min(found) > claimed else IN_PART if max(found) > CLEAR else DOES_NOT


def slashed(values: Iterable[float], digits: int, scale: float = 1.0, sign: str = "") -> str:
    """The numbers of the variants of TDI."""
    return " / ".join(f"{scale * value:{sign}.{digits}f}" for value in values)
