"""Results as a page of the documentation, generated from records only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from socratic.files import replacing
from socratic.pages import save_figure
from socratic_experiments.reporting.figures import drawings
from socratic_experiments.reporting.sections import SECTIONS, tables_of
from socratic_experiments.reporting.statements import statements
from socratic_experiments.reporting.summaries import (
    Record,
    distinct,
    read_folders,
    select,
    set_title,
    unique,
)
from socratic_experiments.reporting.tables import Table, accuracy_table, recipes_table, runs_table, trains_of

IMAGES = "images"
_WHY = "Why the published figures may differ: [the published evaluation](errata.md#4-the-published-evaluation)."


def results_markdown(records: Sequence[Record], settings: Sequence[Mapping[str, Any]] = (), note: str = "") -> str:
    """The whole page as Markdown.

    Parameters
    ----------
    records : sequence of dict
        Of one or more runs.
    settings : sequence of mapping
        The settings of each run.
    note : str
        A paragraph that the records cannot know, such as where the images are from.
    """
    records = unique(records)
    parts = ["# Results", *_origin(records, settings), *([note.strip()] if note else [])]
    said = statements(records)
    if said:
        parts += ["## What reproduces and what does not", "\n".join(f"- {sentence}" for sentence in said), _WHY]
    trained = accuracy_table(records)
    if trained.rows:
        parts += ["## Accuracy", _table(trained)]
    for name, section in SECTIONS.items():
        tables = list(_tables(records, name))
        if tables:
            parts += [f"## {section.title}", section.words, *tables, *_images(records, name)]
    parts += _settings(records, settings)
    return "\n\n".join(parts) + "\n"


def write_markdown(folders: Sequence[Path], path: Path, note: str = "") -> list[Path]:
    """Write the page on the results in ``folders`` to ``path``, its figures beside it, and return the files."""
    records, settings = read_folders(folders)
    images = path.parent / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    written = [
        file for one in drawings(records) if one.main for file in save_figure(one.draw(), images, one.name, ("svg",))
    ]
    with replacing(path) as draft:
        draft.write_text(results_markdown(records, settings, note), encoding="utf-8")
    return [*written, path]


def _origin(records: Sequence[Record], settings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How the numbers were made."""
    experiments = sorted(name for name in distinct(records, "experiment") if name != "training")
    trains, seeds = sorted(distinct(records, "train")), distinct(records, "seed")
    devices = distinct(select(records, experiment="training"), "device")
    lines = [
        "This page is generated from the records of `socratic-experiments`; no number in it is written by hand.",
        f"Experiments: {_listed(experiments)}. Trained on: {_listed([set_title(name) for name in trains])}. "
        f"Seeds: {_listed([str(seed) for seed in sorted(seeds)])}."
        + (f" Hardware: {_listed(devices)}." if devices else ""),
    ]
    if len(seeds) > 1:
        lines.append("Numbers with ± are means over seeds and half the range, (largest - smallest) / 2.")
    lines.append("Times are those of the runs, which may have shared the device; `benchmarks/` measures speed.")
    if any(settings):
        lines.append("The settings stand at the end.")
    yield "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _tables(records: Sequence[Record], experiment: str) -> Iterator[str]:
    for one in tables_of(records, experiment):
        yield f"### {one.title}"
        yield _table(one)


def _table(one: Table) -> str:
    """A table; a bar within a cell would end it."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    marks = ["---" if place < one.n_names else "--:" for place in range(len(one.headings))]
    text = "\n".join([line(one.headings), line(marks), *map(line, one.rows)])
    return f"{text}\n\n{one.note}" if one.note else text


def _images(records: Sequence[Record], experiment: str) -> Iterator[str]:
    for one in drawings(records, experiment):
        if one.main:
            yield f"![{one.title}]({IMAGES}/{one.name}.svg)"
            yield f"*{one.title}.* {one.caption}"


def _settings(records: Sequence[Record], settings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How the models were made, and what each run was told."""
    parts = [recipes_table(records, train) for train in trains_of(records, "training")]
    given = list({json.dumps(one, sort_keys=True): one for one in settings if one}.values())
    parts += [runs_table(given)] if given else []
    if parts:
        yield "## Settings"
    for one in parts:
        yield f"### {one.title}"
        yield _table(one)
