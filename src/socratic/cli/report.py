"""Reports as web pages in one file: figures and pictures inside, nothing loaded from elsewhere."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from socratic.cli.tabular import replacing

# Colours that the page chooses by light and dark; figures are drawn in these and refer to the names in the end.
_INK, _FAINT = "#010101", "#020202"
_PALETTE = ("#030303", "#040404", "#050505", "#060606", "#070707")
_NAMES = {_INK: "ink", _FAINT: "faint", **{colour: f"line-{index}" for index, colour in enumerate(_PALETTE)}}
_MARKERS = "osD^v"

_STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfc; --ink: #1d1f21; --faint: #d9dadb; --quiet: #5c6166;
  --line-0: #0072b2; --line-1: #b85c00; --line-2: #00805c; --line-3: #a8437f; --line-4: #5c6166; }
@media (prefers-color-scheme: dark) { :root { --paper: #17191b; --ink: #e6e7e8; --faint: #3a3e42; --quiet: #a5abb0;
  --line-0: #56b4e9; --line-1: #e69f00; --line-2: #2fc39a; --line-3: #e08fc2; --line-4: #a5abb0; } }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin-bottom: 0.5rem; } p, li { max-width: 46rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.8rem 0.3rem 0; text-align: right; border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child { text-align: left; white-space: nowrap; }
.figures { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
figure { margin: 0; } figure > svg { width: 100%; max-width: 32rem; height: auto; }
figcaption, .quiet { color: var(--quiet); font-size: 0.875rem; }
.cards { display: flex; flex-wrap: wrap; gap: 0.75rem; } .cards figure { width: 4.5rem; }
.cards img { width: 100%; image-rendering: pixelated; border: 2px solid var(--line-2); border-radius: 4px; }
.cards .refused img { border-color: var(--line-1); border-style: dashed; }
"""


@dataclass(frozen=True)
class Row:
    """How one method does: a row of the comparison.

    Attributes
    ----------
    method : str
    auroc : float
        Known against unknown images.
    entropies : tuple of float, or None
        Mean entropy of the test digits, turned ones, noisy ones, and of the unknown images.
    accuracy : float or None
        Of the test digits.
    seconds : float
        For a thousand rows.
    """

    HEADINGS: ClassVar[tuple[str, ...]] = (
        "on the same circuit",
        "AUROC",
        "entropy:\ndigits",
        "turned\n45°",
        "noise\n3",
        "patches",
        "right",
        "sec.",
    )

    method: str
    auroc: float
    entropies: tuple[float, ...] | None
    accuracy: float | None
    seconds: float

    def cells(self) -> list[str]:
        """The row as text."""
        entropies = ["-"] * 4 if self.entropies is None else [f"{value:.2f}" for value in self.entropies]
        accuracy = "-" if self.accuracy is None else f"{self.accuracy:.1%}"
        return [self.method, f"{self.auroc:.4f}", *entropies, accuracy, f"{self.seconds:.2f}"]


@dataclass(frozen=True, eq=False)
class Shift:
    """Digits changed more and more: one example image, accuracy, share refused and entropies for each level."""

    name: str
    label: str
    levels: Sequence[str]
    samples: Sequence[np.ndarray]
    accuracy: Sequence[float]
    refused: Sequence[float]
    entropies: Mapping[str, Sequence[float]]
    p_values: Sequence[np.ndarray]


@dataclass(frozen=True, eq=False)
class Card:
    """An image with the classifier's answer; ``label`` is None where no answer is right."""

    image: np.ndarray
    answer: str
    label: str | None
    p_value: float
    refused: bool


def demo_page(
    rows: Sequence[Row],
    shifts: Sequence[Shift],
    p_values: Mapping[str, np.ndarray],
    rate: float,
    cards: Mapping[str, Sequence[Card]],
    words: Sequence[str],
    seed: int,
) -> str:
    """The report of the demo as HTML."""
    from socratic import __version__

    parts = [
        "<h1>Digits, and what is not a digit</h1>",
        *(f"<p>{html.escape(line)}</p>" for line in words),
        "<h2>One circuit, seven questions</h2>",
        _table(Row.HEADINGS, [row.cells() for row in rows]),
        "<p class=quiet>All rows use the same trained weights. AUROC: how often a photograph patch is more unusual "
        "than a test digit, by entropy, by -log p(x), or by the detector's p-value (ties count half). Entropy in nats, "
        "the mean of each set. Seconds for 1,000 rows, by one thread of this machine.</p>",
        "<h2>Known digits, changed more and more</h2>",
        "<p>Entropy should rise as accuracy falls. Where it stays low the circuit is sure and wrong; the share "
        "refused, which rests on log p(x) as well, tells whether that is caught.</p>",
        f'<div class="figures">{"".join(_shift_figure(shift) for shift in shifts)}</div>',
        "<h2>What is refused</h2>",
        f"<p>The p-value of an image is the share of familiar images that are at least as unusual. Images with a "
        f"p-value of at most {rate:.0%} are refused. On familiar images p-values are spread evenly, so at most "
        f"{rate:.0%} of them are refused on average over calibrations.</p>",
        f'<div class="figures">{_p_value_figure(p_values, rate)}</div>',
        "<h2>Examples</h2>",
        *(_cards(name, group) for name, group in cards.items()),
        f"<p class=quiet>socratic {html.escape(__version__)}, seed {seed}. Digits and photographs are those "
        "that come with scikit-learn.</p>",
    ]
    return page("socratic demo", "\n".join(parts))


