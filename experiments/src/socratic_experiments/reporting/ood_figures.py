"""Figures of known against unknown images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from socratic.pages import PALETTE
from socratic_experiments.reporting.drawing import (
    MAIN,
    Drawing,
    Group,
    draw_curve,
    finish,
    groups_of,
    having,
    heading,
    panels,
    slug,
)
from socratic_experiments.reporting.summaries import (
    Curve,
    Record,
    distinct,
    flagged_margins,
    list_curve,
    of,
    select,
    set_title,
)

_THRESHOLD = "threshold on the entropy (nats)"
_SPREAD = 0.5
"""Where the histograms of standard deviations end."""


def ood_drawings(records: Sequence[Record], train: str) -> list[Drawing]:
    """Shares flagged over thresholds, the difference of two such shares, and histograms."""
    found = select(records, experiment="ood", train=train)
    drawings = []
    for group in groups_of(found):
        name, where = f"{slug(train)}-{group.slug}", f"{set_title(train)}, {group.title}"
        main = group.title in MAIN
        if having(group, found, "flagged"):
            drawings += [
                Drawing(
                    f"flagged-{name}",
                    f"Flagged as unknown: {where}",
                    "Share of rows whose entropy is above a threshold, for every threshold. Solid: unknown sets, which "
                    "should be flagged. Dashed: test images of the known set, which should not.",
                    partial(_flagged, found, group),
                    main,
                ),
                Drawing(
                    f"difference-{name}",
                    f"Unknown minus known flagged: {where}",
                    "Share of unknown rows flagged minus share of known rows flagged, for every threshold on the "
                    "entropy. A perfect detector reaches 1, a useless one stays at 0.",
                    partial(_difference, found, group),
                    main,
                ),
            ]
        if having(group, found, "entropy_counts") or having(group, found, "std_counts"):
            drawings.append(
                Drawing(
                    f"histograms-{name}",
                    f"Entropy and standard deviation: {where}",
                    "Shares of rows, on a square-root scale so that small ones show. Shaded: test images of the known "
                    "set. Outlined: unknown sets.",
                    partial(_histograms, found, group),
                    main,
                )
            )
    return drawings


def _thresholds(records: Sequence[Record]) -> np.ndarray:
    """The thresholds of the flagged shares, in nats: (101,)."""
    one = next(record for record in records if record.get("flagged") is not None)
    return np.linspace(0.0, one["max_entropy"], len(one["flagged"]))


def _flagged(found: Sequence[Record], group: Group) -> Any:
    series, x = having(group, found, "flagged"), _thresholds(found)
    figure, axes = panels(len(series), 3, 2.6, 2.1, (_THRESHOLD, "share of rows flagged"), sharex=True, sharey=True)
    sets = distinct(select(found, role="unknown"), "set")
    for axis, one in zip(axes, series, strict=True):
        here = of(found, one)
        for name in distinct(select(here, role="known"), "set"):
            known = list_curve(select(here, role="known", set=name), "flagged", x)
            draw_curve(axis, known, PALETTE[4], f"{set_title(name)} (known)", linestyle="--")
        for place, name in enumerate(sets):
            unknown = list_curve(select(here, role="unknown", set=name), "flagged", x)
            draw_curve(axis, unknown, _set_colour(place), set_title(name))
        heading(axis, group.label(one))
        axis.set(xlim=(0, x[-1]), ylim=(0, 1.02))
    return finish(figure, axes)


def _set_colour(place: int) -> str:
    """Colours of unknown sets; the one of the known set is left out."""
    colours = PALETTE[:4] + PALETTE[5:]
    return colours[place % len(colours)]


def _difference(found: Sequence[Record], group: Group) -> Any:
    series, x = having(group, found, "flagged"), _thresholds(found)
    sets = distinct(select(found, role="unknown"), "set")
    figure, axes = panels(
        len(sets), 3, 2.9, 2.4, (_THRESHOLD, "flagged: unknown minus known"), sharex=True, sharey=True
    )
    for axis, name in zip(axes, sets, strict=True):
        for one in series:
            line = _gap(of(found, one), name, x)
            draw_curve(axis, line, group.colour(one), group.label(one), marker=group.marker(one), markevery=20)
        axis.axhline(0.0, color=PALETTE[4], linewidth=0.8)
        heading(axis, set_title(name))
        axis.set(xlim=(0, x[-1]))
    return finish(figure, axes)


def _gap(records: Sequence[Record], name: str, x: np.ndarray) -> Curve | None:
    """Unknown minus known flagged, seed by seed."""
    return list_curve([{"margin": margin} for margin in flagged_margins(records, name)], "margin", x)


def _histograms(found: Sequence[Record], group: Group) -> Any:
    series = [one for one in group.series if one in having(group, found, "entropy_counts")]
    series += [one for one in having(group, found, "std_counts") if one not in series]
    tops = [record["max_entropy"] for record in found if record.get("max_entropy")]
    scales = (
        ("entropy_counts", "entropy (nats)", max(tops, default=1.0)),
        ("std_counts", "standard deviation", _SPREAD),
    )
    figure, axes = panels(2 * len(series), 2, 3.6, 1.25, ("", "share of rows"), sharex="col")
    sets = distinct(select(found, role="unknown"), "set")
    for row, one in enumerate(series):
        here = of(found, one)
        for axis, (field, _, top) in zip(axes[2 * row : 2 * row + 2], scales, strict=True):
            for name in distinct(select(here, role="known"), "set"):
                known = select(here, role="known", set=name)
                _stairs(
                    axis, known, field, top, color=PALETTE[4], fill=True, alpha=0.45, label=f"{set_title(name)} (known)"
                )
            for place, name in enumerate(sets):
                unknown = select(here, role="unknown", set=name)
                _stairs(axis, unknown, field, top, color=_set_colour(place), label=set_title(name), linewidth=1.2)
            axis.set_yscale("function", functions=(_root, np.square))
            axis.set(xlim=(0, top), ylim=(0, None))
            if not axis.patches:
                axis.text(0.5, 0.5, "none", transform=axis.transAxes, ha="center", fontsize=7, color=PALETTE[4])
        heading(axes[2 * row], group.label(one))
    for axis, (_, label, _) in zip(axes[-2:], scales, strict=True):
        axis.set_xlabel(label)
    return finish(figure, axes)


def _stairs(axis: Any, records: Sequence[Record], field: str, top: float, **style: Any) -> None:
    line = list_curve(records, field)
    if line is not None:
        axis.stairs(line.mean, np.linspace(0.0, top, len(line.mean) + 1), **style)


def _root(values: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(values, 0.0))
