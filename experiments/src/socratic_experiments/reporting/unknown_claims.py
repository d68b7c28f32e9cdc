"""What the TDI paper claims of unknown images (sections 1 and 4.1, figures 1 and 3, Table 1, appendix D)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from socratic_experiments.reporting.evidence import (
    MUCH,
    Claim,
    Compared,
    Evidence,
    complete,
    graded,
    made,
    slashed,
    verdict,
)
from socratic_experiments.reporting.paper import PAPER_AUC, PAPER_SETS, QUOTED, QUOTED_DETECTION, STANDS_FOR
from socratic_experiments.reporting.summaries import Record, distinct, flagged_at, flagged_margins, plain, select, stat

_FEW = 0.5
"""Who detects fewer than half of the unknown images misses them."""
_ANALOGOUS = 5.0
"""Points of the paper's AUC: its Table 1 has TDI 3 to 4 points below Monte Carlo dropout."""
_LOW = 0.25
"""A threshold within the lowest quarter of the scale is very low."""
_APART = 0.2
"""Images are told apart at a threshold where so many more of the unknown than of the known are flagged."""
_NOTICEABLE = 0.01
"""Of AUROC, and of the share flagged."""


def unknown_claims(records: Sequence[Record]) -> Iterator[Claim]:
    """Claims on known against unknown images, by records of the paper's circuit."""
    found = Evidence.of(records)
    sets = [name for name in distinct(select(records, role="unknown"), "set") if plain(name) in STANDS_FOR]
    if found is None:
        return
    yield from _overconfident(found, sets)
    yield from _areas(found, sets)
    yield from _margins(found, sets)
    yield from _quoted(found, [name for name in sets if STANDS_FOR[plain(name)] == "LSUN"])
    yield from _separation(found, sets)
    yield from _deviations(found, sets)


def _overconfident(found: Evidence, sets: Sequence[str]) -> Iterator[Claim]:
    shares = {name: found.mean(found.alone, "detected_at_5", role="unknown", set=name) for name in sets}
    told = {name: share for name, share in shares.items() if np.isfinite(share)}
    yield from made(
        f"a circuit alone misses unknown data: {QUOTED_DETECTION['PC']:.0f} % of LSUN detected while 95 % of SVHN are "
        "kept",
        "section 1",
        {name: f"{100 * share:.1f} %" for name, share in told.items()},
        verdict(share < _FEW for share in told.values()),
    )


def _areas(found: Evidence, sets: Sequence[str]) -> Iterator[Claim]:
    areas = complete({name: found.compare("paper_auc", role="unknown", set=name) for name in sets})
    yield from made(
        f"TDI improves the AUC by more than two times on every set ({_published('PC + TDI')})",
        "section 4.1, Table 1",
        {name: area.text(1) for name, area in areas.items()},
        graded((area.gain for area in areas.values()), 2.0),
    )
    sampled = next((one for one in distinct(found.records, "method") if one.startswith("Monte Carlo")), None)
    if sampled is None:
        return
    passes = {name: found.mean(sampled, "paper_auc", role="unknown", set=name) for name in areas}
    yield from made(
        f"Monte Carlo dropout attains analogous improvements on circuits ({_published('PC + MCD')})",
        "section 4.1, Table 1",
        {name: f"{areas[name].alone:.1f} -> {area:.1f}" for name, area in passes.items()},
        graded((area / areas[name].alone for name, area in passes.items()), MUCH),
    )
    gaps = {name: [area - passes[name] for area in areas[name].tdi] for name in areas}
    yield from made(
        "TDI achieves similar performance as 100 passes of Monte Carlo dropout, in one",
        "section 4.1, Table 1",
        {name: f"{slashed(gap, 1, sign='+')} points of the AUC" for name, gap in gaps.items()},
        verdict(max(gap) >= -_ANALOGOUS for gap in gaps.values()),
    )