def page(title: str, body: str) -> str:
    """A complete page in light and dark, for small and large screens."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def write_page(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, completely or not at all."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def inline_svg(figure: Any, name: str, alt: str) -> str:
    """A Matplotlib figure as SVG within a page, drawn in the page's colours; ``name`` is unique in the page."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    for colour, variable in _NAMES.items():
        text = text.replace(colour, f"var(--{variable})")
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(alt, quote=True)}"', 1)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in headings)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _shift_figure(shift: Shift) -> str:
    figure = _new_figure(4.6)
    places = range(len(shift.levels))
    grid = figure.add_gridspec(3, len(shift.levels), height_ratios=[0.55, 1.6, 2.0])
    for place, image in zip(places, shift.samples, strict=True):
        axis = figure.add_subplot(grid[0, place])
        axis.imshow(image, cmap="gray", vmin=0, vmax=16)
        axis.set_axis_off()
    shares, entropies = figure.add_subplot(grid[1, :]), figure.add_subplot(grid[2, :])
    shares.plot(places, shift.accuracy, "o-", color=_PALETTE[0], label="accuracy")
    shares.plot(places, shift.refused, "s--", color=_PALETTE[1], label="share refused")
    shares.set(ylim=(-0.05, 1.05), ylabel="share", xticks=places, xticklabels=[])
    for colour, marker, (name, values) in zip(_PALETTE, _MARKERS, shift.entropies.items(), strict=False):
        entropies.plot(places, values, marker=marker, color=colour, label=name)
    entropies.set(ylim=(0, None), ylabel="mean entropy (nats)", xlabel=f"{shift.name.lower()}: {shift.label}")
    entropies.set_xticks(places, shift.levels)
    for axis in (shares, entropies):
        _clean(axis)
        axis.legend(frameon=False, fontsize=7, labelcolor=_INK, handlelength=2.5)
    last = {name: values[-1] for name, values in shift.entropies.items()}
    alt = (
        f"{shift.name}, from {shift.levels[0]} to {shift.levels[-1]}: accuracy goes from {shift.accuracy[0]:.0%} to "
        f"{shift.accuracy[-1]:.0%}, the share refused from {shift.refused[0]:.0%} to {shift.refused[-1]:.0%}. Mean "
        "entropy at the end: " + ", ".join(f"{name} {value:.2f}" for name, value in last.items()) + "."
    )
    return _figure(figure, shift.name.lower(), alt, f"{shift.name}. The strip shows one of the test digits.")


def _p_value_figure(p_values: Mapping[str, np.ndarray], rate: float) -> str:
    figure = _new_figure(4.2)
    axes = figure.subplots(len(p_values), 1, sharex=True)
    edges = np.linspace(0.0, 1.0, 21)
    for axis, (name, values) in zip(axes, p_values.items(), strict=True):
        shares = np.histogram(values, edges)[0] / len(values)
        axis.bar(edges[:-1], shares, width=0.05, align="edge", color=_PALETTE[0], edgecolor="none")
        axis.axvline(rate, color=_PALETTE[1], linestyle="--")
        axis.set_title(f"{name}: {np.mean(values <= rate):.1%} refused", fontsize=8, loc="left", color=_INK)
        axis.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axis.set(xlim=(0, 1))
        _clean(axis)
    axes[-1].set_xlabel("p-value")
    refused = "; ".join(f"{name}, {np.mean(values <= rate):.1%} refused" for name, values in p_values.items())
    alt = f"Histograms of p-values. {refused}."
    caption = "p-values in twentieths. What lies left of the dashed line is refused. Mind the scales: they differ."
    return _figure(figure, "p-values", alt, caption)


def _cards(name: str, group: Sequence[Card]) -> str:
    figures = "".join(_card(card) for card in group)
    return f'<h3>{html.escape(name)}</h3>\n<div class="cards">{figures or "<p>None.</p>"}</div>'


def _card(card: Card) -> str:
    shown = f"p-value {card.p_value:.3f}"
    truth = "no digit" if card.label is None else f"a {card.label}"
    alt = f"Picture of {truth}; {'refused' if card.refused else 'answered'}, {shown}"
    verdict = f"refused (would say {card.answer})" if card.refused else f"says {card.answer}"
    wrong = card.label is not None and card.answer != card.label
    lines = [verdict, *([f"is {card.label}"] if wrong else []), f"p = {card.p_value:.3f}"]
    caption = "<br>".join(html.escape(line) for line in lines)
    kind = ' class="refused"' if card.refused else ""
    return (
        f'<figure{kind}><img src="{_png(card.image)}" alt="{html.escape(alt, quote=True)}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _png(image: np.ndarray) -> str:
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, image, cmap="gray", vmin=0, vmax=16, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _new_figure(height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(4.4, height), layout="constrained")


def _clean(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(_INK)
    axis.tick_params(colors=_INK, labelsize=7)
    axis.xaxis.label.set(color=_INK, fontsize=8)
    axis.yaxis.label.set(color=_INK, fontsize=8)
    axis.grid(color=_FAINT, linewidth=0.5)
    axis.set_axisbelow(True)
    for line in axis.lines:
        line.set(linewidth=1.3, markersize=3.5)


def _figure(figure: Any, name: str, alt: str, caption: str) -> str:
    return f"<figure>{inline_svg(figure, name, alt)}<figcaption>{html.escape(caption)}</figcaption></figure>"
