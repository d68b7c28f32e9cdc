"""Plots of an evaluation: risk and coverage, reliability, and the scores of known and other rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from socratic.cli.failures import UserError
from socratic.errors import import_extra
from socratic.pages import save_figure

if TYPE_CHECKING:
    from socratic.cli.evaluate import Results

_KNOWN, _OTHER, _GUIDE = "#0072b2", "#d55e00", "#777777"


def prepare(folder: Path) -> None:
    """Raise unless plots can be drawn into the folder, which is made if need be."""
    import_extra("matplotlib", "plots", "--plots")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--plots {folder} is a file; name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; choose another one") from None


def draw_all(folder: Path, known: Results, unknown: Results | None, rate: float) -> list[Path]:
    """Draw every plot as PNG and SVG and return the files."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    plots: dict[str, Callable[[Any], None]] = {
        "risk_coverage": lambda axes: _risk_coverage(axes, known, rate),
        "reliability": lambda axes: _reliability(axes, known),
    }
    for name in known.scores:
        plots[f"scores_{name.replace('-', '_')}"] = partial(_histogram, name=name, known=known, unknown=unknown)
    written = []
    for title, draw in plots.items():
        figure = Figure(figsize=(5, 4), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots())
        written += save_figure(figure, folder, title)
    return written


def _risk_coverage(axes: Any, known: Results, rate: float) -> None:
    from socratic.uncertainty.metrics import risk_coverage

    correct = known.answer.probabilities.argmax(1) == known.classes
    for name, colour in (("p-value", _KNOWN), ("entropy", _OTHER)):
        curve = risk_coverage(known.scores[name], correct)
        axes.plot(curve.coverage, curve.risk, color=colour, label=f"by {name} (area {curve.area:.3f})")
    axes.axvline(1 - rate, color=_GUIDE, linestyle=":", label=f"refusing {rate:.0%}")
    axes.set(xlabel="share of rows answered", ylabel="share of errors among them", xlim=(0, 1), ylim=(0, None))
    axes.legend()


def _reliability(axes: Any, known: Results, n_bins: int = 15) -> None:
    shares = known.answer.probabilities
    confidence, correct = shares.max(1), shares.argmax(1) == known.classes
    bins = np.searchsorted(np.linspace(0, 1, n_bins + 1)[1:-1], confidence, side="left")
    count = np.bincount(bins, minlength=n_bins)
    used = count > 0
    middle = np.bincount(bins, weights=confidence, minlength=n_bins)[used] / count[used]
    right = np.bincount(bins, weights=correct, minlength=n_bins)[used] / count[used]
    axes.plot([0, 1], [0, 1], color=_GUIDE, linestyle=":", label="as often right as it says")
    axes.plot(middle, right, color=_KNOWN, alpha=0.6)
    axes.scatter(middle, right, s=10 + 120 * count[used] / count.max(), color=_KNOWN, label="rows by confidence")
    axes.set(xlabel="probability of the predicted class", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    axes.legend()


def _histogram(axes: Any, name: str, known: Results, unknown: Results | None) -> None:
    groups = [("data", known.scores[name], _KNOWN)]
    if unknown is not None:
        groups.append(("other rows", unknown.scores[name], _OTHER))
    finite = [scores[np.isfinite(scores)] for _, scores, _ in groups]
    values = np.concatenate(finite)
    sign = -1.0 if name == "p-value" else 1.0  # shown as it is known, small for unfamiliar rows
    # A few extreme rows must not squeeze the others into one bar: they are counted in the outermost ones.
    low, high = (0.0, 1.0) if name == "p-value" else tuple(np.quantile(sign * values, [0.005, 0.995]))
    edges = np.linspace(low, high if high > low else low + 1.0, 41)
    for (label, _, colour), scores in zip(groups, finite, strict=True):
        share = np.full(len(scores), 1.0 / max(1, len(scores)))
        axes.hist(
            np.clip(sign * scores, edges[0], edges[-1]), edges, weights=share, color=colour, alpha=0.6, label=label
        )
    axes.set(xlabel={"log-likelihood": "negative log-likelihood"}.get(name, name), ylabel="share of rows")
    axes.legend()
