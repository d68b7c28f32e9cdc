"""What all figures of results share: which lines go together, their colours, bands and legends."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socratic.pages import FAINT, INK, MARKERS, PALETTE, clean, new_figure
from socratic_experiments.reporting.summaries import (
    PAPERS,
    TDI,
    WITH_DROPOUT,
    Curve,
    Record,
    Series,
    is_alone,
    is_number,
    select,
    series_of,
)

_N_CHOSEN = 3
MAIN = (WITH_DROPOUT, PAPERS)
"""Circuits whose figures go into the documents."""


class Drawing(NamedTuple):
    """A figure that can be drawn: ``draw`` returns a new Matplotlib figure; ``main`` ones go into the documents."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Any]
    main: bool


@dataclass(frozen=True)
class Group:
    """Models and methods that share figures: one circuit with its methods, or all other models."""

    title: str
    series: tuple[Series, ...]

    @property
    def slug(self) -> str:
        """The title for names of files."""
        return slug(self.title)

    def label(self, series: Series) -> str:
        """A short name of one line: what differs within the group."""
        models = {model for model, _ in self.series}
        return series[1] if len(models) == 1 else f"{series[0]}, {series[1]}"

    def colour(self, series: Series) -> str:
        """A colour of its own, the same in all figures of the group."""
        return PALETTE[self.series.index(series) % len(PALETTE)]

    def marker(self, series: Series) -> str:
        """A marker of its own: nobody has to tell lines apart by colour only."""
        return MARKERS[self.series.index(series) % len(MARKERS)]


def slug(text: str) -> str:
    """A text for names of files."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def groups_of(records: Sequence[Record]) -> list[Group]:
    """Each circuit by itself, and everything else together."""
    by_title: dict[str, list[Series]] = {}
    for one in series_of(records):
        by_title.setdefault(one[0] if "circuit" in one[0] else "networks", []).append(one)
    return [Group(title, tuple(series)) for title, series in by_title.items()]


def having(group: Group, records: Sequence[Record], field: str) -> list[Series]:
    """The group's series with values of a field."""
    return [
        one
        for one in group.series
        if any(record.get(field) is not None for record in select(records, model=one[0], method=one[1]))
    ]


def chosen(series: Sequence[Series]) -> list[Series]:
    """At most three for crowded panels: models alone, exact TDI and ensembles before Monte Carlo and all others."""

    def rank(one: Series) -> int:
        method = one[1]
        if is_alone(method) or method == TDI or method.startswith("ensemble"):
            return 0
        return 1 if method.startswith("Monte Carlo") else 2

    best = sorted(series, key=rank)[:_N_CHOSEN]
    return [one for one in series if one in best]


def draw_curve(axis: Any, line: Curve | None, colour: str, label: str, **style: Any) -> None:
    """The mean as a line, smallest to largest as a band."""
    if line is None:
        return
    axis.plot(line.x, line.mean, color=colour, label=label, **style)
    if (line.high > line.low).any():
        axis.fill_between(line.x, line.low, line.high, color=colour, alpha=0.18, linewidth=0)


def panels(
    n: int, columns: int, width: float, height: float, labels: tuple[str, str], **options: Any
) -> tuple[Any, list[Any]]:
    """A figure of ``n`` panels, each of this size in inches, and its axes; labels stand at the outer ones only."""
    columns = min(columns, n)
    rows = -(-n // columns)
    figure = new_figure(height * rows, width * columns)
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).ravel())
    for axis in axes[n:]:
        axis.remove()
    for place, axis in enumerate(axes[:n]):
        if place + columns >= n:
            axis.set_xlabel(labels[0])
            axis.tick_params(labelbottom=True)  # where the row below is not full
        if place % columns == 0:
            axis.set_ylabel(labels[1])
    return figure, axes[:n]


def heading(axis: Any, text: str) -> None:
    """The title of a panel."""
    axis.set_title(text, fontsize=8, loc="left", color=INK)


def twin(axis: Any, label: str) -> Any:
    """A second scale on the right, for shares."""
    other = axis.twinx()
    other.set_ylim(0.0, 1.02)
    other.set_ylabel(label)
    return other


def finish(figure: Any, axes: Sequence[Any], twins: Sequence[Any] = ()) -> Any:
    """Clean all panels and put one legend below them."""
    from matplotlib.lines import Line2D

    for axis in (*axes, *twins):
        clean(axis)
    for other in twins:
        other.grid(visible=False)
        other.spines["left"].set_visible(False)
        other.spines["right"].set_visible(True)
        other.spines["right"].set_color(FAINT)
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if twins:
        entries["entropy (left)"] = Line2D([], [], color=INK, linewidth=1.3)
        entries["accuracy (right)"] = Line2D([], [], color=INK, linewidth=1.3, linestyle="--")
    if entries:
        # As many columns as fit: a letter takes about 0.05 inches, the line before it about half an inch.
        room = figure.get_figwidth() / (0.05 * max(map(len, entries)) + 0.55)
        columns = max(1, min(int(room), len(entries)))
        figure.set_figheight(figure.get_figheight() + 0.15 + 0.16 * -(-len(entries) // columns))
        figure.legend(
            entries.values(),
            entries.keys(),
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=7,
            labelcolor=INK,
            handlelength=3,
        )
    # The places are found once; all formats share them.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def numbers_in(records: Sequence[Record], field: str) -> bool:
    """Whether any record has a number there."""
    return any(is_number(record.get(field)) for record in records)
