"""The page that runs an exported model in the browser, without a server behind it."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from docs.live.build import HERE, N_TRAINED, build, digits, trained

from tests.browser.conftest import OpenPage, Picture, overflow, violations

N_ROWS = 50
MOST_BYTES = 5_000_000
Strokes = list[np.ndarray]
"""Points (n, 2) of each line of a drawing."""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files, without a log."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Where a server of plain files has the page in a folder."""
    handler = functools.partial(Quiet, directory=str(folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{folder.name}/"
        server.shutdown()
        thread.join()


def drawings(kind: str) -> dict[str, Strokes]:
    known = json.loads((HERE / "strokes.json").read_text())[kind]
    return {name: [np.array(stroke) for stroke in strokes] for name, strokes in known.items()}


def by_hand(strokes: Strokes, rng: np.random.Generator) -> Strokes:
    """The same as another hand would draw it: slanted, turned, narrower or wider, and not quite steady."""
    slant, turn, width = rng.normal(0.0, 0.12), rng.normal(0.0, 0.06), np.exp(rng.normal(-0.1, 0.15))
    cos, sin = np.cos(turn), np.sin(turn)
    shape = np.array([[width, 0.0], [-slant, 1.0]]) @ np.array([[cos, sin], [-sin, cos]])
    return [(stroke - 0.5 + rng.normal(0.0, 0.012, stroke.shape)) @ shape for stroke in strokes]


def draw(page: Any, strokes: Strokes) -> None:
    """Draw with a mouse."""
    page.get_by_role("button", name="Clear").click()
    box = page.locator("canvas").first.bounding_box()
    for stroke in strokes:
        points = stroke * np.array([0.5 * box["width"], 0.7 * box["height"]])
        places = points + np.array([box["x"] + 0.25 * box["width"], box["y"] + 0.15 * box["height"]])
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=3)
        page.mouse.up()


def test_the_page(tmp_path: Path, open_page: OpenPage, picture: Picture) -> None:
    """All in one test: making the page takes minutes, and workers do not share what they made."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    folder = tmp_path / "live"
    assert build(folder)
    check_size(folder)
    with served(folder) as url:
        page = open_page(url, viewport={"width": 1000, "height": 860})
        page.locator(".verdict-words").wait_for()
        page.context.set_offline(True)  # it has all it needs
        check_drawing(page, picture)
        check_keyboard(page)
        check_empty(page)
        page.context.set_offline(False)
        check_answers(page)
        check_drawings(page)
        for scheme in ("light", "dark"):
            small = open_page(url, viewport={"width": 360, "height": 640}, color_scheme=scheme)
            small.locator(".verdict-words").wait_for()
            assert overflow(small) <= 0
            assert violations(small) == []


def check_size(folder: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    print(f"\n{sum(sizes.values()) / 1e6:.2f} MB in all", dict(sorted(sizes.items(), key=lambda each: -each[1])[:3]))
    assert sum(sizes.values()) < MOST_BYTES


def check_drawing(page: Any, picture: Picture) -> None:
    """A digit is answered, a letter is not."""
    draw(page, drawings("digits")["4"])
    page.get_by_text("It is 4.").first.wait_for()
    assert violations(page) == []
    draw(page, drawings("letters")["A"])
    page.get_by_text("I don't know this picture.").first.wait_for()
    assert page.get_by_role("status").text_content().startswith("I don't know")
    assert violations(page) == []
    picture(page, "live")


def check_keyboard(page: Any) -> None:
    """A one, drawn from the top down."""
    page.get_by_role("button", name="Clear").press("Enter")
    canvas = page.locator("canvas").first
    for _ in range(12):
        canvas.press("ArrowUp")
    for _ in range(24):
        canvas.press("Space")
        canvas.press("ArrowDown")
    page.get_by_text("It is 1.").first.wait_for()


def check_empty(page: Any) -> None:
    """An empty sheet is no question."""
    page.get_by_role("button", name="Clear").click()
    page.get_by_text("The picture is empty.").first.wait_for()
    assert page.get_by_role("status").text_content().startswith("The picture is empty.")
    assert page.locator(".bar, .pill, .gauge").count() == 0
    assert "Answered in" not in page.locator("main").inner_text()
    page.get_by_role("button", name="Draw 7").click()
    page.get_by_text("It is 7.").first.wait_for()


def check_answers(page: Any) -> None:
    """What it says of digits is what Python says of them."""
    images = digits()[0][N_TRAINED : N_TRAINED + N_ROWS]
    found = page.evaluate(
        """async (rows) => {
          const { load } = await import("./model.js");
          const model = await load();
          const answers = [];
          for (const row of rows) {
            const started = performance.now();
            const answer = await model.answer(Uint8Array.from(row));
            answers.push({ ...answer, ms: performance.now() - started });
          }
          return answers;
        }""",
        images.reshape(N_ROWS, 64).tolist(),
    )
    answer = trained().answer(images)
    doubt = answer.uncertainty
    expected = {
        "probability": answer.probabilities,
        "std": doubt.std,
        "p_value": doubt.p_value,
        "entropy": doubt.entropy,
        "mutual_information": doubt.mutual_information,
    }
    errors = {}
    for name, values in expected.items():
        if values.ndim == 2:
            got = [[each[name] for each in row["probabilities"]] for row in found]
        else:
            got = [row[name] for row in found]
        errors[name] = float(np.abs(np.array(got) - values).max())
    ms = np.array([row["ms"] for row in found])
    print(f"\nlargest errors {errors}; a prediction takes {told(ms)}")
    assert max(errors.values()) < 1e-4


def told(ms: np.ndarray) -> str:
    """Times in words: how long it takes is told and not tested."""
    return f"{np.median(ms):.1f} ms, the slowest twentieth {np.quantile(ms, 0.95):.1f} and more"


def check_drawings(page: Any) -> None:
    """Most drawn digits are answered, and most letters refused."""
    rng = np.random.default_rng(0)
    shares = {}
    for kind, n_each in (("digits", 5), ("letters", 4)):
        sketches = [(name, by_hand(strokes, rng)) for name, strokes in drawings(kind).items() for _ in range(n_each)]
        answers = page.evaluate(
            """async (sketches) => {
              const { load } = await import("./model.js");
              const { scaled } = await import("./scaling.js");
              const model = await load();
              const place = ([x, y]) => ({ x, y });
              const answers = [];
              for (const strokes of sketches) {
                const pairs = (stroke) => stroke.slice(1).map((to, before) => [place(stroke[before]), place(to)]);
                const started = performance.now();
                const answer = await model.answer(scaled(strokes.flatMap(pairs)));
                answers.push({ ...answer, ms: performance.now() - started });
              }
              return answers;
            }""",
            [[stroke.tolist() for stroke in strokes] for _, strokes in sketches],
        )
        shares[kind] = float(np.mean([answer["verdict"] == "familiar" for answer in answers]))
        print(f"\nfrom {kind} as they are drawn to their answers: {told(np.array([each['ms'] for each in answers]))}")
        if kind == "digits":
            right = np.mean([str(each["label"]) == name for each, (name, _) in zip(answers, sketches, strict=True)])
    print(f"\n{shares['digits']:.0%} of drawn digits are answered, {1 - shares['letters']:.0%} of letters refused")
    print(f"{right:.0%} of the digits are recognised, answered or not")
    assert shares["digits"] > 0.7
    assert shares["letters"] < 0.2
