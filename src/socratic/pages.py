"""Web pages in one file, with figures and pictures inside and nothing loaded from elsewhere; figures as files."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from socratic.files import replacing

__all__ = [
    "FAINT",
    "INK",
    "MARKERS",
    "PALETTE",
    "clean",
    "figure_element",
    "inline_svg",
    "new_figure",
    "page",
    "png_uri",
    "save_figure",
    "table",
    "write_page",
]

# Figures are drawn in the light colours. A page refers to them by their names and so can show them in dark.
_LIGHT = {
    "paper": "#fdfdfc",
    "ink": "#1d1f21",
    "faint": "#d9dadb",
    "quiet": "#5c6166",
    "line-0": "#0072b2",
    "line-1": "#b85c00",
    "line-2": "#00805c",
    "line-3": "#a8437f",
    "line-4": "#6b6f73",
    "line-5": "#8a7a00",
    "line-6": "#5b4bb5",
    "line-7": "#c0392b",
}
_DARK = {
    "paper": "#17191b",
    "ink": "#e6e7e8",
    "faint": "#3a3e42",
    "quiet": "#a5abb0",
    "line-0": "#56b4e9",
    "line-1": "#e69f00",
    "line-2": "#2fc39a",
    "line-3": "#e08fc2",
    "line-4": "#b3b8bc",
    "line-5": "#d8cb4a",
    "line-6": "#a99df0",
    "line-7": "#ff8a7a",
}
INK, FAINT = _LIGHT["ink"], _LIGHT["faint"]
PALETTE = tuple(colour for name, colour in _LIGHT.items() if name.startswith("line"))
MARKERS = "osD^vPX*"


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


_COLOURS = f"""
:root {{ color-scheme: light dark; {_variables(_LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(_DARK)} }} }}
"""
_STYLE = """
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin-bottom: 0.5rem; } p, li { max-width: 46rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.8rem 0.3rem 0; text-align: right; border-bottom: 1px solid var(--faint); }
th { vertical-align: bottom; } td { white-space: nowrap; } .name { text-align: left; }
.figures { display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
figure { margin: 0; } figure > svg { width: 100%; max-width: 32rem; height: auto; }
.broad { margin: 1.5rem 0; } .broad > .wide > svg { width: 100%; min-width: var(--least); height: auto; }
figcaption, .quiet { color: var(--quiet); font-size: 0.875rem; max-width: 60rem; }
.cards { display: flex; flex-wrap: wrap; gap: 0.75rem; } .cards figure { width: 4.5rem; }
.cards img { width: 100%; image-rendering: pixelated; border: 2px solid var(--line-2); border-radius: 4px; }
.cards .refused img { border-color: var(--line-1); border-style: dashed; }
.broad img { max-width: 100%; } summary { cursor: pointer; }
"""


def page(title: str, body: str) -> str:
    """A complete page in light and dark, for small and large screens."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_COLOURS}{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def write_page(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, completely or not at all."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], n_names: int = 1) -> str:
    """A table as HTML; its first ``n_names`` columns are text and stand left, the others are numbers."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        kinds = [' class="name"' if place < n_names else "" for place in range(len(texts))]
        return "".join(f"<{tag}{kind}>{html.escape(text)}</{tag[:2]}>" for kind, text in zip(kinds, texts, strict=True))

    head = cells('th scope="col"', headings)
    body = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in rows)
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def inline_svg(figure: Any, name: str, alt: str) -> str:
    """A Matplotlib figure as SVG within a page, drawn in the page's colours; ``name`` is unique in the page."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    prefix = re.sub(r"[^\w-]", "-", name)  # it stands in attributes
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", text)
    for variable, colour in _LIGHT.items():
        text = text.replace(colour, f"var(--{variable})")
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(alt, quote=True)}"', 1)


def figure_element(figure: Any, name: str, alt: str, caption: str, *, broad: bool = False) -> str:
    """A Matplotlib figure with its caption; a broad one takes the whole width and scrolls on small screens."""
    drawing, words = inline_svg(figure, name, alt), f"<figcaption>{html.escape(caption)}</figcaption>"
    if broad:
        width = 8.2 * figure.get_figwidth()  # letters of one size in all figures
        style = f'class="broad" style="max-width: {width:.0f}rem; --least: {min(38.0, width):.0f}rem"'
        return f'<figure {style}><div class="wide" tabindex="0">{drawing}</div>{words}</figure>'
    return f"<figure>{drawing}{words}</figure>"


def png_uri(data: bytes) -> str:
    """The content of a PNG file as an address within the page."""
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def new_figure(height: float, width: float = 4.4) -> Any:
    """An empty Matplotlib figure of this size in inches, drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def clean(axis: Any) -> None:
    """Give a plot the look of the pages: few lines, small letters."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(INK)
    axis.tick_params(colors=INK, labelsize=7)
    axis.xaxis.label.set(color=INK, fontsize=8)
    axis.yaxis.label.set(color=INK, fontsize=8)
    axis.grid(color=FAINT, linewidth=0.5)
    axis.set_axisbelow(True)
    for line in axis.lines:
        line.set(linewidth=1.3, markersize=3.5)


def save_figure(figure: Any, folder: Path, name: str, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure to ``folder`` as PNG and SVG and return the files."""
    from matplotlib import rc_context

    written = []
    for kind in kinds:
        path = folder / f"{name}.{kind}"
        # Neither dates nor random names in the files: the same results give the same bytes.
        metadata: dict[str, Any] = (
            {"Date": None, "Creator": None, "Format": None, "Type": None} if kind == "svg" else {"Software": None}
        )
        with replacing(path) as draft, rc_context({"svg.hashsalt": "socratic"}):
            figure.savefig(draft, format=kind, dpi=150, metadata=metadata)
        written.append(path)
    return written
