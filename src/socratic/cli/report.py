"""The demo's report: one web page with figures and pictures."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from socratic.pages import INK, MARKERS, PALETTE, clean, figure_element, new_figure, page, png_uri, table

BRIGHTEST = 16.0
"""The largest value of a pixel."""
_HOTTEST = 10.0
"""Nats above what is usual that are drawn in the brightest colour."""


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
    """An image with the classifier's answer.

    ``label`` is None where no answer is right, and ``heat`` unless the image was refused: in nats, how much more
    surprising each pixel is, given all others, than in familiar images.
    """

    image: np.ndarray
    answer: str
    label: str | None
    p_value: float
    heat: np.ndarray | None

    @property
    def refused(self) -> bool:
        """Whether there is a reason to show."""
        return self.heat is not None


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
        table(Row.HEADINGS, [row.cells() for row in rows]),
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
        "<p>Below a picture that was refused is the reason: the brighter a pixel, the more surprising it is given all "
        "others, compared with the same pixel of familiar pictures. Black is as usual, or less; the brightest are "
        f"{_HOTTEST:.0f} nats above and more.</p>",
        *(_cards(name, group) for name, group in cards.items()),
        f"<p class=quiet>socratic {html.escape(__version__)}, seed {seed}. Digits and photographs are those "
        "that come with scikit-learn.</p>",
    ]
    return page("socratic demo", "\n".join(parts))


def _shift_figure(shift: Shift) -> str:
    figure = new_figure(4.6)
    places = range(len(shift.levels))
    grid = figure.add_gridspec(3, len(shift.levels), height_ratios=[0.55, 1.6, 2.0])
    for place, image in zip(places, shift.samples, strict=True):
        axis = figure.add_subplot(grid[0, place])
        axis.imshow(image, cmap="gray", vmin=0, vmax=BRIGHTEST)
        axis.set_axis_off()
    shares, entropies = figure.add_subplot(grid[1, :]), figure.add_subplot(grid[2, :])
    shares.plot(places, shift.accuracy, "o-", color=PALETTE[0], label="accuracy")
    shares.plot(places, shift.refused, "s--", color=PALETTE[1], label="share refused")
    shares.set(ylim=(-0.05, 1.05), ylabel="share", xticks=places, xticklabels=[])
    for colour, marker, (name, values) in zip(PALETTE, MARKERS, shift.entropies.items(), strict=False):
        entropies.plot(places, values, marker=marker, color=colour, label=name)
    entropies.set(ylim=(0, None), ylabel="mean entropy (nats)", xlabel=f"{shift.name.lower()}: {shift.label}")
    entropies.set_xticks(places, shift.levels)
    for axis in (shares, entropies):
        clean(axis)
        axis.legend(frameon=False, fontsize=7, labelcolor=INK, handlelength=2.5)
    last = {name: values[-1] for name, values in shift.entropies.items()}
    alt = (
        f"{shift.name}, from {shift.levels[0]} to {shift.levels[-1]}: accuracy goes from {shift.accuracy[0]:.0%} to "
        f"{shift.accuracy[-1]:.0%}, the share refused from {shift.refused[0]:.0%} to {shift.refused[-1]:.0%}. Mean "
        "entropy at the end: " + ", ".join(f"{name} {value:.2f}" for name, value in last.items()) + "."
    )
    return figure_element(figure, shift.name.lower(), alt, f"{shift.name}. The strip shows one of the test digits.")


def _p_value_figure(p_values: Mapping[str, np.ndarray], rate: float) -> str:
    figure = new_figure(4.2)
    axes = figure.subplots(len(p_values), 1, sharex=True)
    edges = np.linspace(0.0, 1.0, 21)
    for axis, (name, values) in zip(axes, p_values.items(), strict=True):
        shares = np.histogram(values, edges)[0] / len(values)
        axis.bar(edges[:-1], shares, width=0.05, align="edge", color=PALETTE[0], edgecolor="none")
        axis.axvline(rate, color=PALETTE[1], linestyle="--")
        axis.set_title(f"{name}: {np.mean(values <= rate):.1%} refused", fontsize=8, loc="left", color=INK)
        axis.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axis.set(xlim=(0, 1))
        clean(axis)
    axes[-1].set_xlabel("p-value")
    refused = "; ".join(f"{name}, {np.mean(values <= rate):.1%} refused" for name, values in p_values.items())
    alt = f"Histograms of p-values. {refused}."
    caption = "p-values in twentieths. What lies left of the dashed line is refused. Mind the scales: they differ."
    return figure_element(figure, "p-values", alt, caption)


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
    pictures = _picture(card.image, alt, "gray", BRIGHTEST)
    if card.heat is not None:
        row, column = np.unravel_index(card.heat.argmax(), card.heat.shape)
        where = f"Heat map of what is surprising in it: most of all the pixel in row {row + 1}, column {column + 1}"
        pictures += _picture(card.heat, where, "inferno", _HOTTEST)
    kind = ' class="refused"' if card.refused else ""
    return f"<figure{kind}>{pictures}<figcaption>{caption}</figcaption></figure>"


def _picture(image: np.ndarray, alt: str, colours: str, brightest: float) -> str:
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, image, cmap=colours, vmin=0.0, vmax=brightest, format="png")
    return f'<img src="{png_uri(buffer.getvalue())}" alt="{html.escape(alt, quote=True)}">'
