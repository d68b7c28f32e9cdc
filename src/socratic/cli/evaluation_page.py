"""An evaluation as one web page: its tables and plots."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from socratic.cli.measure_tables import Sheet
from socratic.pages import clean, figure_element, new_figure, page, table

_CAPTIONS = {
    "risk_coverage": "Errors among the rows that are answered, the most certain first. The dot is what the model does.",
    "reliability": "How often the predicted class is right, by its probability; larger dots stand for more rows.",
    "scores_p_value": "p-values, which are small for unfamiliar rows.",
    "scores_entropy": "Entropy of the prediction, in nats.",
    "scores_log_likelihood": "How unlikely rows are.",
}


def evaluation_page(name: str, shown: Sequence[Sheet], plots: Mapping[str, Callable[[Any], None]]) -> str:
    """A page with everything that was measured.

    Parameters
    ----------
    name : str
        Of the data.
    shown : sequence of Sheet
    plots : mapping of str to callable
        What draws each plot on axes.
    """
    from socratic import __version__

    figures = "".join(_figure(title, draw) for title, draw in plots.items())
    parts = [
        f"<h1>Evaluation of {html.escape(name)}</h1>",
        *(_section(sheet) for sheet in shown),
        f'<h2>Plots</h2>\n<div class="figures">{figures}</div>',
        f"<p class=quiet>socratic {html.escape(__version__)}</p>",
    ]
    return page(f"Evaluation of {name}", "\n".join(parts))


def _section(sheet: Sheet) -> str:
    title = f"<h2>{html.escape(sheet.title[:1].upper() + sheet.title[1:])}</h2>\n" if sheet.title else ""
    return title + table(sheet.headings, sheet.rows)


def _figure(name: str, draw: Callable[[Any], None]) -> str:
    figure = new_figure(3.6)
    axes = figure.subplots()
    draw(axes)
    clean(axes)
    return figure_element(figure, name.replace("_", "-"), _CAPTIONS[name], _CAPTIONS[name])
