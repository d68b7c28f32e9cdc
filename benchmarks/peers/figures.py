"""Figures of the page: times along each axis of the sweep."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.points import AXES, TASKS
from benchmarks.peers.results import Results
from socratic.pages import clean, new_figure, save_figure

COLOURS = {"socratic": "#c0392b", "SPFlow": "#2c6fbb", "cirkit": "#3a8f4d", "PyJuice": "#8e5ea2"}


def file_name(results: Results) -> str:
    """The name of a device's figure."""
    return f"benchmarks-{results.device}.svg"


def draw(results: Results, folder: Path) -> None:
    """Draw times over all axes."""
    figure = new_figure(height=4.2, width=9.0)
    grid = figure.subplots(len(TASKS), len(AXES), sharey="row")
    for row, task in zip(grid, TASKS, strict=True):
        for place, (axis, label) in zip(row, AXES.items(), strict=True):
            for library, times in results.times(task, axis).items():
                x, y = zip(*times, strict=True)
                place.plot(x, [1e3 * seconds for seconds in y], "o-", color=COLOURS[library], label=library)
            place.set(xscale="log", yscale="log", xlabel=label, ylabel=f"{task}, ms" if axis == "n_sums" else None)
            ticks = [value for value, _ in results.times(task, axis).get("socratic", [])]
            place.set_xticks(ticks, [f"{tick:,}" for tick in ticks], minor=False)
            place.set_xticks([], minor=True)
            clean(place)
    if grid[0][0].lines:
        grid[0][0].legend(fontsize=7, frameon=False)
    save_figure(figure, folder, Path(file_name(results)).stem, kinds=["svg"])
