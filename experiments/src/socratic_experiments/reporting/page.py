"""Results as one web page: tables, then figures, settings and the numbers of every seed."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from socratic.pages import figure_element, page, png_uri, table, write_page
from socratic_experiments.reporting.figures import drawings, save_figures
from socratic_experiments.reporting.sections import SECTIONS, tables_of
from socratic_experiments.reporting.statements import statements
from socratic_experiments.reporting.summaries import (
    NOTHING,
    Record,
    distinct,
    is_number,
    read_folder,
    read_folders,
    select,
    set_title,
)
from socratic_experiments.reporting.tables import Table, accuracy_table, settings_table

PAGE, FIGURES, SAMPLES = "index.html", "figures", "samples.png"


def results_page(records: Sequence[Record], settings: Mapping[str, Any], samples: Sequence[Path] = ()) -> str:
    """Results as HTML.

    Parameters
    ----------
    records : sequence of dict
    settings : mapping
        Shown by name.
    samples : sequence of Path
        PNG files with examples of the images, shown after the first tables.
    """
    from socratic import __version__

    trains = " and ".join(set_title(name) for name in distinct(records, "train")) or "no records"
    parts = [f"<h1>What is known and what is not: {html.escape(trains)}</h1>", *_spread(records)]
    words, examples = _words(records), _samples(samples)  # after the first tables
    for name, section in SECTIONS.items():
        tables = tables_of(records, name)
        if tables:
            parts += [f"<h2>{section.title}</h2>", f"<p>{html.escape(section.words)}</p>"]
            parts += map(_titled, tables)
            parts += [*words, *examples, *_figures(records, name)]
            words, examples = [], []
    trained = accuracy_table(records)
    if trained.rows:
        parts += ["<h2>Accuracy</h2>", _plain(trained), *words]
    if settings:
        parts += ["<h2>Settings</h2>", _plain(settings_table(settings))]
    parts += _details(records)
    parts.append(f"<p class=quiet>socratic {html.escape(__version__)}</p>")
    return page(f"socratic: {trains}", "\n".join(parts))


def write_report(folder: Path) -> list[Path]:
    """Draw the figures and write the page of the results in ``folder``, and return all files written."""
    return _write(folder, *read_folder(folder), [folder])


def write_joint_report(folders: Sequence[Path], folder: Path) -> list[Path]:
    """The same of the results in several folders together, in a folder of its own."""
    records, settings = read_folders(folders)
    named = {one.name: told for one, told in zip(folders, settings, strict=True)}
    return _write(folder, records, named, folders)


def _write(folder: Path, records: Sequence[Record], settings: Mapping[str, Any], sources: Sequence[Path]) -> list[Path]:
    written = save_figures(records, folder / FIGURES)
    samples = [path for source in sources if (path := source / SAMPLES).is_file()]
    write_page(folder / PAGE, results_page(records, settings, samples))
    return [*written, folder / PAGE]


def _spread(records: Sequence[Record]) -> list[str]:
    n_seeds = len(distinct(records, "seed"))
    if n_seeds < 2:
        return []
    text = f"Numbers with ± are means over up to {n_seeds} seeds and half the range. Bands: smallest to largest."
    return [f"<p class=quiet>{text}</p>"]


def _words(records: Sequence[Record]) -> list[str]:
    said = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in statements(records))
    return [f"<h3>In words</h3>\n<ul>{said}</ul>"] if said else []


def _plain(one: Table) -> str:
    note = f"<p class=quiet>{html.escape(one.note)}</p>" if one.note else ""
    return table(one.headings, one.rows, one.n_names) + note


def _titled(one: Table) -> str:
    return f"<h3>{html.escape(one.title)}</h3>\n{_plain(one)}"


def _samples(samples: Sequence[Path]) -> list[str]:
    images = [f'<img src="{png_uri(path.read_bytes())}" alt="Examples of the images">' for path in samples]
    caption = "<figcaption>Examples of the images.</figcaption>"
    return [f'<figure class="broad">{image}{caption}</figure>' for image in images]


def _figures(records: Sequence[Record], experiment: str) -> Iterator[str]:
    for one in drawings(records, experiment):
        yield f"<h3>{html.escape(one.title)}</h3>"
        yield figure_element(one.draw(), one.name, one.title, one.caption, broad=True)


def _details(records: Sequence[Record]) -> Iterator[str]:
    """The single numbers of every record, folded."""
    if records:
        yield "<h2>Every seed</h2>"
    for experiment in distinct(records, "experiment"):
        found = select(records, experiment=experiment)
        fields = dict.fromkeys(name for record in found for name in record)
        kept = [name for name in fields if name != "experiment" and not _holds_lists(found, name)]
        rows = [[_cell(record.get(name)) for name in kept] for record in found]
        title = SECTIONS[experiment].title if experiment in SECTIONS else experiment.capitalize()
        yield f"<details><summary>{html.escape(title)}: {len(rows)} records</summary>{table(kept, rows, 3)}</details>"


def _holds_lists(records: Sequence[Record], name: str) -> bool:
    return any(isinstance(record.get(name), (list, dict)) for record in records)


def _cell(value: Any) -> str:
    if value is None:
        return NOTHING
    return f"{value:.5g}" if isinstance(value, float) and is_number(value) else str(value)
