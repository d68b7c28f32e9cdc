"""What results look like in notebooks: tables of their first rows, and plots."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from socratic.errors import import_extra
from socratic.pages import INK, PALETTE, clean, table

__all__ = [
    "MOST_ROWS",
    "axes_or_new",
    "between",
    "draw_bars",
    "draw_points",
    "number",
    "of_classes",
    "of_variables",
    "table_of_facts",
    "table_of_rows",
    "with_note",
]

MOST_ROWS = 10
"""Rows of a result that a notebook shows."""
_UNKNOWN = "\N{EN DASH}"
_MOST_CLASSES, _MOST_VARIABLES = 5, 8
"""Classes and variables that have a column of their own."""

Column = Any
"""An array or tensor (N,) of numbers, a sequence of texts, or a pair of arrays: numbers and their deviations."""


def number(value: float) -> str:
    """A number in a few characters; a dash where it is not known."""
    return _UNKNOWN if math.isnan(value) else f"{value:.3g}"


def table_of_rows(columns: Mapping[str, Column], note: str, *, n_rows: int) -> str:
    """The first of ``n_rows`` rows as HTML, and a note; names and values are shown as text, whatever is in them."""
    cells = zip(*map(_texts, columns.values()), strict=True)
    more = f"{n_rows - MOST_ROWS:,} more rows. " if n_rows > MOST_ROWS else ""
    body = [[str(row), *texts] for row, texts in enumerate(cells)]
    return with_note(table(["row", *columns], body), more + note)


def table_of_facts(facts: Mapping[str, object], note: str) -> str:
    """Names and what is known by them as HTML, one below the other, and a note; all of it is shown as text.

    A pair is a number and its deviation.
    """
    body = [
        [name, *_texts(tuple([part] for part in fact) if isinstance(fact, tuple) else [fact])]
        for name, fact in facts.items()
    ]
    return with_note(table(["", ""], body, n_names=2), note)


def with_note(element: str, note: str) -> str:
    """HTML, and plain text below it."""
    return f'{element}<p class="quiet">{html.escape(note)}</p>'


def _texts(column: Column) -> list[str]:
    """The cells of the first rows of a column."""
    if isinstance(column, tuple):
        pairs = zip(*map(_texts, column), strict=True)
        return [mean if std == _UNKNOWN else f"{mean} ± {std}" for mean, std in pairs]
    cells = column[:MOST_ROWS]
    cells = cells.tolist() if hasattr(cells, "tolist") else cells
    return [_UNKNOWN if cell is None else number(cell) if isinstance(cell, float) else str(cell) for cell in cells]


def of_classes(mean: Any, std: Any) -> dict[str, Column]:
    """A column for each of the first classes, from what they have (N, C) and how far it deviates."""
    return {f"class {label}": (mean[:, label], std[:, label]) for label in range(min(mean.shape[1], _MOST_CLASSES))}


def of_variables(x: Any) -> dict[str, Column]:
    """A column for each of the first variables, from their values (N, V)."""
    return {f"variable {place}": x[:, place] for place in range(min(x.shape[1], _MOST_VARIABLES))}


def between(lower: Any, upper: Any) -> dict[str, Column]:
    """A column for each of the first classes, from two bounds (N, C) of what they have."""
    columns = {}
    for label in range(min(lower.shape[1], _MOST_CLASSES)):
        bounds = zip(_texts(lower[:, label]), _texts(upper[:, label]), strict=True)
        columns[f"class {label}"] = [f"{low} to {high}" for low, high in bounds]
    return columns


def axes_or_new(ax: Any, height: float = 3.0) -> Any:
    """The Matplotlib axes ``ax``, or those of a new figure."""
    if ax is not None:
        return ax
    pyplot = import_extra("matplotlib.pyplot", "plots", "plot")
    return pyplot.subplots(figsize=(4.8, height), layout="constrained")[1]


def draw_points(ax: Any, x: Any, y: Any, names: tuple[str, str]) -> Any:
    """A point for each row, and the names of the two axes; returns the axes."""
    ax = axes_or_new(ax)
    ax.scatter(x, y, s=12, color=PALETTE[0], alpha=0.6, linewidths=0)
    ax.set(xlabel=names[0], ylabel=names[1])
    clean(ax)
    return ax


def draw_bars(ax: Any, names: Sequence[str], lengths: Sequence[float], strong: Sequence[bool], label: str) -> Any:
    """A bar for each name from the top down, in another colour where it is strong; returns the axes."""
    ax = axes_or_new(ax, height=1.0 + 0.25 * len(names))
    places = range(len(names))
    ax.barh(places, lengths, color=[PALETTE[1] if each else PALETTE[0] for each in strong])
    # A column may be called anything: "$" starts no formula.
    ax.set_yticks(places, labels=list(names), parse_math=False)
    ax.invert_yaxis()
    ax.axvline(0.0, color=INK, linewidth=0.8)
    ax.set(xlabel=label)
    clean(ax)
    ax.grid(visible=False, axis="y")
    return ax
