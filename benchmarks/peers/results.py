"""What was measured, as the page and its figures read it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from benchmarks.peers.floors import floor_seconds
from benchmarks.peers.models import NAMES
from benchmarks.peers.points import Point, along
from benchmarks.records import Measures, Records


@dataclass(frozen=True)
class Result:
    """One query at one point: of this library, and of another beside it where there is one."""

    what: str
    peer: str | None
    point: Point
    measures: Measures

    @property
    def ratio(self) -> float | None:
        """How many times as long as this library the other one takes; None where there is nothing to compare."""
        if "peer_seconds" not in self.measures or not self.agrees:
            return None
        return self.measures["peer_seconds"] / self.measures["seconds"]

    @property
    def agrees(self) -> bool:
        """Whether the outputs are what they should be."""
        return self.measures.get("difference", math.inf) <= 1.0

    def no_ratio(self) -> str:
        """Why there is none."""
        if "timed_out" in self.measures:
            return "over the time limit"
        if "failed" in self.measures:
            return "does not run"
        return f"refused: outputs differ by {self.measures['difference']:.1g} times what is allowed"


@dataclass(frozen=True)
class Results:
    """All results of one device."""

    device: str
    machine: str
    ceilings: Measures
    results: tuple[Result, ...]
    versions: dict[str, str]
    """Releases of the other libraries, by their names."""

    @classmethod
    def read(cls, path: Path, device: str) -> Results:
        """What was kept in a file."""
        machine, ceilings, results, versions = "", {}, [], {}
        for names, measures in Records(path):
            if names["what"] == "ceilings":
                machine, ceilings = str(names["machine"]), measures
                continue
            if names["what"] == "version":
                versions[NAMES[str(names["peer"])]] = str(names["version"])
                continue
            point = Point(**{field.name: int(names[field.name]) for field in fields(Point)})
            peer = NAMES[str(names["peer"])] if "peer" in names else None
            results.append(Result(str(names["what"]), peer, point, measures))
        return cls(device, machine, ceilings, tuple(results), versions)

    def is_older(self, result: Result) -> bool:
        """Whether a result is of another version of this library than the latest one."""
        latest = max(self.results, key=lambda each: each.measures.get("run", 0.0))
        return result.measures.get("version") != latest.measures.get("version")

    def of(self, what: str, point: Point) -> list[Result]:
        """The results of one query at one point, one for each peer."""
        return [result for result in self.results if (result.what, result.point) == (what, point)]

    @property
    def compared(self) -> Iterator[Result]:
        """The results that stand beside another library's."""
        return (result for result in self.results if result.peer is not None)

    @property
    def peers(self) -> list[str]:
        """The other libraries."""
        return list(dict.fromkeys(str(result.peer) for result in self.compared))

    def floor(self, result: Result) -> float:
        """The least seconds that the device could need."""
        ceilings = self.ceilings
        parameters = result.measures["parameters"]
        return floor_seconds(result.what, result.point, parameters, ceilings["flops"], ceilings["bytes"])

    def times(self, what: str, axis: str) -> dict[str, list[tuple[int, float]]]:
        """Seconds along an axis of the sweep, by library; of this library's several times at a point the best."""
        found: dict[str, list[tuple[int, float]]] = {"socratic": []}
        for point in along(axis):
            results = self.of(what, point)
            if results:
                found["socratic"].append((getattr(point, axis), min(r.measures["seconds"] for r in results)))
            for result in results:
                if result.ratio is not None:
                    found.setdefault(str(result.peer), []).append(
                        (getattr(point, axis), result.measures["peer_seconds"])
                    )
        return {library: times for library, times in found.items() if times}


def exponent(times: list[tuple[int, float]]) -> float | None:
    """The slope of log-time over the logarithm of the three largest values of an axis; None where there are fewer."""
    if len(times) < 3:
        return None
    x, y = np.log(np.array(times[-3:])).T
    return float(np.polyfit(x, y, 1)[0])