def _margins(found: Evidence, sets: Sequence[str]) -> Iterator[Claim]:
    margins = {(method, name): _margin(found, method, name) for method in (found.alone, *found.tdi) for name in sets}
    told = [name for name in sets if all(len(margins[method, name]) for method in (found.alone, *found.tdi))]
    if not told:
        return
    top = next(record["max_entropy"] for record in found.records if record.get("max_entropy"))

    def compared(number: str) -> dict[str, Compared]:
        by = {key: _numbers(margin)[number] for key, margin in margins.items() if len(margin)}
        return {name: Compared(by[found.alone, name], tuple(by[one, name] for one in found.tdi)) for name in told}

    ranges, places, largest = compared("range"), compared("place"), compared("largest")
    yield from made(
        "TDI distinguishes known from unknown data across a wide range of thresholds, a circuit alone at none; here "
        f"the share of thresholds at which {100 * _APART:.0f} points more unknown than known images are flagged",
        "Figure 1",
        {name: f"{one.text(0, 100)} %" for name, one in ranges.items()},
        graded((one.gain for one in ranges.values()), MUCH),
    )
    yield from made(
        "the threshold with the largest margin between unknown and known images flagged is very low for a circuit, and "
        "much higher with TDI",
        "section 4.1, Figure 3",
        {name: f"{one.text(2, top)} nats" for name, one in places.items()},
        verdict(one.alone <= _LOW and max(one.tdi) > MUCH * one.alone for one in places.values()),
    )
    yield from made(
        "TDI outperforms circuits in absolute terms; here in the largest of these margins",
        "Figure 3",
        {name: one.text(3) for name, one in largest.items()},
        verdict(max(one.tdi) > one.alone + _NOTICEABLE for one in largest.values()),
    )


def _margin(found: Evidence, method: str, name: str) -> np.ndarray:
    """By how much more unknown than known rows are flagged at each threshold, over seeds; empty if unknown."""
    margins = flagged_margins(select(found.records, method=method), name)
    return np.mean(margins, axis=0) if margins else np.empty(0)


def _numbers(margin: np.ndarray) -> dict[str, float]:
    """The share of thresholds that tell images apart, the largest margin, and its place on the scale from 0 to 1."""
    place = int(margin.argmax())
    return {
        "range": float((margin >= _APART).mean()),
        "place": place / (len(margin) - 1),
        "largest": float(margin[place]),
    }


def _quoted(found: Evidence, sets: Sequence[str]) -> Iterator[Claim]:
    """The errors that the text quotes at a low threshold without TDI, and at a higher one with it."""
    low, high = QUOTED

    def errors(role: str, name: str) -> Compared:
        def share(method: str, threshold: float) -> float:
            here = select(found.records, method=method, role=role, **({"set": name} if role == "unknown" else {}))
            flagged = stat(flagged_at(record, threshold) for record in here)
            if flagged is None:
                return float("nan")
            return flagged.mean if role == "known" else 1 - flagged.mean

        return Compared(share(found.alone, low.threshold), tuple(share(one, high.threshold) for one in found.tdi))

    by_set = {name: complete({role: errors(role, name) for role in ("known", "unknown")}) for name in sets}
    told = {name: both for name, both in by_set.items() if len(both) == 2}
    yield from made(
        f"TDI allows for much higher thresholds while errors are lower: {low.known_error} -> {high.known_error} % of "
        f"SVHN, {low.unknown_error} -> {high.unknown_error} % of LSUN, at {low.threshold} without and {high.threshold} "
        "with it",
        "section 4.1",
        {name: f"known {b['known'].text(1, 100)} %, unknown {b['unknown'].text(1, 100)} %" for name, b in told.items()},
        verdict(min(error.tdi) < error.alone for both in told.values() for error in both.values()),
    )


def _separation(found: Evidence, sets: Sequence[str]) -> Iterator[Claim]:
    told, parts = {}, []
    for name in sets:
        moves = found.moves("auroc", role="unknown", set=name)
        if moves:
            before = found.mean(found.alone, "auroc", role="unknown", set=name)
            told[name] = f"{before:.3f}, moved by {' / '.join(one.text(signed=True) for one in moves)}"
            parts.append(any(one.low > _NOTICEABLE for one in moves))
    yield from made(
        "entropies of known and unknown images are largely indistinguishable for a circuit, and separated by TDI; here "
        "AUROC",
        "appendix D",
        told,
        verdict(parts),
    )


def _deviations(found: Evidence, sets: Sequence[str]) -> Iterator[Claim]:
    def compared(name: str) -> list[tuple[float, float]]:
        pairs = [
            (found.mean(one, "std", role="known"), found.mean(one, "std", role="unknown", set=name))
            for one in found.tdi
        ]
        return pairs if np.isfinite(pairs).all() else []

    told = {name: pairs for name in sets if (pairs := compared(name))}
    yield from made(
        "the standard deviation of TDI is larger on unknown than on known images",
        "appendix D",
        {name: " / ".join(f"{before:.3f} -> {after:.3f}" for before, after in pairs) for name, pairs in told.items()},
        verdict(any(after > before for before, after in pairs) for pairs in told.values()),
    )


def _published(row: str) -> str:
    """What Table 1 has for the circuit alone and for another row."""
    pairs = zip(PAPER_SETS, PAPER_AUC["PC"], PAPER_AUC[row], strict=True)
    return ", ".join(f"{before:.1f} -> {after:.1f} on {name}" for name, before, after in pairs)
