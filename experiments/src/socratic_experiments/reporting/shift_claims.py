"""What the TDI paper claims of turned and corrupted images (sections 4.2 and 4.3, figures 4 and 5, appendix E)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from socratic_experiments.reporting.evidence import (
    CLEAR,
    MUCH,
    Claim,
    Compared,
    Evidence,
    complete,
    made,
    slashed,
    verdict,
)
from socratic_experiments.reporting.shift_tables import (
    CONSTANTS,
    FOLLOWS,
    largest_accuracy_change,
    severity_correlations,
)
from socratic_experiments.reporting.summaries import PAPERS, Record, curve, distinct, select, spearman

_ROTATED = "section 4.2, Figure 4"
_SAME_ACCURACY = 0.01
"""Accuracy is the same if it changes by at most a point."""
_ALMOST = 0.05
"""Accuracy that is "almost fully preserved" falls by at most five points."""
_ROBUST = ("elastic_transform", "gaussian_noise")
_PRESERVED = ("zoom_blur", "pixelate", "jpeg_compression")


def rotation_claims(records: Sequence[Record]) -> Iterator[Claim]:
    """Claims on turned digits, by records of the paper's circuit."""
    found = Evidence.of(records)
    if found is None:
        return
    for angle, times, words in (
        (30, CLEAR, "higher entropy already at lower degrees of rotation"),
        (90, MUCH, "much larger entropy to greater rotations"),
    ):
        first, last = (found.compare("entropy", level=level) for level in (0, angle))
        # Above its own entropy at 0 degrees: what is more uncertain everywhere does not capture a rotation.
        rises = Compared(last.alone - first.alone, tuple(np.subtract(last.tdi, first.tdi)))
        told = {
            "alone": f"{first.alone:.2f} -> {last.alone:.2f}",
            "TDI": " / ".join(f"{x:.2f} -> {y:.2f}" for x, y in zip(first.tdi, last.tdi, strict=True)),
        }
        yield from made(
            f"TDI assigns {words}; here from 0 to {angle} degrees",
            _ROTATED,
            told if complete({"rise": rises}) else {},
            verdict([max(rises.tdi) > times * rises.alone]),
        )
    yield from _rising_deviation(found)
    changes = [largest_accuracy_change(found.records, (PAPERS, method)) for method in found.tdi]
    known = [one for one in changes if one is not None]
    yield from made(
        "TDI retains the same accuracy under rotation",
        _ROTATED,
        {"largest change at any angle": f"{slashed(known, 2, 100)} points"} if known else {},
        verdict([min(known, default=np.nan) <= _SAME_ACCURACY]),
    )


def _rising_deviation(found: Evidence) -> Iterator[Claim]:
    lines = [curve(select(found.records, method=method), "level", "std") for method in found.tdi]
    known = [line for line in lines if line is not None and len(line.x) > 1]
    ranks = [spearman(line.x.tolist(), line.mean.tolist()) for line in known]
    ends = " / ".join(f"{line.mean[0]:.3f} -> {line.mean[-1]:.3f}" for line in known)
    yield from made(
        "the standard deviation of TDI increases with the rotation",
        _ROTATED,
        {"from the first to the last angle": f"{ends}, Spearman {slashed(ranks, 2)}"} if known else {},
        verdict([any(rank >= FOLLOWS for rank in ranks)]),
    )


def corruption_claims(records: Sequence[Record]) -> Iterator[Claim]:
    """Claims on corrupted images, by records of the paper's circuit.

    The text does not give the constants of its corruptions: each set of them that was used is a part of a claim.
    """
    by_constants = {
        title: Evidence.of([record for record in records if record.get("variant") == variant])
        for variant, title in CONSTANTS.items()
    }
    found = {title: one for title, one in by_constants.items() if one is not None}
    yield from _following(found)
    yield from _robust(found)
    yield from _everywhere(found)
    yield from _preserved(found)


