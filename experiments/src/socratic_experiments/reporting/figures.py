"""All figures that a set of records allows, to draw into pages or files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from socratic.pages import save_figure
from socratic_experiments.reporting.drawing import Drawing
from socratic_experiments.reporting.ood_figures import ood_drawings
from socratic_experiments.reporting.shift_figures import (
    closeness_drawings,
    corruption_drawings,
    rotation_drawings,
    sweep_drawings,
)
from socratic_experiments.reporting.summaries import Record, usual
from socratic_experiments.reporting.tables import trains_of

_BY_EXPERIMENT = {
    "ood": ood_drawings,
    "rotation": rotation_drawings,
    "corruption": corruption_drawings,
    "closeness": closeness_drawings,
    "sweep": sweep_drawings,
}


def drawings(records: Sequence[Record], experiment: str | None = None) -> list[Drawing]:
    """The figures of one experiment, or of all: name, title, caption and what draws them."""
    records = usual(records)
    return [
        drawing
        for name, draw in _BY_EXPERIMENT.items()
        if experiment in (None, name)
        for train in trains_of(records, name)
        for drawing in draw(records, train)
    ]


def save_figures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw every figure into ``folder``, which is made if need be, as PNG and SVG, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    return [path for drawing in drawings(records) for path in save_figure(drawing.draw(), folder, drawing.name)]
