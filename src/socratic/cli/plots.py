"""Plots of an evaluation: risk and coverage, reliability, and the scores of known and other rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from socratic.cli.failures import UserError
from socratic.cli.measure_tables import named
from socratic.errors import import_extra
from socratic.pages import PALETTE, new_figure, save_figure
from socratic.uncertainty.ambiguity import FAMILIAR
from socratic.uncertainty.metrics import reliability, risk_coverage

if TYPE_CHECKING:
    from socratic.cli.measures import Results

_KNOWN, _OTHER, _GUIDE = PALETTE[0], PALETTE[1], PALETTE[4]


def prepare(folder: Path) -> None:
    """Raise unless plots can be drawn into the folder, which is made if need be."""
    import_extra("matplotlib", "plots", "--plots")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--plots {folder} is a file; name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}; choose another one") from None


def draw_all(folder: Path, known: Results, unknown: Results | None) -> list[Path]:
    """Draw every plot as PNG and SVG and return the files."""
    written = []
    for name, draw in plots_of(known, unknown).items():
        figure = new_figure(4.0, 5.0)
        draw(figure.subplots())
        written += save_figure(figure, folder, name)
    return written


def plots_of(known: Results, unknown: Results | None) -> dict[str, Callable[[Any], None]]:
    """What draws each plot on axes, by name."""
    histograms = {
        f"scores_{name}": partial(_histogram, name=name, known=known, unknown=unknown)
        for name in ("p_value", "entropy", "log_likelihood")
    }
    return {
        "risk_coverage": partial(_risk_coverage, known=known),
        "reliability": partial(_reliability, known=known),
        **histograms,
    }


def _risk_coverage(axes: Any, known: Results) -> None:
    for name, colour in (("p_value", _KNOWN), ("probability", _OTHER)):
        curve = risk_coverage(known.scores[name], known.correct)
        axes.plot(curve.coverage, curve.risk, color=colour, label=f"by {named(name)} (area {curve.area:.3f})")
    answered = known.verdict == FAMILIAR
    if answered.any():
        point = answered.mean(), 1.0 - known.correct[answered].mean()
        axes.plot(*point, "o", color=_GUIDE, label=f"answered: {point[0]:.0%}, {point[1]:.1%} of them wrong")
    axes.set(xlabel="share of rows answered", ylabel="share of errors among them", xlim=(0, 1.02), ylim=(0, None))
    axes.legend()


def _reliability(axes: Any, known: Results) -> None:
    assert known.classes is not None
    bins = reliability(known.answer.probabilities, known.classes)
    sizes = 10 + 120 * bins.n_rows / bins.n_rows.max()
    axes.plot([0, 1], [0, 1], color=_GUIDE, linestyle=":", label="as often right as it says")
    axes.plot(bins.confidence, bins.accuracy, color=_KNOWN, alpha=0.6)
    axes.scatter(bins.confidence, bins.accuracy, s=sizes, color=_KNOWN, label=f"rows (error {bins.error:.3f})")
    axes.set(xlabel="probability of the predicted class", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    axes.legend()


def _histogram(axes: Any, name: str, known: Results, unknown: Results | None) -> None:
    groups = [("data", known.scores[name], _KNOWN)]
    if unknown is not None:
        groups.append(("other rows", unknown.scores[name], _OTHER))
    finite = [scores[np.isfinite(scores)] for _, scores, _ in groups]
    values = np.concatenate(finite)
    sign = -1.0 if name == "p_value" else 1.0  # shown as it is known, small for unfamiliar rows
    # A few extreme rows must not squeeze the others into one bar: they are counted in the outermost ones.
    low, high = (0.0, 1.0) if name == "p_value" else tuple(np.quantile(sign * values, [0.005, 0.995]))
    edges = np.linspace(low, high if high > low else low + 1.0, 41)
    for (label, _, colour), scores in zip(groups, finite, strict=True):
        share = np.full(len(scores), 1.0 / max(1, len(scores)))
        axes.hist(
            np.clip(sign * scores, edges[0], edges[-1]), edges, weights=share, color=colour, alpha=0.6, label=label
        )
    axes.set(xlabel={"log_likelihood": "negative log-likelihood"}.get(name, named(name)), ylabel="share of rows")
    axes.legend()