def _following(found: Mapping[str, Evidence]) -> Iterator[Claim]:
    told: dict[str, str] = {}
    parts: list[bool] = []
    for title, one in found.items():
        ranks = [severity_correlations(select(one.records, method=method)) for method in one.tdi]
        named = [name for name in ranks[0] if name not in _PRESERVED]
        follows = {name: any(rank.get(name, np.nan) >= FOLLOWS for rank in ranks) for name in named}
        lacking = ", ".join(_spaced(name) for name, follow in follows.items() if not follow)
        told[title] = f"{sum(follows.values())} of {len(named)}" + (f", not {lacking}" if lacking else "")
        parts += follows.values()
    yield from made(
        "with TDI entropy rises with the severity of all corruptions but zoom blur, pixelation and JPEG compression; "
        f"here by Spearman's correlation of at least {FOLLOWS:g}",
        "section 4.3, appendix E",
        told,
        verdict(parts),
    )


def _robust(found: Mapping[str, Evidence]) -> Iterator[Claim]:
    gains = {title: {name: _accuracy_gains(one, name) for name in _ROBUST} for title, one in found.items()}
    told = {title: {name: gain for name, gain in one.items() if gain} for title, one in gains.items()}
    yield from made(
        "TDI retains higher accuracy than a circuit under elastic transformation and Gaussian noise; here the mean "
        "over severities 1 to 5",
        "section 4.3, Figure 5",
        _points(told),
        verdict(max(gain) > 0.0 for one in told.values() for gain in one.values()),
    )


def _everywhere(found: Mapping[str, Evidence]) -> Iterator[Claim]:
    told: dict[str, str] = {}
    parts: list[bool] = []
    for title, one in found.items():
        gains = [gain for name in distinct(one.records, "shift") if (gain := _accuracy_gains(one, name))]
        if gains:
            same = [max(gain) >= -_SAME_ACCURACY for gain in gains]
            ends = f"{100 * min(map(max, gains)):+.1f} to {100 * max(map(max, gains)):+.1f}"
            told[title] = f"{sum(same)} of {len(same)}, {ends} points"
            parts += same
    yield from made(
        "TDI is generally equally or more robust for all corruptions, with equal or higher accuracy; here within a "
        "point, the mean over severities 1 to 5, by the better variant",
        "appendix E",
        told,
        verdict(parts),
    )


def _preserved(found: Mapping[str, Evidence]) -> Iterator[Claim]:
    def falls(one: Evidence, name: str) -> list[float]:
        first, last = (
            [one.mean(method, "accuracy", shift=name, level=level) for method in one.tdi] for level in (0, 5)
        )
        found = np.subtract(last, first)
        return found.tolist() if np.isfinite(found).all() else []

    told = {title: {name: fall for name in _PRESERVED if (fall := falls(one, name))} for title, one in found.items()}
    yield from made(
        "accuracy with TDI is almost fully preserved under zoom blur, pixelation and JPEG compression; here at "
        "severity 5",
        "appendix E",
        _points(told),
        verdict(max(fall) >= -_ALMOST for one in told.values() for fall in one.values()),
    )


def _accuracy_gains(found: Evidence, shift: str) -> list[float]:
    """Accuracy that each variant of TDI adds to the circuit alone, the mean over severities of at least 1."""
    levels = [moves for level in range(1, 6) if (moves := found.moves("accuracy", shift=shift, level=level))]
    return [float(np.mean([one.mean for one in by_variant])) for by_variant in zip(*levels, strict=True)]


def _points(told: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, str]:
    """Changes of accuracy by corruption, for each set of constants."""
    return {
        title: ", ".join(f"{_spaced(name)} {slashed(values, 1, 100, '+')}" for name, values in one.items()) + " points"
        for title, one in told.items()
        if one
    }


def _spaced(name: str) -> str:
    return name.replace("_", " ")
