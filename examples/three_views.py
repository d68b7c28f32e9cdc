"""A circuit drawn three times: plain, under one sampled mask, and with its moments over all masks.

``python -m examples.three_views docs/images/three-views.svg`` draws Figure 2 of the TDI paper, with values.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import torch

import socratic
from socratic import Graph, Leaf, Picture, Product, Sum
from socratic.families import Bernoulli

ROW = (1.0, 1.0, 0.0)
DROPOUT = 0.2
SEED = 79
"""Of a mask that drops what the paper's does: the first product of one sum and the last of the other."""
_SVG = "http://www.w3.org/2000/svg"
_TITLE_HEIGHT, _GAP = 30.0, 30.0


def circuit() -> Graph:
    """The paper's tree: three sums, six products, and ten leaves over X1, X2 and X3."""

    def leaf(variable: int, probability: float) -> Leaf:
        return Leaf(variable, Bernoulli.of(probability))

    left = Sum((Product((leaf(0, 0.9), leaf(1, 0.2))), Product((leaf(0, 0.3), leaf(1, 0.6)))), (0.6, 0.4))
    right = Sum((Product((leaf(1, 0.7), leaf(2, 0.4))), Product((leaf(1, 0.1), leaf(2, 0.8)))), (0.7, 0.3))
    root = Sum((Product((left, leaf(2, 0.5))), Product((leaf(0, 0.8), right))), (0.5, 0.5))
    return Graph(root, dtype=torch.float64)


def views() -> dict[str, Picture]:
    """The three pictures by title. As in the paper's text, the root drops children too."""
    draw = partial(socratic.draw, circuit(), ROW, feature_names=["X1", "X2", "X3"], class_names=["S"])
    return {
        "Probabilistic inference": draw(dropout=0.0),
        "Monte Carlo dropout, one pass": draw(dropout=DROPOUT, root_dropout=True, seed=SEED),
        "Tractable dropout inference": draw(dropout=DROPOUT, root_dropout=True),
    }


def beside(pictures: dict[str, Picture]) -> bytes:
    """One SVG with the pictures side by side, each below its title."""
    ElementTree.register_namespace("", _SVG)
    panels = [ElementTree.fromstring(picture.svg()) for picture in pictures.values()]
    widths, heights = (
        [float(panel.attrib[side].removesuffix("pt")) for panel in panels] for side in ("width", "height")
    )
    width, height = sum(widths) + _GAP * (len(panels) - 1), max(heights) + _TITLE_HEIGHT
    whole = ElementTree.Element(
        f"{{{_SVG}}}svg", width=f"{width}pt", height=f"{height}pt", viewBox=f"0 0 {width} {height}"
    )
    ElementTree.SubElement(whole, f"{{{_SVG}}}rect", width="100%", height="100%", fill="white")
    left = 0.0
    for title, panel, own_width, own_height in zip(pictures, panels, widths, heights, strict=True):
        place = {"x": f"{left + own_width / 2}", "y": "20", "text-anchor": "middle"}
        text = {"font-family": "Helvetica,sans-Serif", "font-size": "16"}
        ElementTree.SubElement(whole, f"{{{_SVG}}}text", {**place, **text}).text = title
        panel.attrib.update(x=f"{left}", y=f"{_TITLE_HEIGHT}", width=f"{own_width}", height=f"{own_height}")
        for element in panel.iter():
            element.attrib.pop("id", None)  # graphviz numbers each picture from 1: an id must be the only one
        whole.append(panel)
        left += own_width + _GAP
    return ElementTree.tostring(whole, encoding="utf-8", xml_declaration=True) + b"\n"


def main() -> None:
    """Draw the views into the file that is named."""
    if len(sys.argv) != 2:
        sys.exit("name the SVG file to write: python -m examples.three_views three-views.svg")
    Path(sys.argv[1]).write_bytes(beside(views()))


if __name__ == "__main__":
    main()
