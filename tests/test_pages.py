"""Pages need nothing but themselves, and figures are the same bytes each time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from socratic.pages import PALETTE, figure_element, inline_svg, new_figure, page, save_figure, table, write_page
from tests.html_pages import HOSTILE, PLAIN, check_alone, check_same_structure


def test_figures_in_pages_stand_alone_and_side_by_side(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    figures = []
    for name in ("one", "two"):
        figure = Figure()
        figure.subplots().plot([1, 2], [3, 4], "o-")
        figures.append(inline_svg(figure, name, alt=f'"{name}" & more'))
    write_page(tmp_path / "page.html", page("A <title>", "".join(figures)))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    check_alone(text)
    assert "&quot;one&quot; &amp; more" in text
    assert "A &lt;title&gt;" in text


def hostile_page(names: Sequence[str]) -> str:
    """A page with each of the names wherever a page has words."""
    parts = []
    for place, name in enumerate(names):
        figure = new_figure(2.0)
        axes = figure.subplots()
        axes.plot([1, 2], [3, 4], label=name.replace("$", ""))
        axes.set(xlabel=name.replace("$", ""), title=name.replace("$", ""), gid=name)
        axes.legend()
        parts.append(figure_element(figure, f"figure {place} {name}", name, name, broad=bool(place % 2)))
        parts.append(table([name, name], [[name, name]]))
    return page(names[0], "".join(parts))


def test_hostile_names_stay_text() -> None:
    found = check_same_structure(hostile_page(HOSTILE), hostile_page(PLAIN))
    assert all(name in found.text for name in HOSTILE)


def test_figures_take_the_colours_of_the_page() -> None:
    figure = new_figure(2.0)
    figure.subplots().plot([1, 2], [3, 4], color=PALETTE[7])
    text = figure_element(figure, "name", "words", "a <caption>", broad=True)
    assert "var(--line-7)" in text
    assert PALETTE[7] not in text
    assert "a &lt;caption&gt;" in text


def test_tables_are_escaped_and_text_stands_left() -> None:
    text = table(["a", "b", "c"], [["<x>", "y", "1"]], n_names=2)
    assert '<td class="name">&lt;x&gt;</td><td class="name">y</td><td>1</td>' in text
    assert '<th scope="col">c</th>' in text


def test_figures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    written = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        figure = new_figure(2.0)
        figure.subplots().plot([1, 2], [3, 4], "o-")
        written.append(save_figure(figure, tmp_path / name, "figure"))
    assert [path.name for path in written[0]] == ["figure.png", "figure.svg"]
    for one, other in zip(*written, strict=True):
        assert one.read_bytes() == other.read_bytes()
